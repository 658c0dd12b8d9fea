"""One scoring, all metrics: both directions, several kinds of relevance, any protocol."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from xmr_core import metrics
from xmr_core.errors import BadInput
from xmr_core.protocols import FULL, Protocol
from xmr_core.relevance import Relevance
from xmr_core.retrieval import relevant_ranks, score_matrix
from xmr_core.types import Representation

KS = (1, 5, 10)


@dataclass(frozen=True)
class Evaluation:
    """per_query: one row per (relevance, direction, fold, query): first_rank, r_precision, map_at_r, R@k columns, image.

    image: position of the image a query belongs to, for resampling. dropped: queries without a relevant item, by relevance
    and direction; they are in no average.
    """

    per_query: pd.DataFrame
    dropped: dict[tuple[str, str], int]
    protocol: Protocol

    def summary(self) -> pd.DataFrame:
        """Tidy rows: relevance, direction, metric, k, value, n_queries; folds averaged.

        Recalls, R-Precision and mAP@R are fractions; rsum (direction 'both') is the sum of six recalls in [0, 6];
        median_rank and mean_rank count from 1.
        """
        rows = []
        for (relevance, direction), table in self.per_query.groupby(["relevance", "direction"], sort=False):
            folds = [f for _, f in table.groupby("fold")]
            per_fold = {("recall", k): np.mean([f[f"R@{k}"].mean() for f in folds]) for k in KS}
            per_fold |= {(m, 0): np.mean([f[m].mean() for f in folds]) for m in ("r_precision", "map_at_r")}
            per_fold["mean_rank", 0] = np.mean([f["first_rank"].mean() for f in folds])
            per_fold["median_rank", 0] = np.mean([np.floor(np.median(f["first_rank"] - 1)) + 1 for f in folds])
            rows += [(relevance, direction, m, k, float(v), len(table)) for (m, k), v in per_fold.items()]
        out = pd.DataFrame(rows, columns=["relevance", "direction", "metric", "k", "value", "n_queries"])
        recalls = out[out["metric"] == "recall"].groupby("relevance", sort=False)
        sums = recalls.agg(value=("value", "sum"), n_queries=("n_queries", "sum")).reset_index()
        return pd.concat([out, sums.assign(direction="both", metric="rsum", k=0)], ignore_index=True)[list(out)]


def evaluate(
    similarity: Callable, images: Representation, captions: Representation, relevances: Mapping[str, Relevance], protocol: Protocol = FULL
) -> Evaluation:
    """Score every image against every caption and rank both ways.

    relevances: kind → Relevance with captions as queries and images as gallery. The first must give every caption exactly one
        image: the one it was written for, whose fold it follows and with which it is resampled; its ids are those of the
        representations, in their order. The ids of the others may be fewer (PMRP leaves unlabelled images out): queries and
        gallery are then those that both have.
    """
    return evaluate_scores(score_matrix(similarity, images, captions), relevances, protocol)


def evaluate_scores(scores: np.ndarray, relevances: Mapping[str, Relevance], protocol: Protocol = FULL) -> Evaluation:
    """As evaluate, from a finished score matrix "i t" (an ensemble, or a file)."""
    own = next(iter(relevances.values()))
    if (own.counts != 1).any():
        raise BadInput("the first relevance must be the annotated one, with exactly one image for each caption.")
    image_of = own.indices
    if scores.shape != (len(own.gallery_ids), len(own.query_ids)):
        raise BadInput(
            f"{scores.shape[0]} × {scores.shape[1]} scores (images × captions) do not fit a relevance of {len(own.gallery_ids)} images "
            f"and {len(own.query_ids)} captions."
        )
    tables, dropped = [], {}
    for fold, (i, t) in enumerate(protocol.folds(scores.shape[0], image_of)):
        for kind, relevance in relevances.items():
            t_own, t_its = _shared(t, own.query_ids, relevance.query_ids)
            i_own, i_its = _shared(i, own.gallery_ids, relevance.gallery_ids)
            whole = len(i_own) == scores.shape[0] and len(t_own) == scores.shape[1]
            block = scores if whole else scores[np.ix_(i_own, t_own)]
            t2i = relevance if whole and np.array_equal(t_own, t_its) and np.array_equal(i_own, i_its) else relevance.restrict(t_its, i_its)
            for direction, matrix, judged, owner in (
                ("i2t", block, t2i.transpose(), i_own),
                ("t2i", np.ascontiguousarray(block.T), t2i, image_of[t_own]),
            ):
                asked = np.flatnonzero(judged.counts)
                dropped[kind, direction] = dropped.get((kind, direction), 0) + len(judged) - len(asked)
                if len(asked) < len(judged):
                    judged, matrix = judged.restrict(asked, np.arange(matrix.shape[1])), matrix[asked]
                ranks = relevant_ranks(matrix, judged)
                tables.append(
                    pd.DataFrame(
                        {
                            "relevance": kind,
                            "direction": direction,
                            "fold": fold,
                            "query": judged.query_ids,
                            "image": owner[asked],
                            "n_relevant": judged.counts,
                            "first_rank": metrics.first_rank(ranks),
                            "r_precision": metrics.r_precision(ranks),
                            "map_at_r": metrics.map_at_r(ranks),
                            **{f"R@{k}": metrics.recall_at_k(ranks, k) for k in KS},
                        }
                    )
                )
    return Evaluation(pd.concat(tables, ignore_index=True), dropped, protocol)


def _shared(positions: np.ndarray, ids: np.ndarray, its: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(those positions in ids whose id is also in its, where it is there)."""
    if ids is its or np.array_equal(ids, its):
        return positions, positions
    at = {b: n for n, b in enumerate(its.tolist())}
    there = np.array([at.get(b, -1) for b in ids[positions].tolist()], np.int64)
    return positions[there >= 0], there[there >= 0]


def ensemble(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Plain mean of score matrices, without re-normalising: the field's ensemble (METHODS §1.6)."""
    if len({m.shape for m in matrices}) != 1:
        raise BadInput(f"score matrices of one shape are needed, got {[m.shape for m in matrices]}.")
    return np.mean(matrices, axis=0)
