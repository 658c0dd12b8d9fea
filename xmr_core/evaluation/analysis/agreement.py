"""Agreement of scores with human grades of single pairs."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.evaluation.metrics import first_rank
from xmr_core.evaluation.ranks import relevant_ranks
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.evaluation.scoring import MatrixScores, Scores
from xmr_core.evaluation.stats import image_error, seed_interval


def judgment_agreement(
    scores: Float[np.ndarray, "i t"] | Scores, own: Relevance, grades: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Kendall's τ_c between scores and human grades over all graded pairs, with one row for each kind of grade.

        τ_c = 2 (P − Q) / (n² (m − 1) / m)

    P and Q count the pairs of graded pairs that scores and grades order alike and in opposite ways, n is the number of
    graded pairs, and m the smaller number of distinct values (usually of grades). τ_c lies in [−1, 1] and is 0 without
    any agreement; the column n_queries holds n. Retrieval compares scores of one query only; τ_c also shows whether
    equal scores mean the same for different images.

    Args:
        own: captions as queries, images as gallery; its ids are those of the scores, in their order.
        grades: kind → columns image_id, caption_id, grade. Pairs with an id that `own` does not have (of other splits)
            are left out. A kind without two different grades has no row.
    Source: τ_c on Flickr8k's judgments is how caption metrics are compared (Hodosh et al., JAIR 2013; Anderson et al.,
        ECCV 2016).

    >>> own = Relevance.from_matrix(np.eye(2, dtype=bool), ["c0", "c1"], ["i0", "i1"])
    >>> grades = pd.DataFrame({"image_id": ["i0", "i0"], "caption_id": ["c0", "c1"], "grade": [4, 1]})
    >>> judgment_agreement(np.array([[0.9, 0.1], [0.2, 0.8]]), own, {"expert": grades})["value"].tolist()
    [1.0]
    """
    if not grades:
        return pd.DataFrame([], columns=METRIC_COLUMNS)
    from scipy.stats import kendalltau  # takes as long to import as half of torch

    scores = scores if isinstance(scores, Scores) else MatrixScores(scores)
    images, captions = (pd.Index(ids) for ids in (own.gallery_ids, own.query_ids))
    rows = []
    for kind, table in grades.items():
        i, t = images.get_indexer(table["image_id"]), captions.get_indexer(table["caption_id"])
        valid = (i >= 0) & (t >= 0)
        grade = table["grade"].to_numpy()[valid]
        if len(np.unique(grade)) > 1:
            value = kendalltau(scores.pairs(i[valid], t[valid]), grade, variant="c").statistic
            rows.append((kind, "both", "kendall_tau_c", 0, float(value), int(valid.sum())))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


# What annotated pairs miss: how often Recall@K counts a right answer as wrong, and which metric can stand for the
# truth.


def punished(
    scores: Float[np.ndarray, "i t"], annotated: Relevance, true: Relevance, ks: Sequence[int] = (1, 5, 10)
) -> pd.DataFrame:
    """How often R@K on annotated pairs counts an answer as wrong that is right.

    Args: annotated, true: captions as queries, images as gallery; every annotated pair should also be true.
    Returns: per direction and k, in percent: wrong (queries without an annotated item among the first k), of these
        right (of those queries, the ones with a true item among the first k), found (R@K by the true relevance set). A
        true item whose score ties with an irrelevant one counts as ranked after it.
    Raises: BadInput for relevances of other queries or galleries than the scores.

    >>> matrices = (np.array(m, bool) for m in ([[1, 0], [0, 1]], [[1, 1], [0, 1]]))
    >>> annotated, true = (Relevance.from_matrix(m, range(2), range(2)) for m in matrices)
    >>> punished(np.array([[0.1, 0.2], [0.3, 0.4]]), annotated, true, ks=[1])["wrong"].tolist()
    [50.0, 50.0]
    """
    if scores.shape != (len(annotated.gallery_ids), len(annotated.query_ids)) or len(true) != len(annotated):
        raise BadInput(
            f"{scores.shape[0]} × {scores.shape[1]} scores do not fit relevances of "
            f"{len(annotated)} and {len(true)} captions."
        )
    rows = []
    directions = (("i2t", scores, annotated.transpose(), true.transpose()), ("t2i", scores.T, annotated, true))
    for direction, matrix, own, all_true in directions:
        queries, items = np.flatnonzero(own.counts), np.arange(matrix.shape[1])
        selected = np.ascontiguousarray(matrix[queries])
        first_own, first_true = (
            first_rank(relevant_ranks(selected, r.restrict(queries, items))) for r in (own, all_true)
        )
        for k in ks:
            missed = first_own > k
            right = float((first_true[missed] <= k).mean()) if missed.any() else 0.0
            rows.append((direction, k, 100 * missed.mean(), 100 * right, 100 * (first_true <= k).mean()))
    return pd.DataFrame(rows, columns=["direction", "k", "wrong", "of these right", "found"])


def random_share(annotated: Relevance, true: Relevance) -> dict[str, float]:
    """direction → percent of `of these right` in punished at k = 1 for first answers that are drawn at random among the
    items that are not annotated: the mean over queries of (|true| − |annotated|) / (items − |annotated|).

    Args: as in punished; every annotated pair should also be true. A query of which every item is annotated is left
        out. Raises: BadInput where no query is left.

    >>> matrices = (np.array(m, bool) for m in ([[1, 0, 0], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]))
    >>> annotated, true = (Relevance.from_matrix(m, range(2), range(3)) for m in matrices)
    >>> random_share(annotated, true)["t2i"]
    25.0
    """
    out = {}
    for direction, own, every in (("i2t", annotated.transpose(), true.transpose()), ("t2i", annotated, true)):
        rest = len(own.gallery_ids) - own.counts
        valid = (own.counts > 0) & (rest > 0)
        if not valid.any():
            raise BadInput("a random wrong answer needs a query with an annotated item, and an item that is not.")
        out[direction] = float(100 * ((every.counts - own.counts)[valid] / rest[valid]).mean())
    return out


