"""What stands above the explorer's answers: settings of a method, filters, queries to draw, and marks."""

from collections.abc import Callable, Sequence
from math import log2
from pathlib import Path

import ipywidgets as w

from xmr_core.base.errors import BadInput
from xmr_core.base.types import GaussianEmbedding
from xmr_core.retrieval.judgments import Judgments
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query, Ranking, Settings
from xmr_core.similarities.gaussian import distances_of
from xmr_study.explorer import filters
from xmr_study.explorer.filters import MARKS, Filter, disagreements, query_key, unjudged_queries
from xmr_study.explorer.state import ambiguous_queries, hard_query, random_query, unsure_queries

_STYLE = {"description_width": "initial"}


def settings_row(library: Library, title: str, now: Settings, changed: Callable[..., None]) -> w.Widget | None:
    """Sliders and menus for what this method has, None for nothing. title: of its column. changed: called with the new
    value of one field of Settings."""
    row = []
    own = library.method.similarity
    if "alpha" in own.settings:
        span = own.ranges["alpha"]
        slider = w.FloatLogSlider(
            value=now.alpha or own.settings["alpha"], base=2, min=log2(span.low), max=log2(span.high), step=0.5,
            description=f"{span.symbol} of {title}", continuous_update=False, style=_STYLE,
        )  # fmt: skip
        slider.observe(lambda change: changed(alpha=float(change["new"])), "value")
        row.append(slider)
    if isinstance(library.images, GaussianEmbedding):
        options = [("as trained", ""), *((name, name) for name in distances_of(library.images))]
        menu = w.Dropdown(options=options, value=now.distance, description=f"{title} by", style=_STYLE)
        menu.observe(lambda change: changed(distance=change["new"]), "value")
        row.append(menu)
    return w.HBox(row, layout=w.Layout(flex_flow="row wrap")) if row else None


def in_words(library: Library, now: Settings) -> str:
    """What of the settings is not the method's own: 'α = 4'; '' for nothing."""
    own = library.method.similarity.settings.get("alpha")
    alpha = f"α = {now.alpha:g}" if now.alpha and now.alpha != own else ""
    return ", ".join(part for part in (alpha, now.distance) if part)


# The line of filters: what answers must be.


_WORDS = {"style": {"description_width": "initial"}, "layout": w.Layout(width="auto", max_width="240px")}


class FilterBar:
    """Menus and fields of a Filter. changed: called with the fields that changed."""

    def __init__(self, changed: Callable[..., None]):
        self._changed, self._watched = changed, True
        self.split = w.Dropdown(options=[("any", "")], description="Split", **_WORDS)
        options = [("any", ""), *((name, name) for name in MARKS[1:])]
        self.marked = w.Dropdown(options=options, description="Judged", **_WORDS)
        self.text = w.Text(description="Text", placeholder="in captions or names", continuous_update=False, **_WORDS)
        self.moved = w.BoundedIntText(value=0, min=0, max=10**9, description="Ranks differ by", **_WORDS)
        self.clear = w.Button(description="Clear filter", tooltip="show all answers", layout=w.Layout(width="auto"))
        self.said = w.HTML()
        for name, widget in self._fields().items():
            widget.observe(lambda change, name=name: self._watched and changed(**{name: change["new"]}), "value")
        self.clear.on_click(lambda _: changed(**vars(Filter())))
        fields = [*self._fields().values(), self.clear, self.said]
        self.widget = w.HBox(fields, layout=w.Layout(flex_flow="row wrap", display="none"))

    def show(self, wanted: Filter, library: Library) -> None:
        """Set the menus to a filter, with the splits that there are."""
        self._watched = False
        splits = {str(s) for s in ([] if library.splits is None else library.splits)} | {wanted.split}
        self.split.options = [("any", ""), *((name, name) for name in sorted(splits - {""}))]
        self.split.value = wanted.split
        self.marked.value, self.text.value, self.moved.value = wanted.marked, wanted.text, wanted.moved
        selected = len(wanted.images) + len(wanted.captions)
        self.said.value = f"<span class='xmr-soft'>{selected:,} items selected on the map</span>" if selected else ""
        self._watched = True

    def _fields(self) -> dict[str, w.Widget]:
        return {n: getattr(self, n) for n in ("split", "marked", "text", "moved")}


