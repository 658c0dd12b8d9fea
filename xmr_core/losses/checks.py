"""What losses ask of their input."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.tensors import as_floats, single


def check_scores(
    scores: Float[Tensor, "i t"] | np.ndarray,
    match: Bool[Tensor, "i t"] | Float[Tensor, "i t"] | np.ndarray,
    soft: str = "",
) -> tuple[Float[Tensor, "i t"], Tensor]:
    """(scores, match) as tensors of one matrix shape, scores in float32 at least.

    match is Boolean, or a degree of matching in [0, 1] where the loss can express it. soft: '' where it can; otherwise
    why it cannot. Scores that nothing is trained from must be numbers; NaN in training is left to the training loop,
    which names the step.
    Raises: BadInput for anything else.
    """
    scores = single(as_floats(scores, "scores", 2))
    match = torch.as_tensor(match, device=scores.device)
    if match.shape != scores.shape:
        raise BadInput(f"scores {tuple(scores.shape)} and match {tuple(match.shape)} must have one shape.")
    if not scores.requires_grad and scores.isnan().any():
        raise BadInput("the score of an image and a caption is NaN.")
    if match.dtype != torch.bool:
        if soft or not match.is_floating_point():
            raise BadInput(
                f"match must be Boolean (True where a caption describes an image), got {match.dtype}. {soft}"
            )
        if not bool(((match >= 0) & (match <= 1)).all()):
            raise BadInput("degrees of matching must lie in [0, 1]; divide them by their largest value.")
        match = match.to(scores.dtype)
    return scores, match


def positive_pairs(match: Bool[Tensor, "i t"]) -> tuple[Tensor, Tensor]:
    """(rows, columns) of the matching pairs, row by row. Raises: BadInput when there is none."""
    rows, columns = match.nonzero(as_tuple=True)
    if not len(rows):
        raise BadInput(f"no image of this batch matches a caption; match is {tuple(match.shape)}.")
    return rows, columns


def of_sets(regulariser: Callable) -> Callable:
    """A regulariser that is about the elements of sets: `Objective` leaves it out where an item is one vector.

    >>> of_sets(lambda images, captions: 0.0).of_sets
    True
    """
    regulariser.of_sets = True
    return regulariser
