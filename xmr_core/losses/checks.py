"""What every score loss asks of its input."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.errors import BadInput


def check_scores(scores: Float[Tensor, "i t"], match: Bool[Tensor, "i t"]) -> None:
    """Raise BadInput unless match is Boolean and of the shape of scores."""
    if match.dtype != torch.bool:
        raise BadInput(f"match must be Boolean (True where a caption describes an image), got {match.dtype}.")
    if match.shape != scores.shape or scores.ndim != 2:
        raise BadInput(f"scores {tuple(scores.shape)} and match {tuple(match.shape)} must be one matrix shape, images × captions.")


def positive_pairs(match: Bool[Tensor, "i t"]) -> tuple[Tensor, Tensor]:
    """(rows, columns) of the matching pairs, row by row. Raises: BadInput when there is none."""
    rows, columns = match.nonzero(as_tuple=True)
    if not len(rows):
        raise BadInput(
            f"no image of this batch ({match.shape[0]} images, {match.shape[1]} captions) matches a caption; a loss needs a pair."
        )
    return rows, columns
