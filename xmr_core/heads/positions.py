"""Sine position codes, one- and two-dimensional, in DivE's normalised form."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.errors import BadInput


def sine_1d(
    mask: Bool[Tensor, "n l"], d: int, dtype: torch.dtype, by_own_length: bool = True
) -> Float[Tensor, "n l d"]:
    """Codes of word positions p = 1, 2, … with θ_p = 2π p/(length + 1e-6): channel 2i sin(θ/10000^{2i/d}), 2i+1 cos of
    the same.

    by_own_length: length is each caption's own; False uses the padded length for all (the authors' code,
        docs/differences.md#x-44).
    """
    n, l = mask.shape
    if by_own_length:  # padding counts nowhere, also before or between words
        index, length = mask.cumsum(1).to(dtype), mask.sum(1, keepdim=True).to(dtype)
    else:
        index = torch.arange(1, l + 1, device=mask.device, dtype=dtype).expand(n, l)
        length = torch.full((n, 1), l, device=mask.device, dtype=dtype)
    return _waves(2 * math.pi * index / (length + 1e-6), d)


def sine_2d(cells: int, d: int, device: torch.device, dtype: torch.dtype) -> Float[Tensor, "1 l d"]:
    """Codes of a square grid, read row by row: the first d/2 channels code the row, the last d/2 the column.

    Raises: BadInput when the cells do not form a square or d is odd.
    """
    edge = math.isqrt(cells)
    if edge * edge != cells or d % 2:
        raise BadInput(f"2-D positions need a square grid and an even width, got {cells} cells and width {d}.")
    angle = 2 * math.pi * torch.arange(1, edge + 1, device=device, dtype=dtype) / (edge + 1e-6)
    code = _waves(angle, d // 2)  # edge d/2
    rows = code[:, None].expand(edge, edge, -1)
    columns = code[None, :].expand(edge, edge, -1)
    return torch.cat([rows, columns], -1).reshape(1, cells, d)


def _waves(angle: Float[Tensor, "..."], d: int) -> Float[Tensor, "... d"]:
    channel = torch.arange(d, device=angle.device)
    scaled = angle[..., None] / 10000 ** (2 * (channel // 2).to(angle.dtype) / d)
    return torch.where(channel % 2 == 0, scaled.sin(), scaled.cos())
