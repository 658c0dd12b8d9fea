"""The explorer: its page, and what the buttons, menus and sliders do. All rankings come from xmr_core.retrieval."""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path

import ipywidgets as w
import pandas as pd

from xmr_core.base.errors import BadInput, DamagedFile, XmrError, require_choice
from xmr_core.models.load import load
from xmr_core.retrieval.index import open_index
from xmr_core.retrieval.library import Library, open_folder
from xmr_core.retrieval.ranking import Query
from xmr_study.explorer import markup
from xmr_study.explorer.cards import Callbacks, Card, Column, close, query_html
from xmr_study.explorer.map_panel import MapPanel
from xmr_study.explorer.markup import STYLE
from xmr_study.explorer.settings import DRAWS, FilterBar, Marks, example_query, in_words, settings_row
from xmr_study.explorer.sharing import SharePanel, view_of, view_of_page
from xmr_study.explorer.state import State, answers, ranks_by
from xmr_study.explorer.views import folder_models
from xmr_study.explorer.why import photograph_html, why_html

MOST_ANSWERS = 30  # that the slider offers
NONE = "–"  # in the second menu: no second method
START = "Type a sentence, or let one of the buttons choose a query."
_STATIC = "<p>The explorer needs a running kernel: run this cell. The figure at the end shows answers to one query.</p>"
_FIT = w.Layout(width="auto")


def action(act: Callable) -> Callable:
    """A method of an Explorer as one action of its own (see Explorer._do)."""
    return wraps(act)(lambda self, *given: self._do(lambda: act(self, *given)))


class Page:
    """The widgets of an explorer; as the last line of a notebook's cell it is shown.

    Args: labels: methods in the two menus. k: answers at first. acts: what the buttons of an answer do. panels: name →
        a widget that a button of that name shows and hides.
    """

    def __init__(self, labels: Sequence[str], k: int, acts: Callbacks, panels: dict[str, w.Widget]):
        example = {"placeholder": "a red circle above a blue square, for example", "continuous_update": False}
        self.text = w.Text(description="Sentence", layout=w.Layout(width="auto", flex="1 1 240px"), **example)
        tips = {"Ask": "rank the images for this sentence", "Back": "the query before"}
        tips |= {name: tip for name, (tip, _) in DRAWS.items()}
        self.buttons = {name: w.Button(description=name, tooltip=tip, layout=_FIT) for name, tip in tips.items()}
        self.skip = w.Button(description="To the answers", tooltip="by keyboard: to the first answer", layout=_FIT)
        self.skip.add_class("xmr-skip").on_click(lambda _: self.columns[0].focus())
        self.upload = w.FileUpload(accept="image/*", multiple=False, description="Upload an image", layout=_FIT)
        self.first = w.Dropdown(options=labels, description="Method")
        self.second = w.Dropdown(options=(NONE, *labels), value=NONE, description="beside")
        self.k = w.IntSlider(value=k, min=1, max=MOST_ANSWERS, description="answers", continuous_update=False)
        self.status, self.query = w.HTML(), w.HTML()
        self.columns = [Column(n, acts) for n in (0, 1)]
        self.controls, self.answers = w.VBox(), w.Box().add_class("xmr-columns")
        self.toggles = {}
        for name, panel in panels.items():
            toggle = w.ToggleButton(description=name, tooltip=f"show or hide: {name.lower()}", layout=_FIT)
            show = lambda change, panel=panel: setattr(panel.layout, "display", "" if change["new"] else "none")  # noqa: E731
            toggle.observe(show, "value")
            self.toggles[name] = toggle
        lines = (
            [self.text, self.skip, self.buttons["Ask"], self.buttons["Back"]],
            [*(self.buttons[name] for name in DRAWS), self.upload],
            [self.first, self.second, self.k, *self.toggles.values()],
        )
        rows = [w.HBox(line, layout=w.Layout(flex_flow="row wrap")) for line in lines]
        shown = [w.HTML(STYLE), *rows, self.controls, *panels.values(), self.status, self.query, self.answers]
        self.widget = w.VBox(shown).add_class("xmr")


