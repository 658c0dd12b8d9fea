"""All scores at once, for those who want to look at them; metrics need no matrix."""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.types import Representation
from xmr_core.evaluation.engine.plan import MAX_ELEMENTS, Items
from xmr_core.evaluation.engine.scores import Scores
from xmr_core.evaluation.engine.scoring import Scoring
from xmr_core.similarities.base import Similarity


def score_blocks(
    similarity: Similarity | Callable,
    images: Representation,
    captions: Representation,
    max_elements: int = MAX_ELEMENTS,
) -> Iterator[tuple[Items, Items, Float[Tensor, "i t"]]]:
    """Blocks of the score matrix: (images, captions, their scores), every pair once. Items are a slice, or an array of
    positions where sets of one size were taken together (plan.blocks)."""
    scores = Scoring(similarity, images, captions, max_elements)
    for i, t in scores.plan():
        yield i, t, scores.block(i, t)


def score_matrix(
    similarity: Similarity | Callable,
    images: Representation,
    captions: Representation,
    max_elements: int = MAX_ELEMENTS,
) -> Float[np.ndarray, "i t"]:
    """All scores in one float32 array (4 bytes a pair: 0.5 GB for 5,000 × 25,000), computed in blocks.

    Raises: BadInput naming the first pair whose score is not a number.
    """
    return as_matrix(Scoring(similarity, images, captions, max_elements))


def as_matrix(scores: Scores) -> Float[np.ndarray, "i t"]:
    """All scores in one float32 array."""
    out = np.empty(scores.shape, np.float32)
    for i, t in scores.plan():
        block = scores.block(i, t).float().cpu().numpy()
        if isinstance(i, slice) and isinstance(t, slice):
            out[i, t] = block
        else:
            out[np.ix_(np.arange(len(out))[i], np.arange(out.shape[1])[t])] = block
    return out
