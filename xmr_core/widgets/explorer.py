"""The explorer's widgets: they hold no thought of their own, only the state and what to call when something is clicked."""

import io
from collections.abc import Callable, Sequence

import ipywidgets as w
import numpy as np

from xmr_core.data.pictures import UNREADABLE, decoded
from xmr_core.errors import BadInput, XmrError
from xmr_core.explore.library import Library
from xmr_core.explore.query import Query, encode
from xmr_core.explore.state import State, ambiguous_queries, answers, hard_query
from xmr_core.explore.why import doubt
from xmr_core.widgets import cards
from xmr_core.widgets.parts import column, picture, settings_row
from xmr_core.widgets.why import why_panel

_NONE = "–"


class Explorer:
    """Ask trained methods: type a sentence, pick or upload a picture, see answers of one or two methods side by side, and why.

    Args: open_library: label → Library; called once per method, when it is first needed, while 'busy' is shown. labels: methods to choose
        from. k: answers at first. seed: of random queries.
    Use: `Explorer(...).widget` as the last line of a cell. Everything that goes wrong is said in one line in place, and the explorer goes on.
    """

    def __init__(self, open_library: Callable[[str], Library], labels: Sequence[str], k: int = 10, seed: int = 0):
        if not labels:
            raise BadInput("no method to explore; give at least one label.")
        self._open, self.labels, self.libraries = open_library, tuple(labels), {}
        self.state, self.found, self._drawn = State((labels[0],)).set_all(self.labels, k=k), {}, seed
        self._busy, self._quiet = False, False
        self._build(k)
        self._settings_of_methods()
        self._say("Type a sentence, or let one of the buttons choose a query.")

    # ------------------------------------------------------------------------------------------------------------- what is there

    def _build(self, k: int) -> None:
        wide = w.Layout(width="99%")
        self.text = w.Text(
            description="Sentence", placeholder="a red circle above a blue square", continuous_update=False, layout=w.Layout(width="60%")
        )
        self.buttons = {
            name: w.Button(description=name, tooltip=tip, layout=w.Layout(width="auto"))
            for name, tip in (
                ("Ask", "rank the pictures for this sentence"),
                ("Random picture", "captions for a picture of the corpus"),
                ("Hard", "a caption whose first answer is wrong"),
                ("Ambiguous", "a caption that many pictures fit"),
                ("Back", "the query before"),
            )
        }
        self.upload = w.FileUpload(accept="image/*", multiple=False, description="Upload a picture", layout=w.Layout(width="auto"))
        self.first = w.Dropdown(options=self.labels, description="Method")
        self.second = w.Dropdown(options=(_NONE, *self.labels), value=_NONE, description="beside")
        self.k = w.IntSlider(value=k, min=1, max=30, description="answers", continuous_update=False)
        self.status, self.query = w.HTML(), w.HTML()
        self.controls, self.columns, self.why = w.VBox(layout=wide), w.HBox(layout=wide), w.VBox(layout=wide)
        self.widget = w.VBox([
            w.HBox([self.text, self.buttons["Ask"]]),
            w.HBox([*(self.buttons[n] for n in ("Random picture", "Hard", "Ambiguous", "Back")), self.upload], layout=w.Layout(flex_flow="row wrap")),
            w.HBox([self.first, self.second, self.k], layout=w.Layout(flex_flow="row wrap")),
            self.controls, self.status, self.query, self.columns, self.why,
        ])  # fmt: skip
        self.text.observe(lambda change: change["new"].strip() and self.ask_text(), "value")
        for name, act in {
            "Ask": self.ask_text, "Random picture": self.ask_random, "Hard": self.ask_hard, "Ambiguous": self.ask_ambiguous, "Back": self.back,
        }.items():  # fmt: skip
            self.buttons[name].on_click(lambda _, act=act: act())
        self.upload.observe(lambda change: change["new"] and self.ask_upload(change["new"][0]["content"]), "value")
        for choice in (self.first, self.second):
            choice.observe(lambda _: self.choose(), "value")
        self.k.observe(lambda change: self._do(lambda: self._go(self.state.set_all(self.labels, k=change["new"]))), "value")

    # ------------------------------------------------------------------------------------------------------------ what can be done

    def ask(self, query: Query) -> None:
        """Ask, and show the answers."""
        self._do(lambda: self._go(self.state.ask(query)))

    def ask_text(self) -> None:
        self._do(lambda: self._go(self.state.ask(Query("text", self.text.value))))

    def ask_random(self) -> None:
        def act():
            library = self._library(self.state.methods[0])
            self._drawn += 1
            at = np.random.default_rng(self._drawn).integers(len(library.image_ids))
            self._go(self.state.ask(Query("image", item=library.image_ids[at])))

        self._do(act)

    def ask_hard(self) -> None:
        def act():
            self._drawn += 1
            self._go(self.state.ask(hard_query(self._library(self.state.methods[0]), seed=self._drawn)))

        self._do(act)

    def ask_ambiguous(self) -> None:
        def act():
            self._drawn += 1
            found = ambiguous_queries(self._library(self.state.methods[0]), n=20)
            self._go(self.state.ask(found[self._drawn % len(found)]))

        self._do(act)

    def ask_upload(self, content: bytes) -> None:
        def act():
            try:
                picture = np.array(decoded(io.BytesIO(bytes(content))))
            except UNREADABLE as e:
                raise BadInput("this file is no picture that can be read; upload a JPEG or PNG.") from e
            self._go(self.state.ask(Query("picture", text="uploaded picture", pixels=picture)))

        self._do(act)

    def back(self) -> None:
        def act():
            if not self.state.past:
                raise BadInput("there is no query before this one.")
            self._go(self.state.back())

        self._do(act)

    def choose(self) -> None:
        """Take the methods from the two menus."""

        def act():
            labels = [self.first.value, *([self.second.value] if self.second.value not in (_NONE, self.first.value) else [])]
            self._go(self.state.compare(*labels))

        if not self._quiet:
            self._do(act)

    # --------------------------------------------------------------------------------------------------------------- how it is done

    def _do(self, act: Callable[[], None]) -> None:
        """One thing at a time; what goes wrong is said, and nothing else changes."""
        if self._busy:
            return
        self._busy = True
        try:
            self.status.value = cards.message("busy …", "busy")
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
        found = answers(state, self.libraries)
        changed, self.state, self.found = state.methods != self.state.methods, state, found
        if changed or not self.controls.children:
            self._settings_of_methods()
        self._show()

    def _menus(self) -> None:
        """Let the menus say what is shown."""
        self._quiet = True
        self.first.value = self.state.methods[0]
        self.second.value = self.state.methods[1] if len(self.state.methods) > 1 else _NONE
        self._quiet = False

    def _settings_of_methods(self) -> None:
        self._menus()
        rows = []
        for label in self.state.methods:
            if label in self.libraries:
                changed = lambda label=label, **changes: self._do(lambda: self._go(self.state.set(label, **changes)))  # noqa: E731
                rows.append(settings_row(self.libraries[label], self.state.settings_of(label), changed))
        self.controls.children = [row for row in rows if row is not None]

    # ------------------------------------------------------------------------------------------------------------------ what is seen

    def _show(self) -> None:
        self.why.children = []
        query = self.state.query
        if query is None:
            self._say("Type a sentence, or let one of the buttons choose a query.")
            return
        library = self.libraries[self.state.methods[0]]
        ranking = self.found[self.state.methods[0]]
        side = "images" if query.target == "captions" else "captions"
        self.query.value = cards.asked(
            self._sentence(query), self._asked_picture(query), doubt(library, side, encode(library, query)), ranking.unknown_words
        )
        if query.kind == "text" and self.text.value != query.text:
            self.text.value = query.text  # observed, but busy: nothing is asked twice
        width = f"{98 // len(self.state.methods)}%"
        self.columns.children = [
            column(
                self.libraries[label], self.found[label], width, self.ask, lambda at, label=label: self._do(lambda: self._why(label, at))
            )
            for label in self.state.methods
        ]
        n = len(ranking.scores)
        self._say(f"{n:,} {query.target} ranked by {' and by '.join(self.state.methods)}.")

    def _sentence(self, query: Query) -> str:
        if query.kind == "caption":
            library = self.libraries[self.state.methods[0]]
            return str(library.texts[library.position("captions", query.item)])
        return query.text

    def _asked_picture(self, query: Query) -> str:
        if query.kind == "picture":
            return cards.data_uri(query.pixels, 128)
        library = self.libraries[self.state.methods[0]]
        return picture(library, library.position("images", query.item), 128) if query.kind == "image" else ""

    def _why(self, label: str, at: int) -> None:
        self.why.children = why_panel(self.libraries[label], self.state.query, at, self.state.settings_of(label), label)
        self._say(f"why {label} found this answer: below.")
