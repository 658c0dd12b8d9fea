"""From representations to ranks of relevant items: blockwise scores under one memory budget, counting instead of sorting."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.errors import BadInput
from xmr_core.relevance import Relevance
from xmr_core.types import EmbeddingSet, GaussianEmbedding, RelevantRanks, Representation

MAX_ELEMENTS = 1 << 24  # of the largest intermediate, i·t·k·l: 64 MB in float32

Similarity = Callable[[Representation, Representation], Tensor]


def score_blocks(
    similarity: Similarity, images: Representation, captions: Representation, max_elements: int = MAX_ELEMENTS
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Blocks of the score matrix: (image rows, caption rows, scores "i t"), images outermost, every pair once.

    The block size follows from i·t·k·l ≤ max_elements, so that sets of 36 regions get smaller blocks than sets of 4 slots.
    """
    cost = _set_size(images) * _set_size(captions)
    side = max(1, int((max_elements / cost) ** 0.5))
    i_step = min(len(images), side)
    t_step = max(1, min(len(captions), max_elements // (cost * i_step)))
    with torch.inference_mode():
        for i in range(0, len(images), i_step):
            rows = slice(i, min(i + i_step, len(images)))
            block = images[rows]
            for t in range(0, len(captions), t_step):
                columns = slice(t, min(t + t_step, len(captions)))
                yield rows, columns, similarity(block, captions[columns])


def score_matrix(
    similarity: Similarity, images: Representation, captions: Representation, max_elements: int = MAX_ELEMENTS
) -> Float[np.ndarray, "i t"]:
    """All scores in one float32 array (4 bytes a pair: 0.5 GB for 5,000 × 25,000), computed in blocks.

    Raises: BadInput naming the first pair whose score is not a number.
    """
    out = np.empty((len(images), len(captions)), np.float32)
    for rows, columns, scores in score_blocks(similarity, images, captions, max_elements):
        out[rows, columns] = scores.float().cpu().numpy()
    if (at := _first_nan(out)) is not None:
        raise BadInput(f"the score of image {at[0]} and caption {at[1]} is not a number; look for NaN in features or weights.")
    return out


def relevant_ranks(scores: Float[np.ndarray, "q g"], relevance: Relevance) -> RelevantRanks:
    """Ranks of every query's relevant items, by counting.

    rank of the nth best relevant item = n + #{irrelevant items scoring at least as high}: ties never help.
    Queries without a relevant item must have been dropped before. Cost: one pass over each row, no sorting of it.
    Raises: BadInput for a matrix of another shape, a score that is not a number (it would compare as lower than
    everything and rank as 0), or a query without a relevant item.
    """
    if scores.shape != (len(relevance.query_ids), len(relevance.gallery_ids)):
        raise BadInput(f"scores {scores.shape} do not fit {len(relevance.query_ids)} queries × {len(relevance.gallery_ids)} items.")
    if (at := _first_nan(scores)) is not None:
        query, item = relevance.query_ids[at[0]], relevance.gallery_ids[at[1]]
        raise BadInput(f"the score of query {query} and item {item} is not a number; look for NaN in what made the scores.")
    if (empty := np.flatnonzero(relevance.counts == 0)).size:
        raise BadInput(f"query {relevance.query_ids[empty[0]]} (and {empty.size - 1} more) has no relevant item; drop such queries.")
    ranks = np.empty(len(relevance.indices), np.int64)
    for q in range(len(relevance)):
        row, mine = scores[q], relevance[q]
        positive = np.sort(row[mine])  # ascending
        # how many items score at least as high as each positive, positives included …
        at_least = _count_at_least(row, positive)
        # … less the positives among them
        positives_at_least = len(mine) - np.searchsorted(positive, positive, side="left")
        ranks[relevance.indptr[q] : relevance.indptr[q + 1]] = (at_least - positives_at_least)[::-1] + np.arange(1, len(mine) + 1)
    return RelevantRanks(relevance.indptr, ranks, scores.shape[1])


def _count_at_least(row: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """For ascending thresholds, how many entries of row are ≥ each."""
    if len(thresholds) == 1:
        return np.array([np.count_nonzero(row >= thresholds[0])])
    passed = np.searchsorted(thresholds, row, side="right")  # how many thresholds each entry reaches
    reached = np.bincount(passed, minlength=len(thresholds) + 1)
    return reached[::-1].cumsum()[::-1][1:]


def _first_nan(scores: np.ndarray) -> tuple[int, int] | None:
    """Row and column of the first score that is not a number. A row's sum finds it without a mask as large as the matrix."""
    with np.errstate(invalid="ignore"):
        suspect = np.isnan(scores.sum(1, dtype=np.float64))
    for row in np.flatnonzero(suspect):  # ∞ − ∞ sums to NaN too: look at the row itself
        if (columns := np.flatnonzero(np.isnan(scores[row]))).size:
            return int(row), int(columns[0])
    return None


def _set_size(r: Representation) -> int:
    if isinstance(r, GaussianEmbedding):
        return r.samples.shape[1]
    return r.x.shape[1] if isinstance(r, EmbeddingSet) else 1
