"""The explorer: its page, and what the buttons, menus and sliders do. All rankings come from xmr_core.retrieval."""

import asyncio
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import ipywidgets as w
import pandas as pd

from xmr_core.base.errors import BadInput, DamagedFile, XmrError, require_choice
from xmr_core.models.load import load
from xmr_core.retrieval.index import open_index
from xmr_core.retrieval.library import Library, open_folder
from xmr_core.retrieval.ranking import Query, answerable, similarity_of
from xmr_study.explorer import gallery, markup, sharing
from xmr_study.explorer.filters import Filter, doubles
from xmr_study.explorer.map_panel import MapPanel
from xmr_study.explorer.markup import STYLE
from xmr_study.explorer.settings import (
    DRAWS,
    Control,
    Marks,
    button,
    example_query,
    examples,
    field,
    in_words,
    lacking,
    of_filter,
    of_method,
)
from xmr_study.explorer.state import State, answers, ranks_by, state_to_link
from xmr_study.explorer.views import described, folder_models
from xmr_study.explorer.why import photograph_html, why_html

MOST_ANSWERS = 100  # at first; more come with scrolling
MOST_STEPS, MOST_SEARCHES = 50, 20  # that can be taken back; of the menu of earlier searches
NONE = "–"  # in the second menu: no second method
PANELS = ("Map", "Filter", "Save and share")
START = "Type a sentence, or let one of the buttons choose a query."
_STATIC = "<p>The explorer needs a running kernel: run this cell.</p>"
_IMAGES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")  # of a path in place of a sentence
_LARGE = 900  # pixels


