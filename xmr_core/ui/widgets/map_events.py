"""What a person does on the map, told to Python by a few lines of script in the page.

Plotly's own widget keeps one message for all events. A pointer that crosses a point just after a lasso replaces the
lasso's message while the kernel is busy, and the selection is lost; here each event has a place of its own. Plotly's
answer to a selection also sets the selected points of every trace anew, one after the other, each of which draws all
points again. The script also fits the figure into its place, which plotly does only when the window changes its size.
"""

import anywidget
import traitlets

_SCRIPT = """
function render({ model, el }) {
  const panel = () => el.closest(".xmr-map");
  const say = points => { model.set("selected", points); model.save_changes(); };
  const connect = plot => {
    plot.on("plotly_selected", event => {
      if (!event) return;
      const points = {};
      for (const point of event.points) (points[point.curveNumber] ??= []).push(point.pointNumber);
      say({ points, time: Date.now() });
    });
    const tell = name => ({ points: [point] }) => {
      model.set(name, { trace: point.curveNumber, point: point.pointNumber, time: Date.now() });
      model.save_changes();
    };
    plot.on("plotly_click", tell("clicked"));
    plot.on("plotly_hover", tell("hovered"));
    plot.on("plotly_deselect", () => say({ points: null, time: Date.now() }));
    window.dispatchEvent(new Event("resize"));
  };
  const rendered = ({ detail: { element } }, tries = 300) => {  // plotly says so before it is in the page
    if (panel()?.contains(element)) connect(element);
    else if (!element.isConnected && tries) requestAnimationFrame(() => rendered({ detail: { element } }, tries - 1));
  };
  document.addEventListener("plotlywidget-after-render", rendered);
  const present = panel()?.querySelector(".js-plotly-plot");
  if (present?._fullLayout && present.on) connect(present);
  let width = 0;
  const watch = new ResizeObserver(([entry]) => {
    if (entry.contentRect.width !== width) {
      width = entry.contentRect.width;
      window.dispatchEvent(new Event("resize"));
    }
  });
  const start = () => panel() ? watch.observe(panel()) : requestAnimationFrame(start);
  start();
  return () => { document.removeEventListener("plotlywidget-after-render", rendered); watch.disconnect(); };
}
export default { render };
"""


class MapEvents(anywidget.AnyWidget):
    """selected: 'points', the number of a trace (as text) → numbers of its selected points, or None when the selection
    was taken back; and 'time', by which a selection that is drawn a second time differs from the first. clicked,
    hovered: the number of a trace and of its point, and the time."""

    _esm = _SCRIPT
    selected = traitlets.Dict().tag(sync=True)
    clicked = traitlets.Dict().tag(sync=True)
    hovered = traitlets.Dict().tag(sync=True)
