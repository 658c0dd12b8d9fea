"""One scoring, all metrics: both directions, several kinds of relevance, any protocol."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import RelevantRanks, Representation
from xmr_core.evaluation import metrics
from xmr_core.evaluation.engine import MatrixScores, Question, Scores, Scoring, ranks
from xmr_core.evaluation.protocols import FULL, Protocol

KS = (1, 5, 10)


@dataclass(frozen=True)
class Evaluation:
    """per_query: one row per (relevance, direction, fold, query): first_rank, r_precision, map_at_r, R@k columns,
    image.

    image: position of the image a query belongs to, for resampling; −1 for a caption to which the first relevance gives
    no image or several. dropped: queries without a relevant item, by relevance and direction; they are in no average.
    changed: share of queries of which a rank would have been another one by the fast (float32)
    scores alone, by relevance and direction; ranks are those of exact scores.
    """

    per_query: pd.DataFrame
    dropped: dict[tuple[str, str], int]
    protocol: Protocol
    changed: dict[tuple[str, str], float] = field(default_factory=dict)

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
    similarity: Callable,
    images: Representation,
    captions: Representation,
    relevances: Mapping[str, Relevance],
    protocol: Protocol = FULL,
    progress: Callable[[int], object] = lambda pairs: None,
    device: torch.device | str | None = None,
) -> Evaluation:
    """Score every image against every caption, block by block, and rank both ways (retrieval.ranks).

    relevances: kind → Relevance with captions as queries and images as gallery. The ids of the first are those of the
        representations, in their order. A caption with exactly one image in it follows that image into its fold, and is
        resampled with it; a protocol of several folds needs that of every caption. The ids of the others may be fewer
        (PMRP leaves unlabelled images out): queries and gallery are then those that both have.
    progress: told the number of pairs of each block when it is done. device: where blocks are scored, None for where
        the representations are.
    """
    return evaluate_scores(Scoring(similarity, images, captions, device=device), relevances, protocol, progress)


def evaluate_scores(
    scores: Float[np.ndarray, "i t"] | Scores,
    relevances: Mapping[str, Relevance],
    protocol: Protocol = FULL,
    progress: Callable[[int], object] = lambda pairs: None,
) -> Evaluation:
    """As evaluate, from a finished score matrix "i t" (of a file, say) or any Scores (an ensemble)."""
    scores = scores if isinstance(scores, Scores) else MatrixScores(scores)
    own = next(iter(relevances.values()))
    if scores.shape != (len(own.gallery_ids), len(own.query_ids)):
        raise BadInput(
            f"{scores.shape[0]} × {scores.shape[1]} scores (images × captions) do not fit a relevance of {len(own.gallery_ids)} images "
            f"and {len(own.query_ids)} captions."
        )
    image_of = np.full(len(own), -1)
    image_of[own.counts == 1] = own.indices[own.indptr[:-1][own.counts == 1]]
    tables, dropped, changed = [], {}, {}
    for fold, (i, t) in enumerate(protocol.folds(scores.shape[0], image_of)):
        asked = [
            (kind, *question)
            for kind, relevance in relevances.items()
            for question in _questions(relevance, own, i, t, image_of, dropped, kind)
        ]
        whole = len(i) == scores.shape[0] and len(t) == scores.shape[1]
        found = ranks(scores if whole else scores.part(i, t), [question for *_, question in asked], progress)
        for (kind, direction, image, question), its, moved in zip(asked, found.ranks, found.changed, strict=True):
            tables.append(_table(kind, direction, fold, image, question.relevance, its))
            changed.setdefault((kind, direction), []).append(moved)
    means = {key: float(np.mean(shares)) for key, shares in changed.items()}
    return Evaluation(pd.concat(tables, ignore_index=True), dropped, protocol, means)


def _questions(
    relevance: Relevance, own: Relevance, i: np.ndarray, t: np.ndarray, image_of: np.ndarray, dropped: dict, kind: str
) -> list[tuple[str, np.ndarray, Question]]:
    """(direction, image of each query, question) both ways, among the images and captions of a fold; positions are
    those in the fold."""
    t_own, t_its = _shared(t, own.query_ids, relevance.query_ids)
    i_own, i_its = _shared(i, own.gallery_ids, relevance.gallery_ids)
    whole = (len(t_its), len(i_its)) == (len(relevance.query_ids), len(relevance.gallery_ids))
    whole = whole and (np.diff(t_its) == 1).all() and (np.diff(i_its) == 1).all()
    t2i = relevance if whole else relevance.restrict(t_its, i_its)
    captions, images = np.searchsorted(t, t_own), np.searchsorted(i, i_own)
    out = []
    for direction, judged, by, asking, answering, owner in (
        ("i2t", t2i.transpose(), "images", images, captions, i_own),
        ("t2i", t2i, "captions", captions, images, image_of[t_own]),
    ):
        asked = np.flatnonzero(judged.counts)
        dropped[kind, direction] = dropped.get((kind, direction), 0) + len(judged) - len(asked)
        if len(asked) < len(judged):
            judged = judged.restrict(asked, np.arange(len(answering)))
        out.append((direction, owner[asked], Question(judged, by, asking[asked], answering)))
    return out


def _table(kind: str, direction: str, fold: int, image: np.ndarray, judged: Relevance, ranks: RelevantRanks) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "relevance": kind,
            "direction": direction,
            "fold": fold,
            "query": judged.query_ids,
            "image": image,
            "n_relevant": judged.counts,
            "first_rank": metrics.first_rank(ranks),
            "r_precision": metrics.r_precision(ranks),
            "map_at_r": metrics.map_at_r(ranks),
            **{f"R@{k}": metrics.recall_at_k(ranks, k) for k in KS},
        }
    )


def _shared(positions: np.ndarray, ids: np.ndarray, its: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(those positions in ids whose id is also in its, where it is there)."""
    if ids is its or np.array_equal(ids, its):
        return positions, positions
    at = {b: n for n, b in enumerate(its.tolist())}
    there = np.array([at.get(b, -1) for b in ids[positions].tolist()], np.int64)
    return positions[there >= 0], there[there >= 0]
