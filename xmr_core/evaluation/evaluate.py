"""One scoring, all metrics: both directions, several kinds of relevance, any protocol."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from xmr_core.base.devices import resolve_device
from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import RelevantRanks, Representation
from xmr_core.evaluation import metrics
from xmr_core.evaluation.engine import MatrixScores, Question, Scores, Scoring, ranks
from xmr_core.evaluation.protocols import FULL, Protocol
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.evaluation.score_table import score_table

KS = (1, 5, 10)


@dataclass(frozen=True)
class Evaluation:
    """Ranks of all queries, and what was left out.

    per_query: one row per (relevance, direction, fold, query), with columns image, n_relevant, first_rank, r_precision,
    map_at_r and R@k. `image` is the position of the image that a query belongs to, for resampling; −1 for a caption to
    which the first relevance gives no image or several.
    dropped: number of queries without a relevant item, by relevance and direction; they are in no average.
    """

    per_query: pd.DataFrame
    dropped: dict[tuple[str, str], int]
    protocol: Protocol

    def summary(self) -> pd.DataFrame:
        """Tidy rows: relevance, direction, metric, k, value, n_queries; the mean over folds.

        Recalls, R-Precision and mAP@R are fractions; rsum (direction 'both') is the sum of six recalls, in [0, 6];
        median_rank and mean_rank count from 1. See docs/evaluation.md.
        """
        rows = []
        for (relevance, direction), table in self.per_query.groupby(["relevance", "direction"], sort=False):
            folds = [f for _, f in table.groupby("fold")]
            per_fold = {("recall", k): np.mean([f[f"R@{k}"].mean() for f in folds]) for k in KS}
            per_fold |= {(m, 0): np.mean([f[m].mean() for f in folds]) for m in ("r_precision", "map_at_r")}
            per_fold["mean_rank", 0] = np.mean([f["first_rank"].mean() for f in folds])
            per_fold["median_rank", 0] = np.mean([np.floor(np.median(f["first_rank"] - 1)) + 1 for f in folds])
            rows += [(relevance, direction, m, k, float(v), len(table)) for (m, k), v in per_fold.items()]
        out = pd.DataFrame(rows, columns=METRIC_COLUMNS)
        recalls = out[out["metric"] == "recall"].groupby("relevance", sort=False)
        sums = recalls.agg(value=("value", "sum"), n_queries=("n_queries", "sum")).reset_index()
        return pd.concat([out, sums.assign(direction="both", metric="rsum", k=0)], ignore_index=True)[list(out)]


def evaluate(
    similarity: Callable,
    images: Representation,
    captions: Representation,
    relevances: Mapping[str, Relevance],
    protocol: Protocol = FULL,
    done: Callable[[int], object] = lambda pairs: None,
    device: torch.device | str | None = None,
) -> Evaluation:
    """Score every image against every caption, block by block, and rank in both directions.

    Args: relevances: kind → Relevance with captions as queries and images as gallery. The ids of the first are those of
            the representations, in their order. A caption with exactly one image in it follows that image into its
            fold, and is resampled with it; a protocol of several folds needs that of every caption. The others may have
            fewer ids (PMRP leaves unlabelled images out); queries and gallery are then those that both have.
        protocol: which images and captions are ranked together. done: receives the number of pairs of each block
            that is done. device: where blocks are scored, 'auto' for an accelerator where there is one, None for where
            the representations are.
    Raises: BadInput as evaluate_scores does, and for a device that this machine does not have.

    >>> import torch
    >>> from xmr_core.base.types import Embedding
    >>> from xmr_core.similarities.cosine import cosine
    >>> relevance = Relevance.from_pairs([("a", 0), ("b", 1)], ["a", "b"], [0, 1])
    >>> items = Embedding(torch.eye(2))
    >>> float(evaluate(cosine, items, items, {"annotated": relevance}).summary()["value"].iloc[-1])
    6.0
    """
    if not (isinstance(images, Representation) and isinstance(captions, Representation)):
        raise BadInput("images and captions must be representations, such as Embedding(tensor); not scores or arrays.")
    device = None if device is None else resolve_device(str(device))
    return evaluate_scores(Scoring(similarity, images, captions, device=device), relevances, protocol, done)


def evaluate_scores(
    scores: Float[np.ndarray, "i t"] | Scores,
    relevances: Mapping[str, Relevance],
    protocol: Protocol = FULL,
    done: Callable[[int], object] = lambda pairs: None,
) -> Evaluation:
    """As evaluate, from a score matrix "i t" or any Scores (of an ensemble, say).

    Raises: BadInput for no relevance, or scores that do not fit the first one; what the protocol raises.

    >>> relevance = Relevance.from_pairs([("a", 0), ("b", 1)], ["a", "b"], [0, 1])
    >>> evaluate_scores(np.array([[0.1, 0.9], [0.8, 0.2]]), {"annotated": relevance}).per_query["first_rank"].tolist()
    [2, 2, 2, 2]
    """
    kinds = relevances.values() if isinstance(relevances, Mapping) else [None]
    if not relevances or not all(isinstance(relevance, Relevance) for relevance in kinds):
        raise BadInput(f"relevances must be a mapping such as {{'annotated': Relevance}}, got {relevances!r:.60}.")
    scores = scores if isinstance(scores, Scores) else MatrixScores(score_table(scores))
    own = next(iter(relevances.values()))
    if scores.shape != (len(own.gallery_ids), len(own.query_ids)):
        raise BadInput(
            f"{scores.shape[0]} × {scores.shape[1]} scores (images × captions) do not fit a relevance of "
            f"{len(own.gallery_ids)} images and {len(own.query_ids)} captions."
        )
    image_of = np.full(len(own), -1)
    image_of[own.counts == 1] = own.indices[own.indptr[:-1][own.counts == 1]]
    tables, dropped = [], {}
    for fold, (i, t) in enumerate(protocol.folds(scores.shape[0], image_of)):
        questions = [
            (kind, *question)
            for kind, relevance in relevances.items()
            for question in _questions(relevance, own, i, t, image_of, dropped, kind)
        ]
        complete = len(i) == scores.shape[0] and len(t) == scores.shape[1]
        answers = ranks(scores if complete else scores.part(i, t), [question for *_, question in questions], done)
        for (kind, direction, image, question), own_ranks in zip(questions, answers.ranks, strict=True):
            tables.append(_table(kind, direction, fold, image, question.relevance, own_ranks))
    return Evaluation(pd.concat(tables, ignore_index=True), dropped, protocol)


def _questions(
    relevance: Relevance, own: Relevance, i: np.ndarray, t: np.ndarray, image_of: np.ndarray, dropped: dict, kind: str
) -> list[tuple[str, np.ndarray, Question]]:
    """(direction, image of each query, question) of both directions, among the images i and captions t of a fold.

    Positions in a question are those in the fold.
    """
    t_own, t_relevance = _shared(t, own.query_ids, relevance.query_ids)
    i_own, i_relevance = _shared(i, own.gallery_ids, relevance.gallery_ids)
    complete = (len(t_relevance), len(i_relevance)) == (len(relevance.query_ids), len(relevance.gallery_ids))
    complete = complete and (np.diff(t_relevance) == 1).all() and (np.diff(i_relevance) == 1).all()
    t2i = relevance if complete else relevance.restrict(t_relevance, i_relevance)
    captions, images = np.searchsorted(t, t_own), np.searchsorted(i, i_own)
    questions = []
    for direction, relevant, modality, queries, gallery, owner in (
        ("i2t", t2i.transpose(), "images", images, captions, i_own),
        ("t2i", t2i, "captions", captions, images, image_of[t_own]),
    ):
        rows = np.flatnonzero(relevant.counts)
        dropped[kind, direction] = dropped.get((kind, direction), 0) + len(relevant) - len(rows)
        if len(rows) < len(relevant):
            relevant = relevant.restrict(rows, np.arange(len(gallery)))
        questions.append((direction, owner[rows], Question(relevant, modality, queries[rows], gallery)))
    return questions


def _table(
    kind: str, direction: str, fold: int, image: np.ndarray, relevance: Relevance, ranks: RelevantRanks
) -> pd.DataFrame:
    columns = {
        "relevance": kind,
        "direction": direction,
        "fold": fold,
        "query": relevance.query_ids,
        "image": image,
        "n_relevant": relevance.counts,
        "first_rank": metrics.first_rank(ranks),
        "r_precision": metrics.r_precision(ranks),
        "map_at_r": metrics.map_at_r(ranks),
    }
    return pd.DataFrame(columns | {f"R@{k}": metrics.recall_at_k(ranks, k) for k in KS})


def _shared(positions: np.ndarray, ids: np.ndarray, other_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(those positions in ids whose id is also in other_ids, their positions there)."""
    if ids is other_ids or np.array_equal(ids, other_ids):
        return positions, positions
    position_of = {value: n for n, value in enumerate(other_ids.tolist())}
    others = np.array([position_of.get(value, -1) for value in ids[positions].tolist()], np.int64)
    return positions[others >= 0], others[others >= 0]
