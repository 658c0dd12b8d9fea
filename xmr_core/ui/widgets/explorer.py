"""The explorer: what its buttons, menus and sliders do. Its state and all rankings come from xmr_core.search."""

import io
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.data.images.files import UNREADABLE, decoded
from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.state import State
from xmr_core.ui.widgets.columns import Card
from xmr_core.ui.widgets.draws import DRAWS, example_query
from xmr_core.ui.widgets.page import MOST_ANSWERS, NONE
from xmr_core.ui.widgets.screen import START, Screen, action
from xmr_core.ui.widgets.sharing import view_of, view_of_page
from xmr_core.ui.widgets.why import why_html


class Explorer(Screen):
    """Search with trained methods: type a sentence, choose or upload an image, and see the answers of one or two
    methods side by side, and why they are answers; mark answers, filter them, and save what is seen.

    As the last line of a notebook's cell an Explorer is shown, with the answers to an example. Errors appear as one
    line in the page, and the explorer goes on.

    Args: open_library: label → Library; called once per method, when it is first needed. labels: methods to choose
        from. k: answers at first. seed: of random queries. judgments: the file of marks; by default beside the
        library (search.filters.judgments_path). view: a link that the explorer made, to show that view.
    Raises: BadInput without a label, for k outside 1 … MOST_ANSWERS, or for a view that is none.
    """

    def __init__(
        self,
        open_library: Callable[[str], Library],
        labels: Sequence[str],
        k: int = 10,
        seed: int = 0,
        judgments: str = "",
        view: str = "",
    ):
        if not labels:
            raise BadInput("no method to explore; give at least one label.")
        if not 1 <= k <= MOST_ANSWERS:
            raise BadInput(f"from 1 to {MOST_ANSWERS} answers can be shown, got k={k}.")
        self._view, self._draws = view_of(view) if view else None, seed
        super().__init__(open_library, tuple(labels), k, judgments)
        clicks = {name: lambda draw=draw: self._draw(draw) for name, (_, draw) in DRAWS.items()}
        for name, act in (clicks | {"Ask": self.ask_text, "Back": self.back}).items():
            self.buttons[name].on_click(lambda _, act=act: act())
        self.text.observe(lambda change: change["new"].strip() and self.ask_text(), "value")
        self.upload.observe(self._uploaded, "value")
        for menu in (self.first, self.second):
            menu.observe(lambda _: self.choose(), "value")
        self.k.observe(lambda change: self._do(lambda: self._go(self.state.show(change["new"]))), "value")
        self._say(START)

    def begin(self) -> None:
        """Show the view that was given or stands in the page's address, or the answers to an example."""
        if self.state.query is None:
            self._do(lambda: self._go(self._view or view_of_page() or self._example()))

    @action
    def ask(self, query: Query) -> None:
        """Rank for a query and show the answers."""
        self._go(self.state.ask(query))

    @action
    def ask_text(self) -> None:
        """Rank for the sentence in the text field."""
        self._go(self.state.ask(Query("text", self.text.value)))

    @action
    def ask_upload(self, content: bytes) -> None:
        """Rank for the image in a file's bytes."""
        try:
            pixels = np.array(decoded(io.BytesIO(bytes(content))))
        except UNREADABLE as e:
            raise BadInput("this file is no image that can be read; upload a JPEG or PNG.") from e
        self._go(self.state.ask(Query("upload", text="uploaded image", pixels=pixels)))

    @action
    def back(self) -> None:
        """Show the query before."""
        if not self.state.past:
            raise BadInput("there is no query before this one.")
        self._go(self.state.back())

    def choose(self) -> None:
        """Take the methods from the two menus."""
        if not self._updating_menus:
            labels = [label for label in (self.first.value, self.second.value) if label != NONE]
            self._do(lambda: self._go(self.state.compare(*labels)))

    @action
    def explain(self, card: Card) -> None:
        """Say below an answer why it is there, and close what was said of another one."""
        library, title = self.libraries[self.state.methods[card.column]], self._title(card.column)
        content = why_html(library, self.state.query, card.position, self.state.settings_of(card.column), title)
        if self.opened is not None and self.opened is not card:
            self.opened.shut()
        self.opened = card
        card.open(content)
        self._say(f"why {title} found answer {card.row + 1}: below it.")

    @action
    def mark(self, card: Card, verdict: str) -> None:
        """Mark an answer as 'right' or 'wrong'; the same again takes that back."""
        library, scores = self._shown_libraries()[card.column], self.rankings[card.column].scores
        said = self.marks.mark(library, self.state.query, card.query, verdict, scores)
        self._show()
        self._say(said)

    def frame(self) -> pd.DataFrame:
        """The answers that are shown: a row for each, with its query, method, rank, item, score and mark. Raises:
        BadInput before the first query."""
        if (query := self.state.query) is None:
            raise BadInput("nothing has been asked yet; type a sentence first.")
        tables = []
        for title, ranking in zip(self._titles(), self.rankings, strict=True):
            verdicts = self.marks.verdicts(query, ranking)
            about = {"query": query.item or query.text, "method": title}
            tables.append(ranking.table.assign(verdict=verdicts, **about))
        table = pd.concat(tables, ignore_index=True)
        return table[["query", "method", *table.columns.drop(["query", "method"])]]

    def _uploaded(self, change: dict) -> None:
        if change["new"]:
            self.ask_upload(change["new"][0]["content"])
            self.upload.value = ()  # so that the same file can be chosen again

    @action
    def _draw(self, draw: Callable) -> None:
        self._draws += 1
        self._go(self.state.ask(draw(self._shown_libraries(), self.marks.judgments, self._draws)))

    def _example(self) -> State:
        return self.state.ask(example_query(self._shown_libraries()[0], self._draws))
