"""What annotated pairs miss: how often Recall@K punishes a right answer, and which proxy of the truth can be trusted."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import kendalltau

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.evaluation.engine import relevant_ranks
from xmr_core.evaluation.metrics import first_rank


def punished(scores: Float[np.ndarray, "i t"], annotated: Relevance, true: Relevance, ks: Sequence[int] = (1, 5, 10)) -> pd.DataFrame:
    """How often R@K calls an answer wrong that is right.

    Args: annotated, true: captions × images, as judges give them; every annotated pair should be true.
    Returns: per direction and k: wrong (share of queries without an annotated item among the first k), of these right (share of
        them with a true item among the first k), found (R@K by the truth). All in percent. A true item that ties with a wrong one counts
        as after it.
    Raises: BadInput for relevances of other queries or galleries than the scores.
    """
    if scores.shape != (len(annotated.gallery_ids), len(annotated.query_ids)) or len(true) != len(annotated):
        raise BadInput(f"{scores.shape[0]} × {scores.shape[1]} scores do not fit relevances of {len(annotated)} and {len(true)} captions.")
    rows = []
    for direction, matrix, own, all_true in (("i2t", scores, annotated.transpose(), true.transpose()), ("t2i", scores.T, annotated, true)):
        asked, every = np.flatnonzero(own.counts), np.arange(matrix.shape[1])
        rows_asked = np.ascontiguousarray(matrix[asked])
        ours, truth = (first_rank(relevant_ranks(rows_asked, r.restrict(asked, every))) for r in (own, all_true))
        for k in ks:
            missed = ours > k
            right = float((truth[missed] <= k).mean()) if missed.any() else 0.0
            rows.append((direction, k, 100 * missed.mean(), 100 * right, 100 * (truth <= k).mean()))
    return pd.DataFrame(rows, columns=["direction", "k", "wrong", "of these right", "found"])


def agreement_of_proxies(values: pd.DataFrame, truth: str, proxies: Sequence[str]) -> pd.DataFrame:
    """Kendall's τ_b between each proxy and the truth over the rows (methods, or queries) of a table, with both columns' means.

        τ_b = (P − Q) / √((P + Q + T_x)(P + Q + T_y))

    1: the proxy orders all rows as the truth does; 0: no relation. NaN where a column is constant. best first.
    Raises: BadInput for fewer than 3 rows or a column that is not there.
    """
    if missing := [c for c in (truth, *proxies) if c not in values]:
        raise BadInput(f"no column {missing[0]!r}; there are {', '.join(map(str, values))}.")
    if len(values) < 3:
        raise BadInput(f"an order needs at least 3 rows to be compared, got {len(values)}.")
    rows = [(p, float(kendalltau(values[p], values[truth]).statistic), float(values[p].mean())) for p in proxies]
    return pd.DataFrame(rows, columns=["proxy", "tau", "mean"]).sort_values("tau", ascending=False, kind="stable").reset_index(drop=True)


def per_query_values(per_query: pd.DataFrame, columns: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """One row per (direction, query) with named values from several kinds of relevance.

    columns: name → (relevance, column of per_query). Only queries that have all of them.
    """
    index = ["direction", "query"]
    parts = [per_query[per_query["relevance"] == kind].set_index(index)[column].rename(name) for name, (kind, column) in columns.items()]
    return pd.concat(parts, axis=1, join="inner").reset_index()
