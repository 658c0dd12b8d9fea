"""The map of a library in the explorer: points by plotly, linked with the answers in both directions."""

from collections.abc import Callable

import ipywidgets as w
import numpy as np
import pandas as pd

from xmr_core.base.extras import require
from xmr_core.search.item_map import LAYOUTS, element_places, map_frame
from xmr_core.search.library import Library
from xmr_core.search.ranking import Ranking
from xmr_core.ui.widgets.map_colours import COLOURINGS, legend_html, point_colours

_HEIGHT = 460  # pixels
_LAYOUT_NAMES = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
_MOST_SHARP = 10_000  # points that are drawn at twice the resolution
_MOST_LETTERS = 80  # of a caption that the pointer shows
_NO_AXIS = {"visible": False, "showgrid": False, "zeroline": False}
_SYMBOLS = {"images": "circle", "captions": "diamond"}


class MapPanel:
    """All images and captions as points. It is made when it is first shown.

    act: runs one action. selected: called with the frame of the selected points, or None when nothing is selected.
    hovered: (modality, position) → HTML of an item.
    """

    def __init__(
        self,
        act: Callable[[Callable[[], None]], None],
        selected: Callable[[pd.DataFrame | None], None],
        hovered: Callable[[str, int], str],
    ):
        self._act, self._selected, self._hovered = act, selected, hovered
        self.figure, self.frame, self._library, self._ranking, self._query = None, None, None, None, None
        self.page, self._selecting = None, False
        names = {"style": {"description_width": "initial"}, "layout": w.Layout(width="auto")}
        layouts = [(_LAYOUT_NAMES[name], name) for name in LAYOUTS]
        self.layout = w.Dropdown(options=layouts, description="Map by", **names)
        self.colour = w.Dropdown(options=list(COLOURINGS), description="Colour by", **names)
        self.legend, self.item = w.HTML(), w.HTML(layout=w.Layout(width="230px", flex="0 0 auto"))
        self.place = w.Box(layout=w.Layout(flex="1 1 340px", min_width="0", height=f"{_HEIGHT}px"))
        self.layout.observe(lambda _: act(self._draw), "value")
        self.colour.observe(lambda _: act(self._paint), "value")
        menus = w.HBox([self.layout, self.colour, self.legend], layout=w.Layout(flex_flow="row wrap"))
        drawn = w.HBox([self.place, self.item], layout=w.Layout(flex_flow="row wrap"))
        self.widget = w.VBox([menus, drawn], layout=w.Layout(display="none")).add_class("xmr-map")

    @property
    def visible(self) -> bool:
        """Whether the panel is open."""
        return self.widget.layout.display != "none"

    def update(self, library: Library, ranking: Ranking, query: tuple[str, int] | None) -> None:
        """Light up a query and its answers. query: modality and position of an item of the library, None for another
        one, which is drawn among its first answers."""
        changed = library is not self._library
        self._library, self._ranking, self._query = library, ranking, query
        if self.visible:
            self._draw() if changed or self.figure is None else self._light()

    def select_nothing(self) -> None:
        """Draw all points alike again."""
        if self._selecting:
            self._selecting = False
            self._draw()  # anew, because Python cannot take back what the page selected: plotly selects it again

    def show(self) -> None:
        """Draw what was ranked while the panel was closed."""
        if self._library is not None:
            self._act(self._draw)

    def _draw(self) -> None:
        """Make all points anew."""
        require("the map", "notebooks", "plotly", "anywidget", "sklearn")
        from plotly import graph_objects as go

        self.frame = map_frame(self._library, self.layout.value)
        traces = []
        for modality, table in self.frame.groupby("modality", sort=False):
            size = 7 if modality == "images" else 4
            texts = [str(text)[:_MOST_LETTERS] for text in table["text"]]
            traces.append(
                go.Scattergl(
                    x=table["x"].to_numpy(np.float32), y=table["y"].to_numpy(np.float32), text=texts, mode="markers",
                    name=modality, hovertemplate="%{text}<extra></extra>", selected={"marker": {"opacity": 0.9}},
                    unselected={"marker": {"opacity": 0.12}},
                    marker={"size": size, "symbol": _SYMBOLS[modality], "opacity": 0.75},
                )
            )  # fmt: skip
        part = {"size": 11, "symbol": "x", "color": "#cc78bc", "line": {"width": 1, "color": "#000000"}}
        # By WebGL as the items: plotly draws WebGL above SVG, so points would cover the lines.
        line = {"marker": part, "line": {"color": "#808080", "width": 1}, "name": "elements", "hoverinfo": "skip"}
        traces.append(go.Scattergl(x=[], y=[], mode="lines+markers", unselected={"marker": {"opacity": 1}}, **line))
        figure = go.FigureWidget(traces)
        clear = "rgba(0,0,0,0)"
        sharp = 2 if len(self.frame) <= _MOST_SHARP else 1  # a browser without a GPU draws every pixel by itself
        figure._config = {"responsive": True, "displaylogo": False, "plotGlPixelRatio": sharp}
        figure.update_layout(
            autosize=True,
            height=_HEIGHT, margin={"l": 0, "r": 0, "t": 0, "b": 0}, dragmode="lasso", showlegend=False,
            paper_bgcolor=clear, plot_bgcolor=clear, xaxis=_NO_AXIS, yaxis=_NO_AXIS, hovermode="closest",
            uirevision="one", modebar={"bgcolor": clear, "color": "#808080", "activecolor": "#a34700"},
        )  # fmt: skip
        figure.unobserve_all("_js2py_pointsCallback")  # of events, which MapPage tells
        self.figure = figure
        if self.page is None:
            from xmr_core.ui.widgets.map_page import MapPage

            self.page = MapPage()
            self.page.observe(lambda change: self._choose(change["new"]["points"]), "selected")
            self.page.observe(lambda change: self._act(lambda: self._show_elements(change["new"])), "clicked")
            self.page.observe(lambda change: self._point(change["new"]), "hovered")
            self.widget.children = (*self.widget.children, self.page)
        self._paint()
        for old in self.place.children:
            old.close()
        self.place.children = (figure,)

    def _paint(self) -> None:
        """Colour the points."""
        if self.figure is None:
            return
        colours = point_colours(self.frame, self.colour.value, self._ranking)
        with self.figure.batch_update():
            for number, modality in enumerate(self.frame["modality"].unique()):
                own = (self.frame["modality"] == modality).to_numpy()
                marker = self.figure.data[number].marker
                marker.color, marker.colorscale = colours.values[own], colours.scale
                marker.cmin, marker.cmax = colours.low, colours.high
        self.legend.value = legend_html(colours)
        self._light()

    def _light(self) -> None:
        """Mark the query and its answers."""
        ranking = self._ranking
        rows = self.frame[self.frame["modality"] == ranking.target].iloc[ranking.order]
        if self.colour.value == "rank" and self.figure.data[0].marker.color is not None:
            self._paint_ranks()
        query = rows.head(3)[["x", "y"]].mean()
        if self._query is not None:
            modality, position = self._query
            query = self.frame[self.frame["modality"] == modality].iloc[position]
        answers = [
            {"x": float(row.x), "y": float(row.y), "text": str(rank), "kind": "xmr-answer"}
            for rank, row in enumerate(rows.itertuples(), 1)
        ]
        star = {"x": float(query["x"]), "y": float(query["y"]), "text": "★", "kind": "xmr-query"}
        self.page.marks = [*answers[::-1], star]

    def _paint_ranks(self) -> None:
        colours = point_colours(self.frame, "rank", self._ranking)
        for number, modality in enumerate(self.frame["modality"].unique()):
            self.figure.data[number].marker.color = colours.values[(self.frame["modality"] == modality).to_numpy()]

    def _choose(self, points: dict[str, list[int]] | None) -> None:
        """points: of each trace by its number, None when the selection was taken back."""
        rows = []
        for number, modality in enumerate(self.frame["modality"].unique()):
            rows.append(self.frame[self.frame["modality"] == modality].iloc[(points or {}).get(str(number), [])])
        chosen = pd.concat(rows)
        self._selecting = len(chosen) > 0
        self._selected(chosen if len(chosen) else None)

    def _show_elements(self, click: dict) -> None:
        """Lines from the item that was clicked to each of its elements; a second click takes them back."""
        names, elements = self.frame["modality"].unique(), self.figure.data[-1]
        if click["trace"] >= len(names):  # an element
            return
        modality = names[click["trace"]]
        item = self.frame[self.frame["modality"] == modality].iloc[click["point"]]
        start, lines = [item["x"], item["y"]], []
        places = element_places(self._library, modality, click["point"], self.frame, self.layout.value)
        for place in places:
            lines += [start, place, [None, None]]
        if elements.x is not None and len(elements.x) and elements.x[0] == start[0]:
            lines = []
        with self.figure.batch_update():
            elements.x, elements.y = [x for x, _ in lines], [y for _, y in lines]

    def _point(self, hover: dict) -> None:
        """Show the item under the pointer."""
        names = self.frame["modality"].unique()
        if hover["trace"] < len(names):
            modality = names[hover["trace"]]
            row = self.frame[self.frame["modality"] == modality].iloc[hover["point"]]
            self.item.value = self._hovered(modality, int(row["position"]))
