"""A method's column of answers. Its widgets are made once and filled again for every ranking, so that a slider moves text, not widgets."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import ipywidgets as w

from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.ranking import Ranking
from xmr_core.ui.widgets import cards

_THUMBS = 2048  # pictures whose small form is remembered


class Card:
    """One answer with a button that asks it and one that says why. All cards share their layouts and styles."""

    _box = {True: w.Layout(width="138px", margin="2px", flex_flow="column"), False: w.Layout(width="99%", margin="2px", flex_flow="row", align_items="center")}  # fmt: skip
    _html = {True: w.Layout(width="auto"), False: w.Layout(flex="1 1 0%")}

    def __init__(self, rank: int, ask: Callable[[Query], None], why: Callable[[int], None], styles: dict):
        self.query, self.at = None, 0
        self.html = w.HTML(layout=self._html[True], style=styles["html"])
        again = w.Button(description="ask this", tooltip=f"make answer {rank} the next query", layout=styles["fit"], style=styles["button"])
        reason = w.Button(description="why?", tooltip=f"why answer {rank} was found", layout=styles["fit"], style=styles["button"])
        again.on_click(lambda _: ask(self.query))
        reason.on_click(lambda _: why(self.at))
        self.widget = w.Box([self.html, w.HBox([again, reason], layout=styles["fit"])], layout=self._box[True])

    def fill(self, content: str, query: Query, at: int, pictures: bool) -> None:
        """content: HTML of cards.answer."""
        self.query, self.at, self.html.value = query, at, content
        if self.widget.layout is not self._box[pictures]:
            self.widget.layout, self.html.layout = self._box[pictures], self._html[pictures]


class Column:
    """The answers of one method, best first. ask, why: called with the query, or the position, of the answer whose button is clicked."""

    _grid = {True: w.Layout(flex_flow="row wrap"), False: w.Layout(flex_flow="column")}

    def __init__(self, ask: Callable[[Query], None], why: Callable[[int], None]):
        self._ask, self._why, self._cards = ask, why, []
        self._styles = {"fit": w.Layout(width="auto", flex="0 0 auto"), "html": w.HTML().style, "button": w.Button().style}
        self.head, self.grid = w.HTML(), w.Box(layout=self._grid[True])
        self.widget = w.VBox([self.head, self.grid])

    def fill(self, library: Library, ranking: Ranking, title: str, notes: Sequence[str] = ()) -> None:
        """Show a ranking. notes: a small line for each answer."""
        kinds = [kind for kind in library.judges if kind in ranking.table]
        low, high = float(ranking.scores.min()), float(ranking.scores.max())
        pictures, rows = ranking.target == "images", ranking.table.to_dict("records")
        while len(self._cards) < len(rows):
            self._cards.append(Card(len(self._cards) + 1, self._ask, self._why, self._styles))
        for n, (row, at) in enumerate(zip(rows, ranking.order.tolist(), strict=True)):
            content = cards.answer(
                row["rank"],
                row["score"],
                (row["score"] - low) / (high - low) if high > low else 1.0,
                marks=[k for k in kinds if row[k]],
                note=notes[n] if notes else "",
                **_shown(library, at, row, pictures),
            )
            self._cards[n].fill(content, Query(ranking.target[:-1], item=row["item"]), at, pictures)
        self.head.value = cards.title(title) + cards.ranks(ranking.relevant, kinds)
        shown = tuple(card.widget for card in self._cards[: len(rows)])
        if self.grid.children != shown:
            self.grid.children = shown
        if self.grid.layout is not self._grid[pictures]:
            self.grid.layout = self._grid[pictures]


def _shown(library: Library, at: int, row: dict, pictures: bool) -> dict[str, str]:
    """A picture, or its name where a corpus brings features alone; or a sentence."""
    if pictures and library.pixels is not None:
        return {"picture": picture(library, at), "name": f"picture {row['item']}"}
    return {"text": str(row["item"] if pictures else row["text"])}


@lru_cache(maxsize=_THUMBS)
def _thumb(read: Callable, at: int, side: int) -> str:
    return cards.data_uri(read(at), side)


def picture(library: Library, at: int, side: int = cards.THUMB) -> str:
    """Data URI of the picture at a position; '' for a corpus of features."""
    return _thumb(library.pixels, at, side) if library.pixels is not None else ""


def close(widgets: Sequence[w.Widget]) -> None:
    """Widgets that will not be shown again, and what is in them: a page keeps every one until it is told."""
    for widget in widgets:
        close(getattr(widget, "children", ()))
        widget.close()