class Explorer:
    """Search with trained methods: type a sentence, choose, upload, paste or name an image, and see the answers of one
    or two methods side by side, and why they are answers; mark answers, filter them, and save what is seen.

    As the last line of a notebook's cell an Explorer is shown, with the answers to an example. Errors appear as one
    line in the page, and the explorer goes on.

    Args: open_library: label → Library; called once per method, when it is first needed. labels: methods to choose
        from. k: answers at first, and as many more each time. seed: of random queries. judgments: the file of marks, by
        default filters.judgments_path. view: a link that the explorer made, to show that view.
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
        self.state, self.rankings, self.k, self.pairs = State((labels[0],)).show(k), [], k, None
        self._view, self.seed, self._draws = sharing.view_of(view) if view else None, seed, seed
        self._busy, self._waiting = False, []  # of what goes on in the background, each a list of one text
        self.heard: dict[str, None] = {}  # warnings while a library was opened, each once
        self._undo: list[Callable[[], None]] = []
        self.history: dict[str, str] = {}  # what was asked → letters of its view
        self.marks, self.selection, self.panels = Marks(judgments), None, set()
        self.map = MapPanel(self._do, self._background, self._select, self._item, self._clicked)
        self.gallery = gallery.Gallery(self._told)
        self.widget = w.VBox([w.HTML(STYLE), self.map.widget, self.gallery]).add_class("xmr")
        self._say(START)

    def _repr_mimebundle_(self, **options):
        self.begin()
        # The HTML is for pages that cannot show widgets.
        return {**self.widget._repr_mimebundle_(**options), "text/html": _STATIC}

    def begin(self) -> None:
        """Show the view that was given or stands in the page's address, or the answers to an example."""
        if self.state.query is None:
            self._do(self._open_view)

    def _open_view(self) -> None:
        said = ""
        try:
            if view := self._view or sharing.view_of_page():
                return self._go(view)
        except XmrError as e:  # there is a page all the same
            said = str(e)
        self._go(self._example())
        if said:
            self._say(said, "error")

    def _example(self) -> State:
        library = self._shown_libraries()[0]
        self.gallery.chips = [button(f"try “{t}”", "ask this", "try", value=t) for t in examples(library, self.seed)]
        return self.state

    def _do(self, act: Callable[[], object]) -> None:
        """One action at a time. An error is shown, and nothing else changes."""
        if self._busy:
            return
        self._busy = True
        try:
            self._say("busy …", "busy")
            act()
            if self.gallery.said["kind"] == "busy" and not self._waiting:  # nothing was said of it
                self._say(*self._last)
        except XmrError as e:
            self._say(str(e), "error")
        except KeyboardInterrupt:
            self._say("stopped; what was shown before is still shown.", "error")
        except Exception as e:  # the explorer must go on, whatever a file or a method does
            reason = str(e).splitlines()[0] if str(e) else "no reason given"
            self._say(f"this could not be done ({type(e).__name__}: {reason}).", "error")
        finally:
            self._busy = False
            self.gallery.controls = self.controls()

    def _background(self, what: str, work: Callable[[], object], then: Callable[[], None]) -> None:
        """Do what takes its time beside the kernel, which goes on answering, and then what shows it. It can be left by
        Stop. Before the page is shown, and where there is no page, it is done at once."""
        self._say(f"{what} …", "busy")
        try:
            loop = asyncio.get_running_loop() if self.state.query else None
        except RuntimeError:
            loop = None
        if loop is None:
            work()
            then()
            return
        ticket = [f"{what} …"]
        self._waiting.append(ticket)

        async def wait() -> None:
            fault: list[Exception] = []
            try:
                await asyncio.to_thread(work)
            except Exception as e:
                fault.append(e)

            def after() -> None:
                if fault:
                    raise fault[0]
                then()

            while self._busy:
                await asyncio.sleep(0.05)
            if any(other is ticket for other in self._waiting):  # it was not left
                self._waiting = [other for other in self._waiting if other is not ticket]
                self._do(after)

        self._say(ticket[0], "busy")
        self._task = loop.create_task(wait())

    def _say(self, text: str, kind: str = "info", stale: bool = False) -> None:
        """A line above the answers. What goes on in the background stands in it. stale: the answers are none to it."""
        if kind == "info":
            self._last = text, kind, stale
        text = " ".join([text, *(t for (t,) in self._waiting if t != text)])
        self.gallery.said = {"text": text, "kind": kind, "stop": bool(self._waiting), "stale": stale}

    def _shown_libraries(self, state: State | None = None) -> list[Library]:
        """The libraries of the methods that a state shows, opened if need be."""
        methods = (state or self.state).methods
        for label in methods:
            require_choice("method of a view", label, self.labels)
            if label not in self.libraries:
                with warnings.catch_warnings(record=True) as heard:
                    warnings.simplefilter("always")
                    library = self._open(label)
                self.heard |= {str(w.message): None for w in heard if issubclass(w.category, UserWarning)}
                self.marks.open(library)
                self.libraries[label] = library
        return [self.libraries[label] for label in methods]

    def _go(self, state: State, step: bool = True, keep: bool = False) -> None:
        """Rank for a state and show it. It becomes the present state only when its query could be answered. step:
        whether it can be taken back. keep: leave open what is said of an answer."""
        for label in state.methods:
            require_choice("method of a view", label, self.labels)
        if closed := [label for label in state.methods if label not in self.libraries]:
            before = self.state

            def then() -> None:  # what was changed in the meantime stays
                names = ("methods", "query", "settings", "usual", "filter")
                old, new, now = ({n: getattr(s, n) for n in names} for s in (before, state, self.state))
                self._go(replace(state, **{n: now[n] for n in names if new[n] == old[n] or now[n] != old[n]}), step)

            return self._background(f"opening {' and '.join(closed)}", lambda: self._shown_libraries(state), then)
        library = self.libraries[state.methods[0]]
        query = example_query(library, self._draws) if state.query is None else state.query
        state = replace(state, query=answerable(library, query))
        try:
            rankings = answers(state, self.libraries, self.marks.judgments)
        except XmrError as e:
            if state.query is self.state.query:
                raise
            return self._say(str(e), "error", stale=True)  # the answers are none to what was asked
        if step and self.state.query is not None and state.steps_from(self.state):
            self._remember(lambda old=self.state: self._return(old))
            self.gallery.chips = []
        old, self.state, self.rankings = (self.state, self.rankings), state, rankings
        try:
            with self.gallery.hold_sync():  # a query never stands above the answers to the one before
                if state.show(1) != old[0].show(1) or state.steps_from(old[0]) or self.pairs is not None:
                    self.gallery.view += 1
                self._show(keep)
        except Exception:  # the answers that are shown are those of the state
            self.state, self.rankings = old
            raise

    def _remember(self, undo: Callable[[], None]) -> None:
        self._undo = [*self._undo, undo][-MOST_STEPS:]

    def _return(self, old: State) -> None:
        """The state before, with the present settings, which sliders show."""
        self._go(replace(old, settings=self.state.settings, usual=self.state.usual), step=False)

    def controls(self) -> list[list[Control]]:
        """The rows of buttons, menus, sliders and fields, for the present state."""
        state, text = self.state, self.state.query.text if self.state.query and self.state.query.kind == "text" else ""
        shown = [self.libraries[label] for label in state.methods if label in self.libraries]
        if len(shown) < len(state.methods):
            options = [(n, n) for n in self.labels]
            return [[field("Method", state.methods[0], "method", options=options, place=0)]]
        hint = f"{examples(shown[0], self.seed)[0].rstrip(' .')}, for example"
        sentence = field("Sentence", text, "sentence", hint=hint)
        back = button("Back", "take the last step back: query, filter, mark", "back", off=not self._undo)
        draws = [(name, lacking(shown, name), tip) for name, (tip, *_) in DRAWS.items()]
        rows = [
            [sentence, back],
            [*(button(n, why or tip, "draw", off=bool(why), name=n) for n, why, tip in draws),
             button("Look-alikes", "near-duplicates among the images, and those in two splits", "doubles")],
            [field("Method", state.methods[0], "method", options=[(n, n) for n in self.labels], place=0),
             field("beside", state.methods[1] if state.methods[1:] else NONE, "method",
                   options=[(n, n) for n in (NONE, *self.labels)], place=1),
             *(button(n, f"show or hide: {n.lower()}", "panel", on=n in self.panels, name=n) for n in PANELS)],
            [c for n, own in enumerate(shown) for c in of_method(own, self._title(n), state.settings_of(n), n)],
        ]  # fmt: skip
        if "Filter" in self.panels:
            rows.append(of_filter(state.filter, shown[0]))
        if "Save and share" in self.panels:
            kept = {}
            with suppress(BadInput):  # what is wrong with the file is said to who keeps another one
                kept = {f"★ {name}": letters for name, letters in sharing.read_searches(self._searches()).items()}
            latest = dict([*self.history.items()][: -MOST_SEARCHES - 1 : -1])
            rows.append(sharing.of_sharing(kept | latest))
        return rows

    def _title(self, column: int) -> str:
        """The method's label, with its place where the method is shown twice."""
        label = self.state.methods[column]
        return f"{label}, {('left', 'right')[column]}" if self.state.methods.count(label) > 1 else label

    def _show(self, keep: bool = False) -> None:
        query, libraries, self.pairs = self.state.query, self._shown_libraries(), None
        columns, shown = [], dict(zip(self.state.methods, libraries, strict=True))
        similar = self._compares_images()
        text, self.gallery.asked = gallery.query_of(query, shown, self.rankings, similar)
        self.gallery.header = markup.header([described(library) for library in shown.values()], self.heard)
        for n, (library, ranking) in enumerate(zip(libraries, self.rankings, strict=True)):
            notes, title = (), self._title(n)
            if len(libraries) > 1:
                other = self._title(1 - n)
                notes = [f"{other}: rank {rank:,}" for rank in ranks_by(self.rankings[1 - n], ranking)]
            if changed := in_words(library, self.state.settings_of(n)):
                title = f"{title} ({changed})"
            verdicts = self.marks.verdicts(query, ranking)
            columns.append(gallery.column(library, ranking, title, verdicts, notes, similar))
        self.gallery.fill(libraries[0], columns, keep)
        n, everything = len(self.rankings[0].among), len(self.rankings[0].scores)
        count = f"{n:,}" if n == everything else f"{n:,} of {everything:,}"
        titles = " and by ".join(self._title(n) for n in range(len(self.rankings)))
        if not keep:
            self._say(f"{count} {query.target} ranked by {titles}.")
        item = (f"{query.kind}s", libraries[0].position(f"{query.kind}s", query.item)) if query.item != "" else None
        self.map.update(libraries[0], self.rankings[0], item)
        if not (self.state.filter.images or self.state.filter.captions):
            self.selection = None
            self.map.select_nothing()
        self._show_chips()
        self.gallery.address = letters = "" if query.kind == "upload" else state_to_link(self.state)
        self.history |= {text: letters} if letters else {}

    def _show_chips(self) -> None:
        """What restricts the answers, and what the marks could change, each with one click."""
        query, wanted, chips = self.state.query, self.state.filter, []
        if selected := len(wanted.images) + len(wanted.captions):
            everything = sum(len(self._shown_libraries()[0].ids(m)) for m in ("images", "captions"))
            chips.append(
                button(f"{selected:,} of {everything:,} selected on the map · clear", "rank all again", "unselect")
            )
        if replace(wanted, images=(), captions=()) != Filter():
            chips.append(button("filtered · clear", "show all answers again", "unfilter"))
        marked = self._examples(query)
        if query.like or query.unlike:
            chips.append(button("by examples · clear", "the query alone", "plain"))
        if any(marked.values()) and marked != {"like": query.like, "unlike": query.unlike}:
            chips.append(button("more like ✓, unlike ✗", "let the marked images count", "feedback"))
        self.gallery.chips = chips or [c for c in self.gallery.chips if c["act"] == "try"]

    def _compares_images(self) -> bool:
        """Whether all methods, as they are set, can compare images with images."""
        numbered = enumerate(self._shown_libraries())
        return all(similarity_of(own, self.state.settings_of(n)).symmetric for n, own in numbered)

    def _examples(self, query: Query) -> dict[str, tuple]:
        library = self._shown_libraries()[0]
        if query.target != "images" or not self._compares_images():
            return {}
        ids = {str(i): i for i in library.image_ids}
        return {name: tuple(ids[i] for i in own if i in ids) for name, own in self.marks.examples(query).items()}

    def _searches(self) -> Path:
        return self.marks.judgments.path.with_suffix(".searches.json")

    def _keep(self, name: str) -> None:
        sharing.keep_search(self._searches(), name, state_to_link(self.state))
        self._say(f"kept as “{name}”; it stands in the menu of searches.")

    def _copy(self) -> None:
        self.gallery.send({"kind": "copy", "text": state_to_link(self.state)})
        self._say("copied: a link to this view.")

    def _doubles(self) -> None:
        """Show the images that look most alike, pair by pair."""
        library = self._shown_libraries()[0]
        self.pairs, notes = doubles(library)
        n, title = len(notes) // 2, f"what looks most alike to {library.label}"
        column = gallery.column(library, self.pairs, title, [""] * len(notes), notes, self._compares_images())
        column |= {"pairs": True, "items": [item | {"plain": True} for item in column["items"]]}
        leaks = sum(map(bool, notes)) // 2
        told = f"Look-alikes, a pair in each row, the closest first; {leaks} of {n} lie in two splits."
        with self.gallery.hold_sync():
            self.gallery.view, self.gallery.asked = self.gallery.view + 1, {"html": told}
            self.gallery.fill(library, [column])
        self._say(f"{n} pairs by {library.label}; Back or a sentence leaves this view.")
        self._remember(lambda old=self.state: self._go(old, step=False))

    def _select(self, rows: pd.DataFrame | None) -> None:
        """Restrict answers to the items that were selected on the map, None for all; `selection` holds their frame."""
        self.selection = rows
        ids = {m: () if rows is None else tuple(rows["item"][rows["modality"] == m]) for m in ("images", "captions")}
        self._go(self.state.restrict(**ids).show(self.k))

    def _item(self, modality: str, position: int) -> str:
        """HTML of an item to which the pointer points on the map."""
        return photograph_html(self._shown_libraries()[0], modality, position, markup.THUMBNAIL)

    def _clicked(self, modality: str, position: int) -> None:
        """Ask the item that was clicked on the map."""
        self.ask(Query(modality[:-1], item=self._shown_libraries()[0].ids(modality)[position]))

    def tell(self, act: str, **fields) -> None:
        """Do what the page tells, or what a program wants: an `act` of `_acts`, with its fields."""
        self._told({"act": act, **fields}, ())

    def _told(self, content: dict, buffers: Sequence[bytes]) -> None:
        at = {name: content[name] for name in ("column", "row") if name in content}
        if content["act"] == "stop":
            self._stop()
        elif content.get("view", self.gallery.view) != self.gallery.view:
            self._say("the answers have changed since; click again.", "error")
        elif content["act"] == "thumbs":
            self.gallery.send_thumbs(self._shown_libraries()[0], content["items"])
        else:
            value = bytes(buffers[0]) if buffers else content.get("value", "")
            self._do(lambda: self._acts(value, content, at)[content["act"]]())

    def _acts(self, value, content: dict, at: dict) -> dict[str, Callable[[], object]]:
        """What the page can tell. value: of a field, or an image. content: all that was told. at: column and row."""
        query, name, place = self.state.query, content.get("name", ""), content.get("place", 0)
        ask = lambda query, **changes: self._go(self.state.ask(replace(query, **changes)).show(self.k))  # noqa: E731
        restrict = lambda **changes: self._go(self.state.restrict(**changes).show(self.k))  # noqa: E731
        save = lambda file, text: self.gallery.send({"kind": "save", "name": file, "text": text})  # noqa: E731
        return {
            "sentence": lambda: ask(self._sentence(value)), "try": lambda: ask(Query("text", value)),
            "draw": lambda: self._draw(name), "doubles": self._doubles, "back": self._back,
            "method": lambda: self._choose(place, value),
            "setting": lambda: self._go(self.state.set(place, **{name: value})),
            "filter": lambda: restrict(**{name: value}), "unfilter": lambda: restrict(**vars(Filter())),
            "unselect": lambda: self._select(None), "panel": lambda: self._toggle(name),
            "why": lambda: self._why(**at), "mark": lambda: self._mark(**at, verdict=content["verdict"]),
            "large": lambda: self._enlarge(**at),
            "ask": lambda: ask(self._asks(**at)), "similar": lambda: ask(self._asks(**at), similar=True),
            "captions": lambda: ask(query, similar=False, words="", like=(), unlike=()),
            "words": lambda: ask(query, similar=bool(value) or query.similar, words=value),
            "feedback": lambda: ask(query, **self._examples(query)), "plain": lambda: ask(query, like=(), unlike=()),
            "upload": lambda: ask(self._uploaded(value, name)),
            "more": lambda: self._go(self.state.show(self.state.usual.k + self.k), keep=True),
            "answers": lambda: save("answers.csv", self.frame().to_csv(index=False)),
            "qrels": lambda: save("qrels.txt", self.marks.judgments.qrels()),
            "map": lambda: save("map.csv", self.map.csv()),
            "link": self._copy, "keep": lambda: self._keep(value), "open": lambda: self._go(sharing.view_of(value)),
        }  # fmt: skip

    def _asks(self, column: int | None = None, row: int = 0) -> Query:
        """The query that an answer asks, or, without a column, the present one."""
        if column is None:
            return self.state.query
        shown = self.gallery.columns[column]
        modality = "captions" if shown["texts"] else "images"
        ids = {str(i): i for i in self._shown_libraries()[0].ids(modality)}
        return Query(modality[:-1], item=ids[shown["items"][row]["id"]])

    def ask(self, query: Query) -> None:
        """Rank for a query and show the answers."""
        self._do(lambda: self._go(self.state.ask(query).show(self.k)))

    @staticmethod
    def _sentence(text: str) -> Query:
        """The query in the sentence field: a sentence, or the image file that it names."""
        if (file := Path(text.strip().strip("'\""))).suffix.lower() in _IMAGES:
            with suppress(RuntimeError):  # ~ of nobody
                file = file.expanduser()
            if file.is_file():
                return Query("upload", text=file.name, pixels=file)
            if len(file.parts) > 1:
                raise BadInput(f"there is no file {file}.")
        return Query("text", text)

    @staticmethod
    def _uploaded(content: bytes, name: str = "") -> Query:
        """The query of an image in a file's bytes."""
        try:
            return Query("upload", text=name or "uploaded image", pixels=content)
        except DamagedFile as e:
            raise BadInput("this file is no image that can be read; upload a JPEG or PNG.") from e

    def _back(self) -> None:
        """Take the last step back: a query, a method, a filter, or a mark."""
        if not self._undo:
            raise BadInput("there is nothing to take back.")
        self._undo[-1]()
        self._undo.pop()

    def _stop(self) -> None:
        """Leave what is done in the background; what it computed is kept."""
        if self._waiting:
            self._waiting = []
            self._do(lambda: self._say("left; what was shown is still shown."))

    def _choose(self, place: int, label: str) -> None:
        """Another method in the first (0) or second (1) place; what is still being opened is left."""
        self._waiting = [own for own in self._waiting if not own[0].startswith("opening")]
        labels = [*self.state.methods, NONE][:2]
        labels[place] = label
        self._go(self.state.compare(*(label for label in labels if label != NONE)))

    def _toggle(self, panel: str) -> None:
        """Show or hide a panel."""
        self.panels ^= {panel}
        if panel == "Map":
            self.map.show(panel in self.panels)

    def _why(self, column: int, row: int) -> None:
        """Say below an answer why it is there, and close what was said of another one; the same again closes it."""
        opened = self.gallery.opened
        if (opened.get("column"), opened.get("row")) == (column, row):
            self.gallery.opened = {}
            return self._say("")
        title, settings = self._title(column), self.state.settings_of(column)
        library, position = self._shown_libraries()[column], int(self.rankings[column].order[row])
        html = why_html(library, self.state.query, position, settings, title)
        self.gallery.opened = {"column": column, "row": row, "html": html}
        self._say(f"why {title} found answer {row + 1}: below it.")

    def _enlarge(self, column: int | None = None, row: int = 0) -> None:
        """Show an answer, or without a column the query, as large as the page."""
        at = {} if column is None else {"column": column}
        if at:  # before the first and after the last answer there is none
            at["row"] = min(max(row, 0), len(self.gallery.columns[column]["items"]) - 1)
        query, library = self._asks(**at), self._shown_libraries()[0]
        if query.kind == "upload":
            html = markup.large(markup.data_uri(query.pixels, _LARGE), query.text)
        else:
            html = photograph_html(library, f"{query.kind}s", library.position(f"{query.kind}s", query.item), _LARGE)
        self.gallery.send({"kind": "large", "html": html, **at})

    def _mark(self, column: int, row: int, verdict: str) -> None:
        """Mark an answer as 'right' or 'wrong'; the same again takes that back."""
        library, ranking, query = self._shown_libraries()[column], self.rankings[column], self.state.query
        item = str(ranking.table["item"].iloc[row])
        before = self.marks.verdict(query, item)

        def mark(verdict: str) -> None:
            said = self.marks.mark(library, query, item, verdict, ranking.scores)
            self._show(keep=True)
            self._say(said)

        mark("" if before == verdict else verdict)
        self._remember(lambda: mark(before))

    def frame(self) -> pd.DataFrame:
        """The answers that are shown: a row for each, with its query, method, rank, item, score and mark; of
        look-alikes two for each pair, with its number, item and score. Raises: BadInput before the first query."""
        if self.pairs is not None:
            return self.pairs.table
        if (query := self.state.query) is None:
            raise BadInput("nothing has been asked yet; type a sentence first.")
        tables = []
        for n, ranking in enumerate(self.rankings):
            about = {"query": query.text if query.item == "" else query.item, "method": self._title(n)}
            tables.append(ranking.table.assign(verdict=self.marks.verdicts(query, ranking), **about))
        table = pd.concat(tables, ignore_index=True)
        return table[["query", "method", *table.columns.drop(["query", "method"])]]

    def _draw(self, name: str) -> None:
        """Ask a query that a button chooses."""
        self._draws += 1
        libraries = self._shown_libraries()
        if reason := lacking(libraries, name):
            raise BadInput(f"this cannot be asked: {reason}.")
        query = DRAWS[name][-1](libraries, self.marks.judgments, self._draws)
        self._go(self.state.ask(query).show(self.k))


def explore(place: Path | str, runs: Sequence[str] = (), k: int = 10, view: str = "") -> Explorer:
    """An explorer of the images in a folder, or of an index.

    place: a folder of images, or an index (`python -m xmr_core index`), which holds its model. runs: models that encode
    the folder: runs by id or short name, or anything that `load` reads; by default those of views.folder_models. k,
    view: as of Explorer.
    Raises: BadInput for a place that does not exist, a name that is no run, and a folder for which no model is at hand.

    >>> explore("no-such-place")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: no-such-place is no folder. Give a folder of images, or an index.
    """
    place = Path(place).expanduser()
    if not (runs := folder_models(place, runs)):
        index = open_index(place)
        return Explorer(lambda _: index, [index.label], k=k, view=view)
    return Explorer(lambda name: open_folder(load(name), place, name), runs, k=k, view=view)
