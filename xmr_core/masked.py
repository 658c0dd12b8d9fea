"""The only reductions that may see padding. Everywhere in the package, mask True means a real element.

A padded entry never contributes a value and never receives a gradient, whatever it holds (also ±1e30; NaN is refused
earlier). An all-padded row has no maximum and no mean: asking for one is a mistake upstream, caught by `require_element`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.errors import BadInput


def masked_mean(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1, keepdim: bool = False) -> Tensor:
    """Σ_{valid} x / #valid along `dim`. x and mask broadcast against each other; an empty row gives 0."""
    x, mask = torch.broadcast_tensors(x, mask)
    total = torch.where(mask, x, 0.0).sum(dim, keepdim=keepdim)
    return total / mask.sum(dim, keepdim=keepdim).clamp(min=1)


def masked_max(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1, keepdim: bool = False) -> Tensor:
    """max_{valid} x along `dim`; an empty row gives −inf."""
    return torch.where(mask, x, -torch.inf).amax(dim, keepdim=keepdim)


def masked_logsumexp(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1, keepdim: bool = False) -> Tensor:
    """log Σ_{valid} exp x along `dim`, stable; an empty row gives −inf."""
    return torch.where(mask, x, -torch.inf).logsumexp(dim, keepdim=keepdim)


def masked_softmax(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1) -> Tensor:
    """exp x / Σ_{valid} exp x along `dim`, exactly 0 on padding; an empty row gives zeros, not NaN."""
    x, mask = torch.broadcast_tensors(x, mask)
    filled = torch.where(mask, x, torch.finfo(x.dtype).min)
    return torch.where(mask, filled.softmax(dim), 0.0)


def require_element(mask: Bool[Tensor, "n l"], what: str) -> None:
    """Raise BadInput naming the first row of `mask` without a single valid element."""
    empty = ~mask.any(-1)
    if empty.any():
        row = int(empty.nonzero()[0, 0])
        raise BadInput(f"{what} {row} has no valid element (its mask is all False). Drop it or give it at least one.")
