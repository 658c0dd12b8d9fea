"""What stands above the explorer's answers: settings of a method, filters, queries to draw, and marks."""

from collections.abc import Callable, Sequence
from math import log2
from pathlib import Path

import numpy as np

from xmr_core.base.errors import BadInput
from xmr_core.base.types import GaussianEmbedding
from xmr_core.retrieval.judgments import Judgments
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query, Ranking, Settings
from xmr_core.similarities.gaussian import distances_of
from xmr_study.explorer import filters
from xmr_study.explorer.filters import MARKS, Filter, disagreements, query_key, unjudged_queries
from xmr_study.explorer.state import ambiguous_queries, hard_query, random_query, unequal_counts, unsure_queries

Control = dict[str, object]  # of the page, as the script draws it: its 'kind', its 'label', and what it tells Python


def button(label: str, tip: str, act: str, off: bool = False, on: bool = False, **fields) -> Control:
    """A button. off: it cannot be pressed. on: it is pressed. fields: told beside its act."""
    return {"kind": "button", "label": label, "tip": tip, "act": act, "off": off, "on": on, "fields": fields}


def field(label: str, value: object, act: str, hint: str = "", options: Sequence | None = None, **more) -> Control:
    """A field: a menu where there are options (text, value), else of letters, or of a number where the value is one.
    more: fields that are told, or of a slider 'span' (lowest and highest power of two)."""
    span = more.pop("span", None)
    kind = "choice" if options is not None else "slider" if span else "field"
    shown = {"value": value, "hint": hint, "options": options, "span": span}
    return {"kind": kind, "label": label, "act": act, "fields": more, **shown}


def of_method(library: Library, title: str, now: Settings, place: int) -> list[Control]:
    """Sliders and menus for what this method has. title: of its column. place: of the method, 0 or 1."""
    own, out = library.method.similarity, []
    if "alpha" in own.settings:
        span, value = own.ranges["alpha"], now.alpha or own.settings["alpha"]
        label, powers = f"{span.symbol} of {title}", (log2(span.low), log2(span.high))
        out.append(field(label, value, "setting", span=powers, place=place, name="alpha"))
    if isinstance(library.images, GaussianEmbedding):
        options = [("as trained", ""), *((name, name) for name in distances_of(library.images))]
        out.append(field(f"{title} by", now.distance, "setting", options=options, place=place, name="distance"))
    return out


def in_words(library: Library, now: Settings) -> str:
    """What of the settings is not the method's own: 'α = 4'; '' for nothing."""
    own = library.method.similarity.settings.get("alpha")
    alpha = f"α = {now.alpha:.3g}" if now.alpha and now.alpha != own else ""
    return ", ".join(part for part in (alpha, now.distance) if part)


def of_filter(wanted: Filter, library: Library) -> list[Control]:
    """The menus and fields of a filter, with the splits that there are."""
    splits = {str(s) for s in ([] if library.splits is None else library.splits)} | {wanted.split}
    menus = (("Split", "split", sorted(splits - {""})), ("Judged", "marked", MARKS[1:]))
    out = [
        field(label, getattr(wanted, name), "filter", options=[("any", ""), *((o, o) for o in options)], name=name)
        for label, name, options in menus
    ]
    out.append(field("Text", wanted.text, "filter", hint="in captions or names", name="text"))
    out.append(field("Ranks differ by", wanted.moved, "filter", name="moved"))
    return [*out, button("Clear filter", "show all answers", "unfilter")]


# Queries that the explorer's buttons choose.


_CHOICES = 10  # queries that a button goes through, one after the other
_EXAMPLES = ("two dogs on a beach", "a dog", "a person", "a red circle above a blue square", "a red circle")


def _first(queries: Sequence[Query], n: int) -> Query:
    return queries[n % min(len(queries), _CHOICES)]


def _disagree(libraries: Sequence[Library], judgments: Judgments, n: int) -> Query:
    first, second = libraries
    return _first(first.once(("disagree", id(second)), lambda: disagreements(first, second)), n)


def _unsure(libraries: Sequence[Library], judgments: Judgments, n: int) -> Query:
    return _first(unsure_queries(libraries[0], "caption" if len(libraries[0].caption_ids) else "image"), n)


