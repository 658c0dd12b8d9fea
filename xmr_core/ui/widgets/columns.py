"""A method's column of answers. Its widgets are made once and filled again, so that a slider changes text and not
widgets."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import ipywidgets as w

from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.ranking import Ranking
from xmr_core.ui.widgets import cards

_CACHED = 2048  # images whose small form is cached
_CARDS = {  # whether answers are images → layout of a card
    True: w.Layout(width="138px", margin="2px", flex_flow="column"),
    False: w.Layout(width="99%", margin="2px", flex_flow="row", align_items="center"),
}
_CONTENTS = {True: w.Layout(width="auto"), False: w.Layout(flex="1 1 0%")}
_GRIDS = {True: w.Layout(flex_flow="row wrap"), False: w.Layout(flex_flow="column")}


class Card:
    """One answer, with a button that makes it the next query and one that explains it. All cards share their styles."""

    def __init__(self, rank: int, ask: Callable[[Query], None], why: Callable[[int], None], styles: dict):
        self.query, self.position = None, 0
        self.html = w.HTML(layout=_CONTENTS[True], style=styles["html"])
        style = {"layout": styles["fit"], "style": styles["button"]}
        again = w.Button(description="ask this", tooltip=f"make answer {rank} the next query", **style)
        reason = w.Button(description="why?", tooltip=f"why answer {rank} was found", **style)
        again.on_click(lambda _: ask(self.query))
        reason.on_click(lambda _: why(self.position))
        self.widget = w.Box([self.html, w.HBox([again, reason], layout=styles["fit"])], layout=_CARDS[True])

    def fill(self, content: str, query: Query, position: int, images: bool) -> None:
        """content: HTML of cards.answer. position: of the answer. images: whether answers are images."""
        self.query, self.position, self.html.value = query, position, content
        if self.widget.layout is not _CARDS[images]:
            self.widget.layout, self.html.layout = _CARDS[images], _CONTENTS[images]


class Column:
    """The answers of one method, best first. ask, why: called with the query or the position of the answer whose button
    is clicked."""

    def __init__(self, ask: Callable[[Query], None], why: Callable[[int], None]):
        self._ask, self._why, self._cards = ask, why, []
        fit = w.Layout(width="auto", flex="0 0 auto")
        self._styles = {"fit": fit, "html": w.HTML().style, "button": w.Button().style}
        self.head, self.grid = w.HTML(), w.Box(layout=_GRIDS[True])
        self.widget = w.VBox([self.head, self.grid])

    def fill(self, library: Library, ranking: Ranking, title: str, notes: Sequence[str] = ()) -> None:
        """Show a ranking. notes: a small line for each answer."""
        kinds = [kind for kind in library.relevance_sets if kind in ranking.table]
        low, high = float(ranking.scores.min()), float(ranking.scores.max())
        images, rows = ranking.target == "images", ranking.table.to_dict("records")
        while len(self._cards) < len(rows):
            self._cards.append(Card(len(self._cards) + 1, self._ask, self._why, self._styles))
        for n, (row, position) in enumerate(zip(rows, ranking.order.tolist(), strict=True)):
            share = (row["score"] - low) / (high - low) if high > low else 1.0
            marks, note = [kind for kind in kinds if row[kind]], notes[n] if notes else ""
            shown = _shown(library, position, row, images)
            content = cards.answer(row["rank"], row["score"], share, marks=marks, note=note, **shown)
            self._cards[n].fill(content, Query(ranking.target[:-1], item=row["item"]), position, images)
        self.head.value = cards.title(title) + cards.ranks(ranking.relevant, kinds)
        widgets = tuple(card.widget for card in self._cards[: len(rows)])
        if self.grid.children != widgets:
            self.grid.children = widgets
        if self.grid.layout is not _GRIDS[images]:
            self.grid.layout = _GRIDS[images]


def thumbnail(library: Library, position: int, resolution: int = cards.THUMBNAIL) -> str:
    """Data URI of the image at a position, at most `resolution` pixels wide and high; '' for a corpus of features."""
    return _thumbnail(library.pixels, position, resolution) if library.pixels is not None else ""


def close(widgets: Sequence[w.Widget]) -> None:
    """Close widgets that will not be shown again, and those inside them; otherwise the page would keep them all."""
    for widget in widgets:
        close(getattr(widget, "children", ()))
        widget.close()


def _shown(library: Library, position: int, row: dict, images: bool) -> dict[str, str]:
    """An image, its name where a corpus has features alone, or a sentence."""
    if images and library.pixels is not None:
        return {"image": thumbnail(library, position), "name": f"image {row['item']}"}
    return {"text": str(row["item"] if images else row["text"])}


@lru_cache(maxsize=_CACHED)
def _thumbnail(read: Callable, position: int, resolution: int) -> str:
    return cards.data_uri(read(position), resolution)
