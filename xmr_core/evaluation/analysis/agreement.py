"""Agreement of scores with human grades of single pairs."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.base.relevance import Relevance
from xmr_core.evaluation.engine import MatrixScores, Scores
from xmr_core.evaluation.results import METRIC_COLUMNS


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