Draw = Callable[[Sequence[Library], Judgments, int], Query]
DRAWS: dict[str, tuple[str, str, Draw]] = {  # button → (tooltip, what it needs: a key of _LACKING, query n)
    "Random image": ("an image of the corpus", "images", lambda own, _, n: random_query(own[0], "image", n)),
    "Random caption": ("a caption of the corpus", "captions", lambda own, _, n: random_query(own[0], "caption", n)),
    "Hard": ("a caption whose first answer is wrong", "captions", lambda own, _, n: hard_query(own[0], seed=n)),
    "Ambiguous": (
        "a caption that many images fit", "unequal", lambda own, _, n: _first(ambiguous_queries(own[0]), n)
    ),
    "Unsure": ("what the first method is least sure of", "uncertainty", _unsure),
    "Disagree": ("a caption that the two methods answer most differently", "two methods", _disagree),
    "Unjudged": (
        "a caption of which no answer is marked", "captions",
        lambda own, marks, n: unjudged_queries(own[0], marks, n)[0],
    ),
}  # fmt: skip
_LACKING: dict[str, tuple[str, Callable[[Sequence[Library]], bool]]] = {  # need → (why not, whether it is met)
    "captions": ("these images have no captions", lambda own: own[0].captions is not None),
    "images": (
        "the method compares images with captions only, and here are none",
        lambda own: own[0].captions is not None or own[0].method.similarity.symmetric,
    ),
    "unequal": ("every caption has as many known right answers", lambda own: unequal_counts(own[0]) is not None),
    "uncertainty": (
        "the first method does not say how sure it is",
        lambda own: own[0].uncertainty("images" if own[0].captions is None else "captions") is not None,
    ),
    "two methods": ("choose a second method", lambda own: len(own) > 1 and own[0].captions is not None),
}  # fmt: skip


def lacking(libraries: Sequence[Library], button: str) -> str:
    """Why a button can draw no query from the libraries that are shown, '' where it can."""
    reason, met = _LACKING[DRAWS[button][1]]
    return "" if met(libraries) else reason


def examples(library: Library, seed: int, n: int = 3) -> list[str]:
    """Sentences to begin with: captions of the library, or the examples of which all words are known."""
    if len(library.texts):
        return [str(library.texts[p]) for p in np.random.default_rng(seed).permutation(len(library.texts))[:n]]
    known = [text for text in _EXAMPLES if not library.raw.captions.readings([text])[0].unknown]
    return (known or [*_EXAMPLES])[:n]


def example_query(library: Library, seed: int) -> Query:
    """Something to see at the start: a caption of the library, or a sentence where there are no captions.

    Raises: BadInput for a method that knows no word of the example sentences.
    """
    if len(library.caption_ids):
        return random_query(library, "caption", seed)
    text = examples(library, seed)[0]
    if library.raw.captions.readings([text])[0].unknown:
        raise BadInput("type a sentence with words of the captions on which the method was trained.")
    return Query("text", text)


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

    def mark(self, library: Library, query: Query, item: str, verdict: str, scores) -> str:
        """Mark an answer, or take a verdict back (''). Returns a sentence on what changed. Raises: BadInput for an
        uploaded image as the query, which has no name."""
        if query.kind == "upload":
            raise BadInput("an uploaded image has no name to remember marks by; put it into the folder, and index.")
        self.judgments.mark(query_key(query), (query.target, item), verdict)
        value, n = filters.assessed_r_precision(library, query, scores, self.judgments)
        metric = f"R-Precision of this query {value:.2f}, {n} right" if n else "no right answer is known"
        return f"marked {'as ' + verdict if verdict else 'as not judged'}: {metric}, by {library.label}."

    def verdicts(self, query: Query, ranking: Ranking) -> list[str]:
        """The verdict of each answer that is shown, '' without one."""
        return [self.verdict(query, str(item)) for item in ranking.table["item"]]

    def verdict(self, query: Query, item: str) -> str:
        """The verdict of an answer, '' without one."""
        return self.judgments.verdict(query_key(query), (query.target, item))

    def examples(self, query: Query) -> dict[str, tuple[str, ...]]:
        """The images that are marked as answers to a query: 'like' (right) and 'unlike' (wrong)."""
        own = self.judgments.verdicts.get(query_key(query), {})
        images = {item: verdict for (modality, item), verdict in own.items() if modality == "images"}
        names = {"like": "right", "unlike": "wrong"}
        return {name: tuple(i for i, v in images.items() if v == verdict) for name, verdict in names.items()}
