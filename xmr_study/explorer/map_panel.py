"""The map's part in the page, in a few lines of script: it tells Python what a person does, and draws the marks.

Plotly's own widget keeps one message for all events. A pointer that crosses a point just after a lasso replaces the
lasso's message while the kernel is busy, and the selection is lost; here each event has a place of its own. Plotly's
answer to a selection also sets the selected points of every trace anew, one after the other, each of which draws all
points again. So does a new place of an annotation, which takes a tenth of a second without a GPU; therefore the marks
of the query and its answers are elements of the page above the plot. The script looks for new plots, of which plotly
tells before they are in the page, and fits them into their place, which plotly does only when the window changes its
size.
"""

from collections.abc import Callable
from html import escape
from importlib.util import find_spec
from itertools import cycle

import anywidget
import ipywidgets as w
import numpy as np
import pandas as pd
import traitlets

from xmr_core.base.errors import require
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Ranking
from xmr_study.explorer.item_map import cluster_names, map_frame
from xmr_study.plots.style import COLOURS

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
    plot.on("plotly_click", ({ points: [point] }) => {
      model.set("clicked", { trace: point.curveNumber, point: point.pointNumber, time: Date.now() });
      model.save_changes();
    });
    plot.on("plotly_unhover", () => { model.set("hovered", {}); model.save_changes(); });
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
    was taken back; and 'time', by which a selection that is drawn a second time differs from the first. hovered,
    clicked: the number of a trace and of its point, and the time; hovered is {} beside all points.
    marks: 'x' and 'y' in the units of the map, 'text', and 'kind', a class of the style sheet; the last is drawn above
    the others."""

    _esm = _SCRIPT
    selected = traitlets.Dict().tag(sync=True)
    hovered = traitlets.Dict().tag(sync=True)
    clicked = traitlets.Dict().tag(sync=True)
    marks = traitlets.List().tag(sync=True)


# The map of a library in the explorer: points by plotly, linked with the answers in both directions.


_HEIGHT = 460  # pixels
_LAYOUTS = [("PCA", "pca"), ("t-SNE", "tsne")] + [("UMAP", "umap")] * (find_spec("umap") is not None)
_COLOURS = COLOURS.as_hex()
_MOST_SHARP = 10_000  # points that are drawn at twice the resolution
_MOST_LETTERS = 80  # of a caption that the pointer shows


class MapPanel:
    """All images and captions as points. It is computed when it is first shown, once for each layout.

    act: runs one action. later: does what takes long beside the kernel. selected: called with the frame of the selected
    points, or None when nothing is selected. hovered: (modality, position) → HTML of an item. clicked: called with the
    same of an item that is asked.
    """

    def __init__(
        self,
        act: Callable[[Callable[[], None]], None],
        later: Callable[[str, Callable[[], object], Callable[[], None]], None],
        selected: Callable[[pd.DataFrame | None], None],
        hovered: Callable[[str, int], str],
        clicked: Callable[[str, int], None],
    ):
        self._act, self._later, self._selected, self._hovered, self._clicked = act, later, selected, hovered, clicked
        self.figure, self.frame, self.page, self._tables, self._selecting = None, None, None, [], False
        self._library, self._ranking, self._query = None, None, None
        self._frames: dict[tuple[int, str], pd.DataFrame] = {}  # by library and layout
        names = {"style": {"description_width": "initial"}, "layout": w.Layout(width="auto")}
        self.layout = w.Dropdown(options=_LAYOUTS, description="Map by", **names)
        self.colour = w.Dropdown(options=["modality", "split", "cluster"], description="Colour by", **names)
        self.legend, self.item = w.HTML(), w.HTML(layout=w.Layout(width="230px", flex="0 0 auto"))
        self.place = w.Box(layout=w.Layout(flex="1 1 340px", min_width="0", height=f"{_HEIGHT}px"))
        self.layout.observe(lambda _: act(self._draw), "value")
        self.colour.observe(lambda _: act(self._paint), "value")
        menus = w.HBox([self.layout, self.colour, self.legend], layout=w.Layout(flex_flow="row wrap"))
        drawn = w.HBox([self.place, self.item], layout=w.Layout(flex_flow="row wrap"))
        self.widget = w.VBox([menus, drawn], layout=w.Layout(display="none")).add_class("xmr-map")

    def update(self, library: Library, ranking: Ranking, query: tuple[str, int] | None) -> None:
        """Light up a query and its answers. query: modality and position of an item of the library, None for another
        one, which has no place on the map."""
        changed = library is not self._library
        self._library, self._ranking, self._query = library, ranking, query
        if self.widget.layout.display != "none":
            self._draw() if changed or self.figure is None else self._light()

    def select_nothing(self) -> None:
        """Draw all points alike again."""
        if self._selecting:
            self._selecting = False
            self._draw()  # anew, because Python cannot take back what the page selected: plotly selects it again

    def show(self, wanted: bool) -> None:
        """Show the panel, with what was ranked while it was closed, or hide it."""
        self.widget.layout.display = "" if wanted else "none"
        if wanted and self._library is not None:
            self._draw()

    def csv(self) -> str:
        """The map as a table: file, text, split, cluster, x and y, with the column names that FiftyOne's CSVDataset and
        embedding-atlas take."""
        frame, library = self._frame(), self._library
        files = [library.paths(p) if m == "images" else "" for m, p in frame[["modality", "position"]].values]
        return frame.assign(filepath=files).to_csv(index=False)

    def _frame(self) -> pd.DataFrame:
        key = id(self._library), self.layout.value
        if key not in self._frames:
            self._frames[key] = map_frame(self._library, self.layout.value)
        return self._frames[key]

    def _draw(self) -> None:
        """Make all points anew, as soon as it is known where they stand."""
        require("the map", "notebooks", "plotly", "anywidget", "sklearn")
        if (id(self._library), self.layout.value) in self._frames:
            return self._draw_points()
        n = len(self._library.image_ids) + len(self._library.caption_ids)
        self._later(f"placing {n:,} points by {self.layout.label}", self._frame, self._draw_points)

    def _draw_points(self) -> None:
        from plotly import graph_objects as go

        self.frame = self._frame()
        self._tables = list(self.frame.groupby("modality", sort=False))
        traces = []
        for modality, table in self._tables:
            marker = {"size": 7, "symbol": "circle"} if modality == "images" else {"size": 4, "symbol": "diamond"}
            traces.append(
                go.Scattergl(
                    x=table["x"].to_numpy(np.float32), y=table["y"].to_numpy(np.float32), mode="markers",
                    text=table["text"].astype(str).str[:_MOST_LETTERS], hovertemplate="%{text}<extra></extra>",
                    name=modality, marker=marker | {"opacity": 0.75}, selected={"marker": {"opacity": 0.9}},
                    unselected={"marker": {"opacity": 0.12}},
                )
            )  # fmt: skip
        clear, axis = "rgba(0,0,0,0)", {"visible": False, "showgrid": False, "zeroline": False}
        figure = go.FigureWidget(traces)
        sharp = 2 if len(self.frame) <= _MOST_SHARP else 1  # a browser without a GPU draws every pixel by itself
        figure._config = {"responsive": True, "displaylogo": False, "plotGlPixelRatio": sharp}
        figure.update_layout(
            autosize=True, height=_HEIGHT, margin={"l": 0, "r": 0, "t": 0, "b": 0}, dragmode="lasso", showlegend=False,
            paper_bgcolor=clear, plot_bgcolor=clear, xaxis=axis, yaxis=axis, hovermode="closest", uirevision="one",
            modebar={"bgcolor": clear, "color": "#808080", "activecolor": "#a34700"},
        )  # fmt: skip
        figure.unobserve_all("_js2py_pointsCallback")  # of events, which MapPage tells
        self.figure = figure
        if self.page is None:
            self.page = MapPage()
            self.page.observe(lambda change: self._choose(change["new"]["points"]), "selected")
            self.page.observe(lambda change: self._point(**change["new"]), "hovered")
            self.page.observe(lambda change: self._click(**change["new"]), "clicked")
            self.widget.children = (*self.widget.children, self.page)
        self._paint()
        self._light()
        old, self.place.children = self.place.children, (figure,)
        for drawn in old:
            drawn.close()  # otherwise the page would keep it

    def _paint(self) -> None:
        """Colour the points by groups."""
        if self.figure is None:
            return
        groups, names = pd.factorize(self.frame[self.colour.value].astype(str), sort=True)
        if self.colour.value == "cluster":
            named = cluster_names(self.frame)
            names = [named.get(int(name), f"cluster {name}") for name in names]
        colours = np.array(_COLOURS)[groups % len(_COLOURS)]
        with self.figure.batch_update():
            for trace, (_, table) in zip(self.figure.data, self._tables, strict=True):
                trace.marker.color = colours[table.index]
        pairs = zip(cycle(_COLOURS), names, strict=False)
        dot = "<span style='display:inline-block;width:11px;height:11px;border-radius:6px;background:{}'></span> {}"
        self.legend.value = " &nbsp; ".join(dot.format(colour, escape(name or "none")) for colour, name in pairs)

    def _light(self) -> None:
        """Mark the query and its answers."""
        tables = dict(self._tables)
        rows = tables[self._ranking.target].iloc[self._ranking.order]
        marks = [(str(n), "xmr-answer", row) for n, (_, row) in enumerate(rows.iterrows(), 1)]
        if self._query is not None:  # a query from elsewhere has no place among these
            modality, position = self._query
            marks.insert(0, ("★", "xmr-star", tables[modality].iloc[position]))
        self.page.marks = [
            {"x": float(place["x"]), "y": float(place["y"]), "text": text, "kind": kind}
            for text, kind, place in reversed(marks)
        ]

    def _choose(self, points: dict[str, list[int]] | None) -> None:
        """points: of each trace by its number, None when the selection was taken back."""
        places = points or {}
        chosen = pd.concat([table.iloc[places.get(str(n), [])] for n, (_, table) in enumerate(self._tables)])
        self._selecting = len(chosen) > 0
        self._act(lambda: self._selected(chosen if len(chosen) else None))

    def _point(self, trace: int = -1, point: int = 0, **_) -> None:
        """Show the item under the pointer, nothing beside all points."""
        self.item.value = "" if trace < 0 else self._hovered(*self._at(trace, point))

    def _click(self, trace: int, point: int, **_) -> None:
        self._clicked(*self._at(trace, point))

    def _at(self, trace: int, point: int) -> tuple[str, int]:
        modality, table = self._tables[trace]
        return modality, int(table.iloc[point]["position"])