def agreement_of_benchmarks(values: pd.DataFrame, truth: str, benchmarks: Sequence[str]) -> pd.DataFrame:
    """Kendall's τ_b between columns that stand for the truth and the true column, over the rows of a table.

        τ_b = (P − Q) / √((P + Q + T_x)(P + Q + T_y))

    P and Q count the pairs of rows that both columns order alike and in opposite ways, T the pairs tied in one of them.
    1: a column orders all rows (methods, or queries) as the truth does; 0: no relation; NaN: a column is constant.

    Returns: columns benchmark, tau, mean (of the benchmark), largest τ_b first.
    Raises: BadInput for fewer than 3 rows or a column that the table does not have.

    >>> table = pd.DataFrame({"truth": [1, 2, 3], "good": [4, 5, 9], "bad": [3, 2, 1]})
    >>> agreement_of_benchmarks(table, "truth", ["bad", "good"])["benchmark"].tolist()
    ['good', 'bad']
    """
    if missing := [c for c in (truth, *benchmarks) if c not in values]:
        raise BadInput(f"no column {missing[0]!r}; there are {', '.join(map(str, values))}.")
    if len(values) < 3:
        raise BadInput(f"an order needs at least 3 rows to be compared, got {len(values)}.")
    from scipy.stats import kendalltau  # takes as long to import as half of torch

    rows = [(p, float(kendalltau(values[p], values[truth]).statistic), float(values[p].mean())) for p in benchmarks]
    table = pd.DataFrame(rows, columns=["benchmark", "tau", "mean"])
    return table.sort_values("tau", ascending=False, kind="stable", ignore_index=True)


def per_query_values(per_query: pd.DataFrame, columns: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """One row per (direction, query) with named values of several relevance sets; only queries that have all of them.

    columns: new name → (relevance, column of per_query).

    >>> table = pd.DataFrame({"relevance": ["a", "b"], "direction": "i2t", "query": 7, "R@1": [1.0, 0.0]})
    >>> per_query_values(table, {"annotated": ("a", "R@1"), "true": ("b", "R@1")}).columns.tolist()
    ['direction', 'query', 'annotated', 'true']
    """
    index = ["direction", "query"]
    parts = [
        per_query[per_query["relevance"] == kind].set_index(index)[column].rename(name)
        for name, (kind, column) in columns.items()
    ]
    return pd.concat(parts, axis=1, join="inner").reset_index()


# What one method gains over another in R-Precision, and whether these queries and seeds can tell.


COLUMNS = ["method", "than", "gain", "low", "high"]


def precision_gains(
    pairs: Sequence[tuple[str, str]],
    tables: Mapping[str, Sequence[pd.DataFrame]],
    relevance: str = "annotated",
    level: float = 0.95,
) -> pd.DataFrame:
    """Points of R-Precision, the mean of both directions, that a method has more than another, for every pair of names.

    The intervals hold together at `level`: each of m pairs has 1 − (1 − level)/m. With one run for each name they are
    over test images, with which queries are paired; with several they are over seeds, paired in order.

    Args: pairs: (method, than). tables: name → per_query of its run for each seed.
    Returns: columns method, than, gain, low, high, in percent, in the order of the pairs; pairs with a name that has no
        table are left out. Raises: BadInput for other numbers of runs in a pair.

    >>> def table(values):
    ...     lines = {"relevance": "annotated", "direction": ["i2t"] * 4 + ["t2i"] * 4, "query": [*range(4)] * 2}
    ...     return pd.DataFrame(lines | {"image": [*range(4)] * 2, "r_precision": values * 2})
    >>> tables = {"sets": [table([1.0, 1.0, 0.0, 1.0])], "one": [table([0.0, 1.0, 0.0, 1.0])]}
    >>> precision_gains([("sets", "one")], tables).round(1).values.tolist()
    [['sets', 'one', 25.0, -24.0, 74.0]]
    """
    pairs = [pair for pair in pairs if all(map(tables.get, pair))]
    part = 1 - (1 - level) / max(len(pairs), 1)
    rows = [(one, other, *_gain(tables[one], tables[other], relevance, part)) for one, other in pairs]
    return pd.DataFrame(rows, columns=COLUMNS)


def _gain(
    one: Sequence[pd.DataFrame], other: Sequence[pd.DataFrame], relevance: str, level: float
) -> tuple[float, float, float]:
    if len(one) != len(other):
        raise BadInput(f"both methods of a pair need one run for each seed, got {len(one)} and {len(other)}.")
    gains = [_difference(*pair, relevance) for pair in zip(one, other, strict=True)]
    means = [sum(float(values.mean()) for values, _ in parts) for parts in gains]
    if len(means) > 1:
        return seed_interval(means, level)
    from scipy.special import ndtri  # takes a tenth of the time of torch to import

    half = float(ndtri((1 + level) / 2)) * image_error(gains[0])
    return means[0], means[0] - half, means[0] + half


def _difference(better: pd.DataFrame, than: pd.DataFrame, relevance: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each direction half of what each query gains in percent, and its image: the sum of means is the gain."""
    own = (table[table["relevance"] == relevance] for table in (than, better))
    paired = pd.merge(*own, on=["direction", "query"], suffixes=("", " of better"), validate="one_to_one")
    gain = 50 * (paired["r_precision of better"] - paired["r_precision"])
    return [(gain[part.index].to_numpy(float), part["image"].to_numpy()) for _, part in paired.groupby("direction")]
