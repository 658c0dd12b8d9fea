"""Do scores rise with what people say? Graded judgments of single pairs, besides the lists of right answers."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import kendalltau

from xmr_core.base.relevance import Relevance
from xmr_core.evaluation.engine import MatrixScores, Scores

COLUMNS = ["relevance", "direction", "metric", "k", "value", "n_queries"]


def judgment_agreement(scores: Float[np.ndarray, "i t"] | Scores, own: Relevance, grades: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Kendall's τ_c between scores and human grades over all judged pairs, a row for each kind of grade.

        τ_c = 2 (P − Q) / (n² (m − 1) / m)

    P and Q count pairs of judged pairs that both order alike or contrarily, n is how many were judged and m the smaller number of
    distinct values (of grades). In [−1, 1], 0 without any agreement; n_queries is n. Retrieval asks what comes first; this asks whether a
    score means the same for one picture as for another.
    Args: own: captions as queries, images as gallery, whose ids are those of the scores. grades: rows image_id, caption_id, grade; pairs with
        an id that is not there (other splits) are left out, and a kind with fewer than two grades left has no row.
    Source: τ_c on Flickr8k's judgments is how caption metrics are compared (Hodosh et al., JAIR 2013; Anderson et al., ECCV 2016).
    """
    scores = scores if isinstance(scores, Scores) else MatrixScores(scores)
    image_at, caption_at = ({b: n for n, b in enumerate(ids.tolist())} for ids in (own.gallery_ids, own.query_ids))
    rows = []
    for kind, table in grades.items():
        i = np.array([image_at.get(b, -1) for b in table["image_id"]], np.int64)
        t = np.array([caption_at.get(b, -1) for b in table["caption_id"]], np.int64)
        here = (i >= 0) & (t >= 0)
        grade = table["grade"].to_numpy()[here]
        if len(np.unique(grade)) > 1:
            value = kendalltau(scores.pairs(i[here], t[here]), grade, variant="c").statistic
            rows.append((kind, "both", "kendall_tau_c", 0, float(value), int(here.sum())))
    return pd.DataFrame(rows, columns=COLUMNS)
