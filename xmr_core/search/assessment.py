"""What judgments of people say of a method, and which queries are worth judging."""

import numpy as np
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.evaluation import metrics
from xmr_core.evaluation.engine import relevant_ranks
from xmr_core.evaluation.judgments import Judgments
from xmr_core.search.filters import query_key
from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.ranking import Settings, rank

_SAMPLE, _TOP = 200, 10  # captions that are compared, and answers of each


def assessed_r_precision(
    library: Library, query: Query, scores: Float[np.ndarray, " n"], judgments: Judgments
) -> tuple[float, int]:
    """(R-Precision of one query by annotations and judgments together, number of right answers); NaN for none.

    scores: of all items that the query can be answered by.

    >>> from pathlib import Path
    >>> from xmr_core.search import example_library
    >>> judgments = Judgments(Path("none"), {("text", "a ring"): {("images", "1.png"): "right"}})
    >>> assessed_r_precision(example_library(), Query("text", "a ring"), np.array([0.1, 0.3, 0.2]), judgments)
    (1.0, 1)
    """
    right = _right(library, query, judgments)
    if not right:
        return np.nan, 0
    relevance = Relevance.from_positions(np.zeros(len(right)), right, [0], library.ids(query.target))
    return float(metrics.r_precision(relevant_ranks(scores[None], relevance))[0]), len(right)


def disagreements(first: Library, second: Library, seed: int = 0) -> list[Query]:
    """Captions to which two methods give the most different answers, of a random sample of 200: first those whose best
    ten have the fewest images in common.

    Raises: BadInput for libraries of different images, or without captions.

    >>> from xmr_core.search import example_library
    >>> len(disagreements(example_library("dive"), example_library("pcme")))
    3
    """
    if not np.array_equal(first.image_ids, second.image_ids):
        raise BadInput(f"{first.label} and {second.label} have different images, so they cannot be compared.")
    if not len(first.caption_ids):
        raise BadInput("this library has no captions by which to compare two methods.")
    sample = np.random.default_rng(seed).permutation(len(first.caption_ids))[:_SAMPLE]
    rows = []
    for position in sample.tolist():
        query = Query("caption", item=first.caption_ids[position])
        best = [set(rank(library, query, Settings(k=_TOP)).order.tolist()) for library in (first, second)]
        rows.append((len(best[0] & best[1]), query))
    return [query for _, query in sorted(rows, key=lambda row: row[0])]


def unjudged_queries(library: Library, judgments: Judgments, seed: int = 0) -> list[Query]:
    """Captions of which no answer is judged, in random order. Raises: BadInput where there is none.

    >>> from pathlib import Path
    >>> from xmr_core.search import example_library
    >>> len(unjudged_queries(example_library(), Judgments(Path("none"))))
    3
    """
    order = np.random.default_rng(seed).permutation(len(library.caption_ids))
    queries = [Query("caption", item=library.caption_ids[n]) for n in order]
    queries = [query for query in queries if not judgments.verdicts.get(query_key(query))]
    if not queries:
        raise BadInput("every caption has an answer that is judged." if len(order) else "this library has no captions.")
    return queries


def _right(library: Library, query: Query, judgments: Judgments) -> list[int]:
    """Positions of the right answers to a query: the annotated ones, corrected by people."""
    right = set()
    if query.kind in ("caption", "image") and "annotated" in library.relevance_sets:
        position = library.position(f"{query.kind}s", query.item)
        right = {*library.relevant("annotated", f"{query.kind}s", position).tolist()}
    ids = library.ids(query.target)
    places = library.once(("places", query.target), lambda: {str(item): n for n, item in enumerate(ids)})
    for (_, item), verdict in judgments.verdicts.get(query_key(query), {}).items():
        if item in places:
            (right.add if verdict == "right" else right.discard)(places[item])
    return sorted(right)