class Explorer(Page):
    """Search with trained methods: type a sentence, choose or upload an image, and see the answers of one or two
    methods side by side, and why they are answers; mark answers, filter them, and save what is seen.

    As the last line of a notebook's cell an Explorer is shown, with the answers to an example. Errors appear as one
    line in the page, and the explorer goes on.

    Args: open_library: label → Library; called once per method, when it is first needed. labels: methods to choose
        from. k: answers at first. seed: of random queries. judgments: the file of marks, by default
        filters.judgments_path. view: a link that the explorer made, to show that view.
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
        if not labels or not 1 <= k <= MOST_ANSWERS:
            raise BadInput(f"give at least one method, and k from 1 to {MOST_ANSWERS}; got {[*labels]} and k={k}.")
        self._open, self.labels, self.libraries = open_library, tuple(labels), {}
        self.state, self.rankings = State((labels[0],)).show(k), []
        self._view, self._draws = view_of(view) if view else None, seed
        self._busy, self._updating_menus, self._controls_of, self.opened = False, False, None, None
        self.marks = Marks(judgments)
        self.filter = FilterBar(lambda **changes: self._do(lambda: self._go(self.state.restrict(**changes))))
        makers = (lambda: self.state), self.frame, lambda: self.marks.judgments.qrels()
        self.share = SharePanel(self._do, *makers, self._go)
        self.map, self.selection = MapPanel(self._do, self._select, self._item), None
        panels = {"Map": self.map.widget, "Filter": self.filter.widget, "Save and share": self.share.widget}
        super().__init__(self.labels, k, self, panels)
        clicks = {name: lambda draw=draw: self._draw(draw) for name, (_, draw) in DRAWS.items()}
        for name, act in (clicks | {"Ask": self.ask_text, "Back": self.back}).items():
            self.buttons[name].on_click(lambda _, act=act: act())
        self.toggles["Map"].observe(lambda change: change["new"] and self.map.show(), "value")
        self.text.observe(lambda change: change["new"].strip() and self.ask_text(), "value")
        self.upload.observe(self._uploaded, "value")
        for menu in (self.first, self.second):
            menu.observe(lambda _: self.choose(), "value")
        self.k.observe(lambda change: self._do(lambda: self._go(self.state.show(change["new"]))), "value")
        self._say(START)

    def _repr_mimebundle_(self, **options):
        self.begin()
        # The HTML is for pages that cannot show widgets.
        return {**self.widget._repr_mimebundle_(**options), "text/html": _STATIC}

    def begin(self) -> None:
        """Show the view that was given or stands in the page's address, or the answers to an example."""
        if self.state.query is None:
            example = lambda: self.state.ask(example_query(self._shown_libraries()[0], self._draws))  # noqa: E731
            self._do(lambda: self._go(self._view or view_of_page() or example()))

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
        self.status.value = markup.message(text, kind)

    def _shown_libraries(self, state: State | None = None) -> list[Library]:
        """The libraries of the methods that a state shows, opened if need be."""
        methods = (state or self.state).methods
        for label in methods:
            require_choice("method of a view", label, self.labels)
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
        titles = " and by ".join(self._title(n) for n in range(len(self.rankings)))
        self._say(f"{count} {query.target} ranked by {titles}.")
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
        return photograph_html(self._shown_libraries()[0], modality, position, markup.THUMBNAIL)

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
            query = Query("upload", text="uploaded image", pixels=bytes(content))
        except DamagedFile as e:
            raise BadInput("this file is no image that can be read; upload a JPEG or PNG.") from e
        self._go(self.state.ask(query))

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
        for n, ranking in enumerate(self.rankings):
            about = {"query": query.item or query.text, "method": self._title(n)}
            tables.append(ranking.table.assign(verdict=self.marks.verdicts(query, ranking), **about))
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


def explore(place: Path | str, runs: Sequence[str] = (), k: int = 10, view: str = "") -> Explorer:
    """An explorer of the images in a folder, or of an index.

    place: a folder of images, or an index (`python -m xmr_core index`), which holds its model. runs: models that encode
    the folder: runs by id or short name, or anything that `load` reads; by default the newest finished run of each
    method. k, view: as of Explorer.
    Raises: BadInput for a place that does not exist, a name that is no run, and a folder where there is no run.

    >>> explore("no-such-place")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: no-such-place is no folder. Give a folder of images, or an index.
    """
    place = Path(place).expanduser()
    if not (runs := folder_models(place, runs)):
        index = open_index(place)
        return Explorer(lambda _: index, [index.label], k=k, view=view)
    return Explorer(lambda name: open_folder(load(name), place, name), runs, k=k, view=view)
