"""The only reductions that may see padding. In every mask of the package, True is a real element.

A padded entry never contributes a value and never receives a gradient, whatever it holds. A row of padding alone has no
maximum and no mean; `require_element` and, for features, `require_elements` refuse it before.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.errors import BadInput


def masked_mean(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1, keepdim: bool = False) -> Tensor:
    """Σ_{valid} x / #valid along `dim`. x and mask broadcast against each other; an empty row gives 0."""
    x, mask = torch.broadcast_tensors(x, mask)
    total = torch.where(mask, x, 0.0).sum(dim, keepdim=keepdim)
    return total / mask.sum(dim, keepdim=keepdim).clamp(min=1)


def masked_max(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1, keepdim: bool = False) -> Tensor:
    """max_{valid} x along `dim`; an empty row gives −inf."""
    return torch.where(mask, x, -torch.inf).amax(dim, keepdim=keepdim)


def masked_logsumexp(
    x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1, keepdim: bool = False
) -> Tensor:
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


def require_mask(mask: Tensor, x: Float[Tensor, "n l e"]) -> None:
    """Raise BadInput unless mask is a Boolean "n l"."""
    if mask.shape != x.shape[:2] or mask.dtype != torch.bool:
        raise BadInput(f"the mask must be Boolean, {tuple(x.shape[:2])}, got {mask.dtype}, {tuple(mask.shape)}.")


def require_finite(x: Float[Tensor, "n d"], what: str = "item") -> None:
    """Raise BadInput naming the first row with a NaN or infinite number in it."""
    wrong = ~x.detach().isfinite().all(-1)
    if wrong.any():
        raise BadInput(f"the vector of {what} {int(wrong.nonzero()[0, 0])} is NaN or infinite.")


def require_elements(x: Float[Tensor, "n l e"], mask: Bool[Tensor, "n l"], width: int, what: str = "item") -> None:
    """Check local features: the right width, an element for every item, finite numbers in all of them.

    Padding may hold anything. One sum detects numbers that are not finite without a mask as large as x.
    Raises: BadInput naming what was given, or the first item and element at fault.
    """
    if x.ndim != 3 or x.shape[-1] != width:
        raise BadInput(f"{what}s × elements × width {width} are needed here, got {tuple(x.shape)}.")
    require_mask(mask, x)
    require_element(mask, what)
    x = x.detach()
    # a total that is not finite may come from padding, and only real elements count
    if not x.sum(dtype=torch.promote_types(x.dtype, torch.float32)).isfinite():
        wrong = mask & ~x.isfinite().all(-1)
        if wrong.any():
            item, element = wrong.nonzero()[0].tolist()
            raise BadInput(f"element {element} of {what} {item} is NaN or infinite.")
