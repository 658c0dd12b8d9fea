"""Queries that the explorer's buttons choose."""

from collections.abc import Callable, Sequence

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.judgments import Judgments
from xmr_core.search.assessment import disagreements, unjudged_queries
from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.state import ambiguous_queries, hard_query, random_query, unsure_queries

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
        if not library.prepared.words_of(text)[1]:  # all are known
            return Query("text", text)
    raise BadInput("type a sentence with words of the captions on which the method was trained.")
