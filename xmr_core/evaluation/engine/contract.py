"""What the scores of a similarity must be before they can be ranked: one number for each pair, and always the same."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from xmr_core.base.errors import BadInput

_FEW, _SOME = 3, 16  # images and captions that are scored again: one pair at a time, in another block
_LEEWAY = 1e-4  # of the largest score: far above rounding, also that of a similarity that computes in float32


def require_matrix(scores: object, images: int, captions: int, name: str) -> None:
    """Raise BadInput unless these are scores[image, caption] of so many items."""
    if not isinstance(scores, Tensor):
        raise BadInput(f"{name} must return scores[image, caption] as a tensor, got {type(scores).__name__}.")
    if scores.shape != (images, captions):
        wanted, got = (images, captions), tuple(scores.shape)
        raise BadInput(f"{name} must return scores[image, caption] of shape {wanted}, got {got}.")


def require_own_scores(
    scored: Callable[[np.ndarray, np.ndarray], Tensor],
    plainly: Callable[[np.ndarray, np.ndarray], Tensor],
    images: np.ndarray,
    captions: np.ndarray,
    together: Tensor,
    name: str,
) -> None:
    """Raise BadInput where the score of a pair depends on the pairs beside it or on the call, as with a softmax over
    the gallery, with dropout or with a count of calls: ranks of such scores depend on how the pairs were cut into
    blocks. Also where the fast form of a similarity (`score`) is another function than the one that is trained.

    scored, plainly: images, captions → scores by `score`, by `forward`. together: those of all images and captions.
    """
    leeway = _LEEWAY * float(torch.where(together.isfinite(), together, 0.0).abs().max().clamp(min=1e-30))
    (i, t), (some_i, some_t) = (images[:_FEW], captions[:_FEW]), (images[:_SOME], captions[:_SOME])
    alone = torch.cat(
        [torch.cat([scored(i[a : a + 1], t[b : b + 1]) for b in range(len(t))], 1) for a in range(len(i))]
    )
    among = f"among {together.numel():,}: it must depend neither on the pairs beside it nor on the call"
    for other, how, says in (
        (alone, "alone", among),
        (scored(some_i, some_t), f"among {len(some_i) * len(some_t):,} pairs", among),
        (plainly(i, t), "by forward, which is trained,", "by score, which is ranked: both must be one function"),
    ):
        first = together[: len(other), : other.shape[1]].double()
        off = torch.where(first == other, 0.0, (first - other.double()).abs())
        if float(off.max()) > leeway:
            a, b = divmod(int(off.argmax()), other.shape[1])
            raise BadInput(f"{name} gives a pair {float(other[a, b]):.6g} {how} and {float(first[a, b]):.6g} {says}.")
