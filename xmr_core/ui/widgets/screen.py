"""The explorer's screen: it holds the state, ranks, and shows what was ranked. What people do is in explorer.py."""

from collections.abc import Callable
from functools import wraps

import pandas as pd

from xmr_core.base.errors import BadInput, XmrError
from xmr_core.search.library import Library
from xmr_core.search.state import State, answers, ranks_by
from xmr_core.ui.widgets import cards
from xmr_core.ui.widgets.columns import close
from xmr_core.ui.widgets.filtering import FilterBar
from xmr_core.ui.widgets.map_panel import MapPanel
from xmr_core.ui.widgets.marking import Marks
from xmr_core.ui.widgets.page import NONE, Page
from xmr_core.ui.widgets.query_line import query_html
from xmr_core.ui.widgets.settings import in_words, settings_row
from xmr_core.ui.widgets.sharing import SharePanel
from xmr_core.ui.widgets.why import photograph_html

START = "Type a sentence, or let one of the buttons choose a query."


def action(act: Callable) -> Callable:
    """A method of a Screen as one action of its own (see Screen._do)."""
    return wraps(act)(lambda self, *given: self._do(lambda: act(self, *given)))


class Screen(Page):
    """State, rankings and libraries of an explorer. A subclass has the acts of an answer and `frame`."""

    def __init__(self, open_library: Callable[[str], Library], labels: tuple[str, ...], k: int, judgments: str):
        self._open, self.labels, self.libraries = open_library, labels, {}
        self.state, self.rankings = State((labels[0],)).show(k), []
        self._busy, self._updating_menus, self._controls_of, self.opened = False, False, None, None
        self.marks = Marks(judgments)
        self.filter = FilterBar(lambda **changes: self._do(lambda: self._go(self.state.restrict(**changes))))
        makers = (lambda: self.state), self.frame, lambda: self.marks.judgments.qrels()
        self.share = SharePanel(self._do, *makers, self._go)
        self.map, self.selection = MapPanel(self._do, self._select, self._item), None
        panels = {"Map": self.map.widget, "Filter": self.filter.widget, "Save and share": self.share.widget}
        super().__init__(labels, k, self, panels)
        self.toggles["Map"].observe(lambda change: change["new"] and self.map.show(), "value")

    def _do(self, act: Callable[[], None]) -> None:
        """One action at a time. An error is shown, and nothing else changes."""
        if self._busy:
            return
        self._busy = True
        try:
            self._say("busy …", "busy")
            act()
            if "xmr-busy" in self.status.value:  # nothing was said of it
                self._say("done.")
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

    def _shown_libraries(self, state: State | None = None) -> list[Library]:
        """The libraries of the methods that a state shows, opened if need be."""
        methods = (state or self.state).methods
        for label in methods:
            if label not in self.labels:
                raise BadInput(f"the view shows {label}, which is not one of {', '.join(self.labels)}.")
            if label not in self.libraries:
                self._say(f"busy: opening {label} …", "busy")
                self.libraries[label] = self._open(label)
                self.marks.open(self.libraries[label])
        return [self.libraries[label] for label in methods]

    def _go(self, state: State) -> None:
        """Rank for a state and show it. It becomes the present state only when its query could be answered."""
        self._shown_libraries(state)
        self.rankings = answers(state, self.libraries, self.marks.judgments)
        self.state = state
        self._update_controls()
        self._show()

    def _update_menus(self) -> None:
        """Set menus, slider and filter to the present state."""
        self._updating_menus = True
        self.first.value = self.state.methods[0]
        self.second.value = self.state.methods[1] if len(self.state.methods) > 1 else NONE
        self.k.value = self.state.usual.k
        if library := self.libraries.get(self.state.methods[0]):
            self.filter.show(self.state.filter, library)
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

    def _titles(self) -> list[str]:
        return [self._title(n) for n in range(len(self.rankings))]

    def _show(self) -> None:
        query, libraries = self.state.query, self._shown_libraries()
        self.opened, two = None, len(libraries) > 1
        if query is None:
            self._say(START)
            return
        shown = dict(zip(self.state.methods, libraries, strict=True))
        text, self.query.value = query_html(query, shown, self.rankings[0])
        # A sentence that was not asked now would be stale. While the explorer is busy nothing is ranked twice.
        self.text.value = text if query.kind == "text" else ""
        for n, (library, ranking) in enumerate(zip(libraries, self.rankings, strict=True)):
            notes, title = (), self._title(n)
            if two:
                other = self._title(1 - n)
                notes = [f"{other}: rank {rank:,}" for rank in ranks_by(self.rankings[1 - n], ranking)]
            if changed := in_words(library, self.state.settings_of(n)):
                title = f"{title} ({changed})"
            self.columns[n].fill(library, ranking, title, self.marks.verdicts(query, ranking), notes)
        children = tuple(column.widget for column in self.columns[: len(libraries)])
        if self.answers.children != children:
            self.answers.children = children
        n, everything = self.rankings[0].n, len(self.rankings[0].scores)
        count = f"{n:,}" if n == everything else f"{n:,} of {everything:,}"
        self._say(f"{count} {query.target} ranked by {' and by '.join(self._titles())}.")
        item = (f"{query.kind}s", libraries[0].position(f"{query.kind}s", query.item)) if query.item != "" else None
        self.map.update(libraries[0], self.rankings[0], item)
        if not (self.state.filter.images or self.state.filter.captions):
            self.selection = None
            self.map.select_nothing()

    @action
    def _select(self, rows: pd.DataFrame | None) -> None:
        """Restrict answers to the items that were selected on the map, None for all; `selection` holds their frame."""
        self.selection = rows
        ids = {m: () if rows is None else tuple(rows["item"][rows["modality"] == m]) for m in ("images", "captions")}
        self._go(self.state.restrict(**ids))

    def _item(self, modality: str, position: int) -> str:
        """HTML of an item to which the pointer points on the map."""
        return photograph_html(self._shown_libraries()[0], modality, position, cards.THUMBNAIL)
