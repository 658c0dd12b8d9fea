"""How many entries of a row reach each of its thresholds, many rows at a time."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

_DENSE = 4  # thresholds per row up to which comparing everything with each is faster than sorting


def at_least(values: Float[Tensor, "q g"], thresholds: Float[Tensor, "q p"]) -> Int[Tensor, "q p"]:
    """#{values[q] ≥ thresholds[q, p]}. Neither may be NaN; a threshold that is +∞ counts entries that are.

    Rows are sorted where there are many thresholds; few are each compared with everything.
    """
    if thresholds.shape[1] > _DENSE:
        return values.shape[1] - torch.searchsorted(_sorted(values), thresholds.contiguous())
    reached = torch.empty_like(values)  # laid out as the values are, transposed or not
    counts = [torch.ge(values, thresholds[:, p, None], out=reached).sum(1) for p in range(thresholds.shape[1])]
    return torch.stack(counts, 1).long() if counts else thresholds.new_zeros(thresholds.shape, dtype=torch.long)


def _sorted(values: Float[Tensor, "q g"]) -> Float[Tensor, "q g"]:
    """Every row ascending. numpy's sort uses vector instructions, which on a CPU make it many times faster than
    torch's."""
    values = values.contiguous()
    return torch.from_numpy(np.sort(values.numpy(), axis=1)) if values.device.type == "cpu" else values.sort(1).values
