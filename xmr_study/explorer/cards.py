"""The query above the answers, and a method's column of answers."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Protocol

import ipywidgets as w

from xmr_core.retrieval.explain import relative_uncertainty
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query, Ranking, encode
from xmr_study.explorer import markup
from xmr_study.explorer.views import captions_of, photograph


def query_html(query: Query, libraries: Mapping[str, Library], ranking: Ranking) -> tuple[str, str]:
    """(the query's text, HTML of the query). libraries: of the methods that are shown. ranking: of the first of
    them."""
    library, text, image = next(iter(libraries.values())), query.item or query.text, ""
    if query.kind == "caption":
        text = str(library.texts[library.position("captions", query.item)])
    elif query.kind == "image":
        image = thumbnail(library, library.position("images", query.item))
    elif query.kind == "upload":
        image = markup.data_uri(query.pixels)
    shown = f"<b>“{escape(text)}”</b>"
    if image:
        shown = f"<img src='{image}' alt='the image that was the query' class='xmr-asked'><div>{escape(text)}</div>"
    wrong = [f"not understood: <i>{escape(word)}</i>" for word in ranking.unknown_words]
    wrong += [f"<i>{escape(word)}</i> is read as <i>{escape(other)}</i>" for word, other in ranking.nearest.items()]
    wrong += [f"too long, not read: <i>{escape(ranking.cut)}</i>"] if ranking.cut else []
    shown += "".join(f"<div class='xmr-wrong'>{line}</div>" for line in wrong)
    modality = "images" if query.target == "captions" else "captions"
    for label, library in libraries.items():
        if (own := relative_uncertainty(library, modality, encode(library, query))) is not None:
            line = f"{escape(label)}: uncertainty {own[0]:.2f}, above {100 * own[1]:.0f} % of the {modality}"
            shown += f"<div class='xmr-soft'>{line}</div>"
    return text, shown


# A method's column of answers. Its widgets are made once and filled again, so that a slider changes text and not
# widgets.


_CACHED = 2048  # images whose small form is cached
_SMALL: dict[tuple, str] = {}  # (reader of images, position) → data URI, the oldest first
_FIT = w.Layout(width="auto")
_VERDICTS = {"right": "✓", "wrong": "✗"}


class Callbacks(Protocol):
    """What the buttons of an answer do."""

    def ask(self, query: Query) -> None: ...
    def explain(self, card: "Card") -> None: ...
    def mark(self, card: "Card", verdict: str) -> None: ...


class Card:
    """One answer, its buttons, and the panel that opens below it. column, row: where it stands, from 0."""

    def __init__(self, column: int, row: int, acts: Callbacks, styles: dict):
        self.column, self.row, self.query, self.position = column, row, None, 0
        self.html, self.content = w.HTML(style=styles["html"]), w.HTML()
        rank = row + 1

        def button(text: str, tip: str, act) -> w.Button:
            made = w.Button(description=text, tooltip=tip, layout=_FIT, style=styles["button"])
            made.on_click(lambda _: act())
            return made

        self.reason = button("why?", f"why answer {rank} is there", lambda: acts.explain(self))
        self.marks = {
            verdict: button(sign, f"answer {rank} is {verdict}", lambda v=verdict: acts.mark(self, v))
            for verdict, sign in _VERDICTS.items()
        }
        again = button("ask this", f"make answer {rank} the next query", lambda: acts.ask(self.query))
        buttons = w.HBox([self.reason, *self.marks.values(), again], layout=w.Layout(flex_flow="row wrap"))
        self.widget = w.Box([self.html, buttons]).add_class("xmr-card")
        self.close = button("close", f"close what is said of answer {rank}", self.shut)
        self.panel = w.VBox([self.close, self.content], layout=w.Layout(display="none")).add_class("xmr-panel")

    def fill(self, content: str, query: Query, position: int, verdict: str) -> None:
        """content: HTML of markup.answer. query: that asks this item. position: of the answer."""
        self.query, self.position, self.html.value = query, position, content
        for name, mark in self.marks.items():
            (mark.add_class if name == verdict else mark.remove_class)("xmr-on")
        self.shut()

    def open(self, content: str) -> None:
        """Show HTML below the card, mark the card, and move the page and the keyboard there."""
        self.content.value, self.panel.layout.display = content, ""
        self.widget.add_class("xmr-open")
        self.close.focus()

    def shut(self) -> None:
        """Close the panel below the card."""
        if self.panel.layout.display != "none":
            self.panel.layout.display, self.content.value = "none", ""
            self.widget.remove_class("xmr-open")


class Column:
    """The answers of one method, best first. number: 0 left, 1 right."""

    def __init__(self, number: int, acts: Callbacks):
        self._number, self._acts, self.cards = number, acts, []
        self._styles = {"html": w.HTML().style, "button": w.Button().style}
        self.head, self.grid = w.HTML(), w.Box().add_class("xmr-grid")
        self.widget = w.VBox([self.head, self.grid]).add_class("xmr-column")

    def fill(
        self, library: Library, ranking: Ranking, title: str, verdicts: Sequence[str], notes: Sequence[str] = ()
    ) -> None:
        """Show a ranking. verdicts: of each answer. notes: a small line for each answer, or none."""
        kinds = [kind for kind in library.relevance_sets if kind in ranking.table]
        images, rows = ranking.target == "images", ranking.table.to_dict("records")
        while len(self.cards) < len(rows):
            self.cards.append(Card(self._number, len(self.cards), self._acts, self._styles))
        for n, (row, position) in enumerate(zip(rows, ranking.order.tolist(), strict=True)):
            shown = {"text": str(row.get("text", ""))}
            if images:
                caption = "".join(captions_of(library, position)[:1])
                shown = {"image": thumbnail(library, position), "name": str(row["item"]), "caption": caption}
            marks, note = [kind for kind in kinds if row[kind]], notes[n] if notes else ""
            content = markup.answer(row["rank"], row["score"], marks=marks, note=note, **shown)
            self.cards[n].fill(content, Query(ranking.target[:-1], item=row["item"]), position, verdicts[n])
        self.head.value = markup.title(title) + markup.ranks(ranking.relevant, kinds)
        widgets = tuple(x for card in self.cards[: len(rows)] for x in (card.widget, card.panel))
        if self.grid.children != widgets:
            self.grid.children = widgets
        (self.grid.remove_class if images else self.grid.add_class)("xmr-texts")

    def focus(self) -> None:
        """Move the keyboard to the first answer."""
        if self.grid.children:
            self.cards[0].reason.focus()


def thumbnail(library: Library, position: int) -> str:
    """Data URI of the image at a position, small; '' for a corpus of features."""
    if library.pixels is None:
        return ""
    key = library.pixels, position
    if key not in _SMALL:
        while len(_SMALL) >= _CACHED:
            _SMALL.pop(next(iter(_SMALL)))
        _SMALL[key] = markup.data_uri(photograph(library, position, markup.THUMBNAIL))
    return _SMALL[key]


def close(widgets: Sequence[w.Widget]) -> None:
    """Close widgets that will not be shown again, and those inside them; otherwise the page would keep them all."""
    for widget in widgets:
        close(getattr(widget, "children", ()))
        widget.close()
