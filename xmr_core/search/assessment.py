"""What judgments of people say of a method, and which queries are worth judging."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import RelevantRanks
from xmr_core.evaluation import metrics
from xmr_core.evaluation.engine import relevant_ranks
from xmr_core.evaluation.judgments import Judgments
from xmr_core.search.filters import query_key
from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.ranking import Settings, rank

_SAMPLE, _TOP = 200, 10  # captions that are compared, and answers of each


def assess(library: Library, judgments: Judgments) -> pd.DataFrame:
    """Metrics of every judged query of a library, typed sentences included: one row for each.

    Right are the annotated answers with those that people added, without those that they took away; queries without a
    right answer are left out. For captions and images of a corpus these are the numbers that `evaluate` gives for the
    relevance set Judgments.corrected.
    Returns: columns kind, query, n_relevant, first_rank, R@1, r_precision and map_at_r.

    >>> from pathlib import Path
    >>> from xmr_core.search import example_library
    >>> judgments = Judgments(Path("none"), {("text", "a ring"): {("images", "1.png"): "right"}})
    >>> assess(example_library(), judgments)[["kind", "query", "n_relevant"]].values.tolist()
    [['text', 'a ring', 1]]
    """
    rows = []
    for kind, name in judgments.verdicts:
        query = Query(kind, text=name) if kind == "text" else Query(kind, item=name)
        if right := _right(library, query, judgments):
            r = _ranks(library, query, right, rank(library, query, Settings(k=1)).scores)
            values = metrics.first_rank(r), metrics.recall_at_k(r, 1), metrics.r_precision(r), metrics.map_at_r(r)
            rows.append((kind, name, len(right), *(v[0] for v in values)))
    columns = ["kind", "query", "n_relevant", "first_rank", "R@1", "r_precision", "map_at_r"]
    return pd.DataFrame(rows, columns=columns)


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
    value = metrics.r_precision(_ranks(library, query, right, scores))[0] if right else np.nan
    return float(value), len(right)


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
    right = set(_annotated(library, query))
    for (_, item), verdict in judgments.verdicts.get(query_key(query), {}).items():
        positions = library.once(("places", query.target), lambda: _places(library, query.target))
        if item in positions:
            (right.add if verdict == "right" else right.discard)(positions[item])
    return sorted(right)


def _ranks(library: Library, query: Query, right: list[int], scores: np.ndarray) -> RelevantRanks:
    relevance = Relevance.from_positions(np.zeros(len(right)), right, [0], library.ids(query.target))
    return relevant_ranks(scores[None], relevance)


def _places(library: Library, modality: str) -> dict[str, int]:
    return {str(item): n for n, item in enumerate(library.ids(modality))}


def _annotated(library: Library, query: Query) -> list[int]:
    if query.kind == "text" or "annotated" not in library.relevance_sets:
        return []
    return library.relevant("annotated", f"{query.kind}s", library.position(f"{query.kind}s", query.item)).tolist()