# Queries that the explorer's buttons choose.


_CHOICES = 10  # queries that a button goes through, one after the other
_EXAMPLES = ("two dogs on a beach", "a dog", "a person", "a red circle above a blue square", "a red circle")


def _first(queries: Sequence[Query], n: int) -> Query:
    return queries[n % min(len(queries), _CHOICES)]


def _disagree(libraries: Sequence[Library], judgments: Judgments, n: int) -> Query:
    if len(libraries) < 2:
        raise BadInput("choose a second method; then this shows the captions that the two answer most differently.")
    first, second = libraries
    return _first(first.once(("disagree", id(second)), lambda: disagreements(first, second)), n)


DRAWS: dict[str, tuple[str, Callable[[Sequence[Library], Judgments, int], Query]]] = {  # button → (tooltip, query n)
    "Random image": ("captions for an image of the corpus", lambda own, _, n: random_query(own[0], "image", n)),
    "Random caption": ("images for a caption of the corpus", lambda own, _, n: random_query(own[0], "caption", n)),
    "Hard": ("a caption whose first answer is wrong", lambda own, _, n: hard_query(own[0], seed=n)),
    "Ambiguous": ("a caption that many images fit", lambda own, _, n: _first(ambiguous_queries(own[0]), n)),
    "Unsure": ("a caption of which the first method is unsure", lambda own, _, n: _first(unsure_queries(own[0]), n)),
    "Disagree": ("a caption that the two methods answer most differently", _disagree),
    "Unjudged": ("a caption of which no answer is marked", lambda own, marks, n: unjudged_queries(own[0], marks, n)[0]),
}


def example_query(library: Library, seed: int) -> Query:
    """Something to see at the start: a caption of the library, or a sentence where there are no captions.

    Raises: BadInput for a method that knows no word of the example sentences.
    """
    if len(library.caption_ids):
        return random_query(library, "caption", seed)
    for text in _EXAMPLES:
        if not library.raw.captions.readings([text])[0].unknown:  # all are known
            return Query("text", text)
    raise BadInput("type a sentence with words of the captions on which the method was trained.")


# Marks in the explorer: what people said, kept in a file, and what follows for the query.


class Marks:
    """The judgments that an explorer shows. path: of their file; '' for filters.judgments_path."""

    def __init__(self, path: str):
        self._path, self.judgments = path, Judgments(Path())

    def open(self, library: Library) -> None:
        """Read the judgments of a library's items, when the first library is opened."""
        if self.judgments.path == Path():
            came_with = [library.folder / "judgments.jsonl"] if library.folder and not self._path else []
            self.judgments = Judgments.read(self._path or filters.judgments_path(library), came_with)

    def mark(self, library: Library, query: Query, answer: Query, verdict: str, scores) -> str:
        """Mark an answer; the verdict that it has already is taken back. Returns a sentence on what changed. Raises:
        BadInput for an uploaded image as the query, which has no name."""
        if query.kind == "upload":
            raise BadInput("an uploaded image has no name to remember marks by; put it into the folder, and index.")
        key, item = query_key(query), (query.target, str(answer.item))
        verdict = "" if self.judgments.verdict(key, item) == verdict else verdict
        self.judgments.mark(key, item, verdict)
        value, n = filters.assessed_r_precision(library, query, scores, self.judgments)
        metric = f"R-Precision of this query {value:.2f}, {n} right" if n else "no right answer is known"
        return f"marked {'as ' + verdict if verdict else 'as not judged'}: {metric}, by {library.label}."

    def verdicts(self, query: Query, ranking: Ranking) -> list[str]:
        """The verdict of each answer that is shown, '' without one."""
        key = query_key(query)
        return [self.judgments.verdict(key, (query.target, str(item))) for item in ranking.table["item"]]
