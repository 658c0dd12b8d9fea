"""Ranks of relevant items from streamed scores, as exact arithmetic would rank them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import RelevantRanks
from xmr_core.evaluation.engine.scores import MatrixScores, Scores
from xmr_core.evaluation.engine.stream import Stream


@dataclass
class Ranked:
    """What `ranks` returns.

    ranks: one for each question. error: how far fast scores were taken to be from exact ones. settled: comparisons that
    were too close for the fast scores and were decided by exact ones. exact_blocks: blocks with all pairs scored
    exactly, of `blocks`. changed: for each question, the share of its queries of which the fast scores alone would have
    given another rank (in blocks scored fast).
    """

    ranks: list[RelevantRanks]
    error: float = 0.0
    settled: int = 0
    exact_blocks: int = 0
    blocks: int = 0
    changed: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Question:
    """What is ranked for what.

    relevance: queries × gallery; every query needs a relevant item. modality: that of the queries, 'images' or
    'captions'. queries, gallery: their positions among the images and captions that are scored; None for all, in order.
    """

    relevance: Relevance
    modality: str
    queries: np.ndarray | None = None
    gallery: np.ndarray | None = None


def ranks(scores: Scores, questions: Sequence[Question], done: Callable[[int], object] = lambda pairs: None) -> Ranked:
    """Ranks of every query's relevant items for all questions, in one pass over the blocks of the scores.

    rank of the nth best relevant item = n + #{irrelevant items scoring at least as high}: ties never help.

    The scores of relevant pairs are known exactly (float64) beforehand. A block's fast scores decide every comparison
    that their error cannot turn round; the few that are closer are decided by exact scores of these pairs. Ranks
    therefore depend neither on the block size nor on the device or precision of the blocks. The error is measured on a
    sample and again on every relevant pair; where that was larger than expected, the pass is made again.
    done: called with the number of pairs of each block when it is done.
    Raises: BadInput for a query without a relevant item, shapes that do not fit, or a score that is not a number.
    """
    for q in questions:
        _check(scores, q)
    streams = [Stream(scores, q.relevance, q.modality, q.queries, q.gallery) for q in questions]
    _score_relevant(scores, streams)
    while True:
        out = Ranked([], scores.error)
        for s in streams:
            s.start(scores.error)
        with torch.inference_mode():
            for images, captions in scores.plan():
                fast, exact = scores.block(images, captions), None
                out.blocks += 1
                for s in streams:
                    if not s.see(images, captions, fast):
                        exact = scores.exact(images, captions) if exact is None else exact
                        s.see_exact(images, captions, exact)
                out.exact_blocks += exact is not None
                done(fast.numel())
        seen = max((s.seen_error for s in streams), default=0.0)
        if seen <= scores.error:
            break
        scores.widen(4 * seen)  # which the next pass cannot exceed
    for s in streams:
        own, settled, changed = s.finish()
        out.ranks.append(own)
        out.changed.append(changed)
        out.settled += settled
    return out


def _score_relevant(scores: Scores, streams: list[Stream]) -> None:
    """Exact scores of all relevant pairs; most are relevant in several questions, and are scored once."""
    wanted = [s.wanted() for s in streams]
    keys = [images * scores.shape[1] + captions for images, captions in wanted]
    once = np.unique(np.concatenate(keys)) if keys else np.empty(0, np.int64)
    exact = scores.pairs(*np.divmod(once, max(1, scores.shape[1])))
    for s, key in zip(streams, keys, strict=True):
        s.know(exact[np.searchsorted(once, key)])


def relevant_ranks(scores: Float[np.ndarray, "q g"], relevance: Relevance) -> RelevantRanks:
    """Ranks of every query's relevant items in a finished matrix: `ranks` for one question.

    Raises: BadInput for a matrix of another shape, a score that is not a number (it would compare as lower than
    everything and rank as 0), or a query without a relevant item.
    """
    if scores.shape != (len(relevance.query_ids), len(relevance.gallery_ids)):
        raise BadInput(
            f"scores {scores.shape} do not fit {len(relevance.query_ids)} queries × {len(relevance.gallery_ids)} items."
        )
    return ranks(MatrixScores(scores), [Question(relevance, "images")]).ranks[0]


def _check(scores: Scores, q: Question) -> None:
    n_queries, n_gallery = scores.shape if q.modality == "images" else scores.shape[::-1]
    for what, ids, positions, n in (
        ("queries", q.relevance.query_ids, q.queries, n_queries),
        ("items", q.relevance.gallery_ids, q.gallery, n_gallery),
    ):
        if len(ids) != (n := n if positions is None else len(positions)):
            raise BadInput(f"a relevance of {len(ids)} {what} does not fit scores of {n}.")
    if (empty := np.flatnonzero(q.relevance.counts == 0)).size:
        first = q.relevance.query_ids[empty[0]]
        raise BadInput(f"query {first} (and {empty.size - 1} more) has no relevant item; drop such queries.")
    if isinstance(scores, MatrixScores) and (pair := _first_nan(scores.matrix)) is not None:
        row, column = pair if q.modality == "images" else pair[::-1]
        query, item = _id(q.relevance.query_ids, q.queries, row), _id(q.relevance.gallery_ids, q.gallery, column)
        raise BadInput(f"the score of query {query} and item {item} is not a number; look for NaN in what made it.")


def _id(ids: np.ndarray, positions: np.ndarray | None, position: int) -> object:
    """The id of a row or column of the scores; its position where the relevance does not hold it."""
    match = [position] if positions is None else np.flatnonzero(np.asarray(positions) == position)
    return ids[match[0]] if len(match) else position


def _first_nan(scores: np.ndarray) -> tuple[int, int] | None:
    """Row and column of the first score that is not a number. A row's sum finds it without a mask as large as the
    matrix."""
    with np.errstate(invalid="ignore"):
        suspect = np.isnan(scores.sum(1, dtype=np.float64))
    for row in np.flatnonzero(suspect):  # ∞ − ∞ sums to NaN too: look at the row itself
        if (columns := np.flatnonzero(np.isnan(scores[row]))).size:
            return int(row), int(columns[0])
    return None
