"""The explorer: what its buttons, menus and sliders do. Its state and all rankings come from xmr_core.search."""

import io
from collections.abc import Callable, Sequence

import numpy as np

from xmr_core.base.errors import BadInput, XmrError
from xmr_core.data.images.files import UNREADABLE, decoded
from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.state import State, answers, moved, ranks_by
from xmr_core.ui.widgets import cards
from xmr_core.ui.widgets.columns import close
from xmr_core.ui.widgets.page import DRAWS, NONE, Page
from xmr_core.ui.widgets.query_line import query_html
from xmr_core.ui.widgets.settings import in_words, settings_row
from xmr_core.ui.widgets.why import why_panel

_START = "Type a sentence, or let one of the buttons choose a query."


class Explorer(Page):
    """Search with trained methods: type a sentence, choose or upload an image, and see the answers of one or two
    methods side by side, and why they are answers.

    As the last line of a notebook's cell an Explorer is shown. Errors appear as one line in the page, and the explorer
    goes on.

    Args: open_library: label → Library; called once per method, when it is first needed. labels: methods to choose
        from. k: answers at first. seed: of random queries.
    Raises: BadInput without a label.
    """

    def __init__(self, open_library: Callable[[str], Library], labels: Sequence[str], k: int = 10, seed: int = 0):
        if not labels:
            raise BadInput("no method to explore; give at least one label.")
        super().__init__(tuple(labels), k, self.ask, lambda column, row: self._do(lambda: self._explain(column, row)))
        self._open, self.labels, self.libraries = open_library, tuple(labels), {}
        self.state, self.rankings, self._draws = State((labels[0],)).show(k), [], seed
        self._busy, self._updating_menus, self._controls_of = False, False, None
        clicks = {name: lambda draw=draw: self._draw(draw) for name, draw in DRAWS.items()}
        for name, act in (clicks | {"Ask": self.ask_text, "Back": self.back}).items():
            self.buttons[name].on_click(lambda _, act=act: act())
        self.text.observe(lambda change: change["new"].strip() and self.ask_text(), "value")
        self.upload.observe(self._uploaded, "value")
        for menu in (self.first, self.second):
            menu.observe(lambda _: self.choose(), "value")
        self.k.observe(lambda change: self._do(lambda: self._go(self.state.show(change["new"]))), "value")
        self._say(_START)

    def ask(self, query: Query) -> None:
        """Rank for a query and show the answers."""
        self._do(lambda: self._go(self.state.ask(query)))

    def ask_text(self) -> None:
        """Rank for the sentence in the text field."""
        self._do(lambda: self._go(self.state.ask(Query("text", self.text.value))))

    def ask_upload(self, content: bytes) -> None:
        """Rank for the image in a file's bytes."""

        def act():
            try:
                pixels = np.array(decoded(io.BytesIO(bytes(content))))
            except UNREADABLE as e:
                raise BadInput("this file is no image that can be read; upload a JPEG or PNG.") from e
            self._go(self.state.ask(Query("upload", text="uploaded image", pixels=pixels)))

        self._do(act)

    def back(self) -> None:
        """Show the query before."""

        def act():
            if not self.state.past:
                raise BadInput("there is no query before this one.")
            self._go(self.state.back())

        self._do(act)

    def choose(self) -> None:
        """Take the methods from the two menus."""
        if not self._updating_menus:
            labels = [self.first.value, *([self.second.value] if self.second.value != NONE else [])]
            self._do(lambda: self._go(self.state.compare(*labels)))

    def _uploaded(self, change: dict) -> None:
        if change["new"]:
            self.ask_upload(change["new"][0]["content"])
            self.upload.value = ()  # so that the same file can be chosen again

    def _draw(self, draw: Callable[[Library, int], Query]) -> None:
        def act():
            self._draws += 1
            self._go(self.state.ask(draw(self._library(self.state.methods[0]), self._draws)))

        self._do(act)

    def _do(self, act: Callable[[], None]) -> None:
        """One action at a time. An error is shown, and nothing else changes."""
        if self._busy:
            return
        self._busy = True
        try:
            self._say("busy …", "busy")
            act()
        except XmrError as e:
            self._say(str(e), "error")
        except Exception as e:  # the explorer must go on, whatever a file or a method does
            reason = str(e).splitlines()[0] if str(e) else "no reason given"
            self._say(f"this could not be done ({type(e).__name__}: {reason}).", "error")
        finally:
            self._update_menus()
            self._busy = False

    def _say(self, text: str, kind: str = "info") -> None:
        self.status.value = cards.message(text, kind)

    def _library(self, label: str) -> Library:
        if label not in self.libraries:
            self._say(f"busy: opening {label} …", "busy")
            self.libraries[label] = self._open(label)
        return self.libraries[label]

    def _go(self, state: State) -> None:
        """Rank for a state and show it. It becomes the present state only when its query could be answered."""
        for label in state.methods:
            self._library(label)
        self.rankings = answers(state, self.libraries)
        self.state = state
        self._update_controls()
        self._show()

    def _update_menus(self) -> None:
        """Set menus and slider to the present state."""
        self._updating_menus = True
        self.first.value = self.state.methods[0]
        self.second.value = self.state.methods[1] if len(self.state.methods) > 1 else NONE
        self.k.value = self.state.usual.k
        self._updating_menus = False

    def _update_controls(self) -> None:
        """Sliders and menus of the methods that are shown, made anew only when the methods change."""
        if self._controls_of == self.state.methods:
            return
        rows = []
        for n, label in enumerate(self.state.methods):
            changed = lambda n=n, **changes: self._do(lambda: self._go(self.state.set(n, **changes)))  # noqa: E731
            rows.append(settings_row(self.libraries[label], self._title(n), self.state.settings_of(n), changed))
        close(self.controls.children)
        self.controls.children, self._controls_of = [row for row in rows if row is not None], self.state.methods

    def _title(self, column: int) -> str:
        """The method's label, with its place where the method is shown twice."""
        label = self.state.methods[column]
        return f"{label}, {('left', 'right')[column]}" if self.state.methods.count(label) > 1 else label

    def _show(self) -> None:
        close(self.why.children)
        self.why.children = []
        query, two = self.state.query, len(self.state.methods) > 1
        if query is None:
            self._say(_START)
            return
        shown = {label: self.libraries[label] for label in self.state.methods}
        text, self.query.value = query_html(query, shown, self.rankings[0])
        if query.kind == "text" and self.text.value != text:
            self.text.value = text  # the field is observed, but the explorer is busy, so nothing is ranked twice
        for n, (label, ranking) in enumerate(zip(self.state.methods, self.rankings, strict=True)):
            changed, notes = in_words(self.libraries[label], self.state.settings_of(n)), ()
            if two:
                other = self._title(1 - n)
                notes = [f"{other}: rank {rank:,}" for rank in ranks_by(self.rankings[1 - n], ranking)]
            title = self._title(n) + (f" ({changed})" if changed else "")
            self.columns[n].fill(self.libraries[label], ranking, title, notes)
        if two:
            self.links.value = cards.links(moved(*self.rankings), *(len(r.order) for r in self.rankings))
        left, right = (column.widget for column in self.columns)
        shown = (left, self.links, right) if two else (left,)
        if self.answers.children != shown:
            self.answers.children = shown
            left.layout.width = right.layout.width = "44%" if two else "98%"
        titles = " and by ".join(self._title(n) for n in range(1 + two))
        self._say(f"{len(self.rankings[0].scores):,} {query.target} ranked by {titles}.")

    def _explain(self, column: int, position: int) -> None:
        library, title = self.libraries[self.state.methods[column]], self._title(column)
        close(self.why.children)
        self.why.children = why_panel(library, self.state.query, position, self.state.settings_of(column), title)
        self._say(f"why {title} found this answer: below.")
