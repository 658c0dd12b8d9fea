"""Scores in the forms in which a user has them, as an array."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import BadInput


def score_table(scores: object) -> Float[np.ndarray, "q g"]:
    """Scores of any kind (lists, numpy or torch, half precision, whole numbers, with a gradient) as an array of float32
    or float64. Raises: BadInput for what is no table of numbers.

    >>> score_table(torch.eye(2, dtype=torch.bfloat16)).dtype
    dtype('float64')
    """
    if isinstance(scores, Tensor):
        scores = scores.detach().cpu()
        scores = (scores if scores.dtype in (torch.float32, torch.float64) else scores.double()).numpy()
    scores = np.asarray(scores)
    if scores.ndim != 2 or scores.dtype.kind not in "fiub":
        raise BadInput(
            f"scores must be a table of numbers, queries × gallery; got shape {scores.shape} of {scores.dtype}."
        )
    return scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)
