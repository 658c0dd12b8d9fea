"""The explorer's widgets: they hold no thought of their own, only the state and what to call when something is clicked."""

import io
from collections.abc import Callable, Sequence

import ipywidgets as w
import numpy as np

from xmr_core.base.errors import BadInput, XmrError
from xmr_core.data.images.files import UNREADABLE, decoded
from xmr_core.search.library import Library
from xmr_core.search.query import Query, encode
from xmr_core.search.state import (
    State,
    ambiguous_queries,
    answers,
    hard_query,
    moved,
    random_query,
    ranks_by,
    unsure_queries,
)
from xmr_core.search.why import doubt
from xmr_core.ui.widgets import cards
from xmr_core.ui.widgets.columns import Column, close, picture
from xmr_core.ui.widgets.settings import in_words, settings_row
from xmr_core.ui.widgets.why import why_panel

_NONE = "–"
_START = "Type a sentence, or let one of the buttons choose a query."
_STATIC = "<p>The explorer needs a running kernel: run this cell. What it shows for one query is the figure at the end.</p>"
_WRAP = {"flex_flow": "row wrap"}
_CHOICES = 20  # queries that a button goes through


class Explorer:
    """Ask trained methods: type a sentence, pick or upload a picture, see answers of one or two methods side by side, and why.

    Args: open_library: label → Library; called once per method, when it is first needed, while 'busy' is shown. labels: methods to choose
        from. k: answers at first. seed: of random queries.
    Use: an Explorer as the last line of a cell shows it. Everything that goes wrong is said in one line in place, and the explorer goes on.
    """

    def __init__(self, open_library: Callable[[str], Library], labels: Sequence[str], k: int = 10, seed: int = 0):
        if not labels:
            raise BadInput("no method to explore; give at least one label.")
        self._open, self.labels, self.libraries = open_library, tuple(labels), {}
        self.state, self.found, self._drawn = State((labels[0],)).show(k), [], seed
        self._busy, self._quiet, self._controls_of = False, False, None
        self._build(k)
        self._say(_START)

    def _repr_mimebundle_(self, **options):
        return {**self.widget._repr_mimebundle_(**options), "text/html": _STATIC}  # the HTML is for pages that know no widgets

    # ------------------------------------------------------------------------------------------------------------- what is there

    def _build(self, k: int) -> None:
        wide = w.Layout(width="99%")
        self.text = w.Text(
            description="Sentence", placeholder="a red circle above a blue square", continuous_update=False, layout=w.Layout(width="60%")
        )
        draw = lambda find: lambda: self._draw(find)  # noqa: E731
        acts = {
            "Ask": ("rank the pictures for this sentence", self.ask_text),
            "Random picture": ("captions for a picture of the corpus", draw(lambda lib, n: random_query(lib, "image", n))),
            "Random caption": ("pictures for a caption of the corpus", draw(lambda lib, n: random_query(lib, "caption", n))),
            "Hard": ("a caption whose first answer is wrong", draw(lambda lib, n: hard_query(lib, seed=n))),
            "Ambiguous": ("a caption that many pictures fit", draw(lambda lib, n: _turn(ambiguous_queries(lib, n=_CHOICES), n))),
            "Unsure": ("a caption of which the first method is least sure", draw(lambda lib, n: _turn(unsure_queries(lib, n=_CHOICES), n))),
            "Back": ("the query before", self.back),
        }
        self.buttons = {name: w.Button(description=name, tooltip=tip, layout=w.Layout(width="auto")) for name, (tip, _) in acts.items()}
        for name, (_, act) in acts.items():
            self.buttons[name].on_click(lambda _, act=act: act())
        self.upload = w.FileUpload(accept="image/*", multiple=False, description="Upload a picture", layout=w.Layout(width="auto"))
        self.first = w.Dropdown(options=self.labels, description="Method")
        self.second = w.Dropdown(options=(_NONE, *self.labels), value=_NONE, description="beside")
        self.k = w.IntSlider(value=k, min=1, max=30, description="answers", continuous_update=False)
        self.status, self.query, self.links = w.HTML(), w.HTML(), w.HTML()
        self.columns = [Column(self.ask, lambda at, place=place: self._do(lambda: self._why(place, at))) for place in (0, 1)]
        self.controls, self.answers, self.why = w.VBox(layout=wide), w.HBox(layout=wide), w.VBox(layout=wide)
        chosen = [button for name, button in self.buttons.items() if name != "Ask"]
        self.widget = w.VBox([
            w.HBox([self.text, self.buttons["Ask"]]), w.HBox([*chosen, self.upload], layout=w.Layout(**_WRAP)),
            w.HBox([self.first, self.second, self.k], layout=w.Layout(**_WRAP)),
            self.controls, self.status, self.query, self.answers, self.why,
        ])  # fmt: skip
        self.text.observe(lambda change: change["new"].strip() and self.ask_text(), "value")
        self.upload.observe(self._uploaded, "value")
        for choice in (self.first, self.second):
            choice.observe(lambda _: self.choose(), "value")
        self.k.observe(lambda change: self._do(lambda: self._go(self.state.show(change["new"]))), "value")

    # ------------------------------------------------------------------------------------------------------------ what can be done

    def ask(self, query: Query) -> None:
        """Ask, and show the answers."""
        self._do(lambda: self._go(self.state.ask(query)))

    def ask_text(self) -> None:
        self._do(lambda: self._go(self.state.ask(Query("text", self.text.value))))

    def ask_upload(self, content: bytes) -> None:
        def act():
            try:
                found = np.array(decoded(io.BytesIO(bytes(content))))
            except UNREADABLE as e:
                raise BadInput("this file is no picture that can be read; upload a JPEG or PNG.") from e
            self._go(self.state.ask(Query("picture", text="uploaded picture", pixels=found)))

        self._do(act)

    def back(self) -> None:
        def act():
            if not self.state.past:
                raise BadInput("there is no query before this one.")
            self._go(self.state.back())

        self._do(act)

    def choose(self) -> None:
        """Take the methods from the two menus."""
        if not self._quiet:
            labels = [self.first.value, *([self.second.value] if self.second.value != _NONE else [])]
            self._do(lambda: self._go(self.state.compare(*labels)))

    def _uploaded(self, change: dict) -> None:
        if change["new"]:
            self.ask_upload(change["new"][0]["content"])
            self.upload.value = ()  # so that the same file can be chosen again

    def _draw(self, find: Callable[[Library, int], Query]) -> None:
        def act():
            self._drawn += 1
            self._go(self.state.ask(find(self._library(self.state.methods[0]), self._drawn)))

        self._do(act)

    # --------------------------------------------------------------------------------------------------------------- how it is done

    def _do(self, act: Callable[[], None]) -> None:
        """One thing at a time; what goes wrong is said, and nothing else changes."""
        if self._busy:
            return
        self._busy = True
        try:
            self._say("busy …", "busy")
            act()
        except XmrError as e:
            self._say(str(e), "error")
        except Exception as e:  # the explorer must go on, whatever a file or a method does
            self._say(f"this could not be done ({type(e).__name__}: {str(e).splitlines()[0] if str(e) else 'no reason given'}).", "error")
        finally:
            self._menus()
            self._busy = False

    def _say(self, text: str, kind: str = "info") -> None:
        self.status.value = cards.message(text, kind)

    def _library(self, label: str) -> Library:
        if label not in self.libraries:
            self._say(f"busy: opening {label} …", "busy")
            self.libraries[label] = self._open(label)
        return self.libraries[label]

    def _go(self, state: State) -> None:
        """Show a state; only when it can be answered does it become the present one."""
        for label in state.methods:
            self._library(label)
        self.found = answers(state, self.libraries)
        self.state = state
        self._settings_of_methods()
        self._show()

    def _menus(self) -> None:
        """Let menus and slider say what is shown."""
        self._quiet = True
        self.first.value = self.state.methods[0]
        self.second.value = self.state.methods[1] if len(self.state.methods) > 1 else _NONE
        self.k.value = self.state.usual.k
        self._quiet = False

    def _settings_of_methods(self) -> None:
        """Sliders and menus of the methods that are shown; they are kept until other methods are."""
        if self._controls_of == self.state.methods:
            return
        rows = []
        for place, label in enumerate(self.state.methods):
            changed = lambda place=place, **changes: self._do(lambda: self._go(self.state.set(place, **changes)))  # noqa: E731
            rows.append(settings_row(self.libraries[label], self._title(place), self.state.settings_of(place), changed))
        close(self.controls.children)
        self.controls.children, self._controls_of = [row for row in rows if row is not None], self.state.methods

    def _title(self, place: int) -> str:
        """The method's label, with its place where it is shown twice."""
        label = self.state.methods[place]
        return f"{label}, {('left', 'right')[place]}" if self.state.methods.count(label) > 1 else label

    # ------------------------------------------------------------------------------------------------------------------ what is seen

    def _show(self) -> None:
        close(self.why.children)
        self.why.children = []
        query, two = self.state.query, len(self.state.methods) > 1
        if query is None:
            self._say(_START)
            return
        self.query.value = cards.asked(self._sentence(query), self._asked_picture(query), self._doubts(query), self.found[0].unknown_words)
        if query.kind == "text" and self.text.value != query.text:
            self.text.value = query.text  # observed, but busy: nothing is asked twice
        for place, (label, ranking) in enumerate(zip(self.state.methods, self.found, strict=True)):
            library = self.libraries[label]
            changed = in_words(library, self.state.settings_of(place))
            title = self._title(place) + (f" ({changed})" if changed else "")
            notes = [f"{self._title(1 - place)}: rank {r:,}" for r in ranks_by(self.found[1 - place], ranking)] if two else ()
            self.columns[place].fill(library, ranking, title, notes)
        if two:
            self.links.value = cards.links(moved(*self.found), *(len(ranking.order) for ranking in self.found))
        shown = (self.columns[0].widget, self.links, self.columns[1].widget) if two else (self.columns[0].widget,)
        if self.answers.children != shown:
            self.answers.children = shown
            for column in self.columns:
                column.widget.layout.width = "44%" if two else "98%"
        self._say(f"{len(self.found[0].scores):,} {query.target} ranked by {' and by '.join(self._title(p) for p in range(1 + two))}.")

    def _sentence(self, query: Query) -> str:
        if query.kind == "caption":
            library = self.libraries[self.state.methods[0]]
            return str(library.texts[library.position("captions", query.item)])
        return query.item if query.kind == "image" else query.text

    def _asked_picture(self, query: Query) -> str:
        if query.kind == "picture":
            return cards.data_uri(query.pixels, 128)
        library = self.libraries[self.state.methods[0]]
        return picture(library, library.position("images", query.item), 128) if query.kind == "image" else ""

    def _doubts(self, query: Query) -> str:
        """How unsure each method is of what was asked, among items of its kind."""
        side, parts = "images" if query.target == "captions" else "captions", []
        for label in dict.fromkeys(self.state.methods):
            library = self.libraries[label]
            if (known := library.uncertainty(side)) is not None and (found := doubt(library, side, encode(library, query))) is not None:
                parts.append(cards.doubt(label, found[0], known))
        return f"<div>{''.join(parts)}</div>" if parts else ""

    def _why(self, place: int, at: int) -> None:
        label = self.state.methods[place]
        close(self.why.children)
        self.why.children = why_panel(self.libraries[label], self.state.query, at, self.state.settings_of(place), self._title(place))
        self._say(f"why {self._title(place)} found this answer: below.")


def _turn(queries: Sequence[Query], n: int) -> Query:
    """One after the other, again and again."""
    return queries[n % len(queries)]
