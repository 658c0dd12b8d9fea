"""The map's part in the page, in a few lines of script: it tells Python what a person does, and draws the marks.

Plotly's own widget keeps one message for all events. A pointer that crosses a point just after a lasso replaces the
lasso's message while the kernel is busy, and the selection is lost; here each event has a place of its own. Plotly's
answer to a selection also sets the selected points of every trace anew, one after the other, each of which draws all
points again. So does a new place of an annotation, which takes a tenth of a second without a GPU; therefore the marks
of the query and its answers are elements of the page above the plot. The script looks for new plots, of which plotly
tells before they are in the page, and fits them into their place, which plotly does only when the window changes its
size.
"""

import anywidget
import traitlets

_SCRIPT = """
function render({ model, el }) {
  const panel = () => el.closest(".xmr-map");
  const known = new WeakSet();
  let width = 0;
  const say = points => { model.set("selected", points); model.save_changes(); };
  const place = plot => {
    const { xaxis, yaxis } = plot._fullLayout ?? {};
    if (!xaxis?.l2p) return;
    const layer = plot.querySelector(".xmr-marks") ?? plot.appendChild(document.createElement("div"));
    layer.className = "xmr-marks";
    layer.replaceChildren(...model.get("marks").map(mark => {
      const sign = document.createElement("span"), x = xaxis.l2p(mark.x), y = yaxis.l2p(mark.y);
      sign.textContent = mark.text;
      sign.className = mark.kind;
      sign.style.left = `${xaxis._offset + x}px`;
      sign.style.top = `${yaxis._offset + y}px`;
      sign.hidden = x < 0 || y < 0 || x > xaxis._length || y > yaxis._length;  // where the map is enlarged
      return sign;
    }));
  };
  const placeAll = () => panel()?.querySelectorAll(".js-plotly-plot").forEach(place);
  model.on("change:marks", placeAll);
  const connect = plot => {
    known.add(plot);
    plot.on("plotly_selected", event => {
      if (!event) return;
      const points = {};
      for (const point of event.points) (points[point.curveNumber] ??= []).push(point.pointNumber);
      say({ points, time: Date.now() });
    });
    plot.on("plotly_hover", ({ points: [point] }) => {
      model.set("hovered", { trace: point.curveNumber, point: point.pointNumber, time: Date.now() });
      model.save_changes();
    });
    plot.on("plotly_deselect", () => say({ points: null, time: Date.now() }));
    for (const name of ["plotly_afterplot", "plotly_relayout", "plotly_relayouting"]) plot.on(name, () => place(plot));
    place(plot);
    width = 0;  // its place may be larger than the plot
  };
  const timer = setInterval(() => {
    for (const plot of panel()?.querySelectorAll(".js-plotly-plot") ?? [])
      if (plot._fullLayout && plot.on && !known.has(plot)) connect(plot);
    if (panel() && panel().clientWidth !== width) {
      width = panel().clientWidth;
      window.dispatchEvent(new Event("resize"));
    }
  }, 200);
  return () => clearInterval(timer);
}
export default { render };
"""


class MapPage(anywidget.AnyWidget):
    """selected: 'points', the number of a trace (as text) → numbers of its selected points, or None when the selection
    was taken back; and 'time', by which a selection that is drawn a second time differs from the first. hovered: the
    number of a trace and of its point, and the time. marks: 'x' and 'y' in the units of the map, 'text', and 'kind', a
    class of the style sheet; the last is drawn above the others."""

    _esm = _SCRIPT
    selected = traitlets.Dict().tag(sync=True)
    hovered = traitlets.Dict().tag(sync=True)
    marks = traitlets.List().tag(sync=True)
