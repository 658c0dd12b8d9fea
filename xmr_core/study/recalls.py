"""Recalls of a run beside those of a random ranking."""

import pandas as pd

from xmr_core.evaluation.chance import KS, random_hit
from xmr_core.training.runs import TrainedRun


def recalls_beside_chance(run: TrainedRun, kind: str = "annotated") -> pd.DataFrame:
    """R@K of a run and of a random ranking of the same test split, in percent: columns direction, K, recall, random.

        random = 100 · mean over queries of P_K(N, R)

    with P_K of chance.random_hit, N items in the gallery and R right ones among them. The six numbers of a column sum
    to an RSUM. kind: of relevance.
    """
    relevance = run.prepared().splits["test"].relevance
    galleries = {"i2t": len(relevance.query_ids), "t2i": len(relevance.gallery_ids)}
    queries, lines = run.per_query[run.per_query["relevance"] == kind], []
    for direction in ("i2t", "t2i"):
        own = queries[queries["direction"] == direction]
        right = own["n_relevant"].value_counts()
        for k in KS:
            luck = sum(n * random_hit(galleries[direction], int(r), k) for r, n in right.items()) / len(own)
            lines.append((direction, k, 100 * own[f"R@{k}"].mean(), 100 * luck))
    return pd.DataFrame(lines, columns=["direction", "K", "recall", "random"])
