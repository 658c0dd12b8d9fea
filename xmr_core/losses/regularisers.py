"""Regularisers of sets: diversity of elements, and the maximum mean discrepancy between modalities."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import require_choice, require_flag, require_number
from xmr_core.base.tensors import ANY_LENGTH, Comparable, as_floats, as_sets, single
from xmr_core.base.types import EmbeddingSet


def of_sets(regulariser: Callable) -> Callable:
    """A regulariser that is about the elements of sets: `Objective` leaves it out where an item is one vector.

    >>> of_sets(lambda images, captions: 0.0).of_sets
    True
    """
    regulariser.of_sets = True
    return regulariser


def gram_diversity(residual: Float[Tensor, "n k d"]) -> Float[Tensor, ""]:
    """Mean over items of ‖R̂R̂ᵀ − diag‖_F / K², R̂ the rows at unit length; 0 for K = 1. In float32 at least: float16
    has neither 1e-24 nor the 1e-12 of `normalize`, which keep the slope at 0 finite.

    Source: PVSE (Song & Soleymani, CVPR 2019), the norm not squared; docs/methods/pvse.md.

    >>> import torch
    >>> gram_diversity(torch.eye(2)[None]) < gram_diversity(torch.ones(1, 2, 2))
    tensor(True)
    """
    residual = _wide(as_floats(residual, "the residuals", 3))
    k = residual.shape[1]
    if k == 1:
        return residual.new_zeros(())
    unit = F.normalize(residual, dim=-1)
    gram = _wide(unit @ unit.transpose(1, 2)).masked_fill(torch.eye(k, dtype=torch.bool, device=residual.device), 0.0)
    return (gram.square().sum((1, 2)).clamp(min=1e-24).sqrt() / k**2).mean()


def pairwise_diversity(
    residual: Float[Tensor, "n k d"], t: float = 2.0, normalise: bool = True, reduction: str = "mean"
) -> Float[Tensor, ""]:
    """Mean over items and pairs a < b of e^{−t‖p_a − p_b‖²}; 0 for K = 1. In (0, 1], smaller is more diverse.

    Args: normalise: bring rows to unit length first; the authors do for residuals and do not for finished embeddings.
        reduction: 'mean' over pairs (code, weight 0.01) or 'sum' over ordered pairs a ≠ b (paper, with rows as they
            are, docs/differences.md#x-47).
    Raises: BadInput for another reduction.
    Source: DivE (Kim et al., CVPR 2023); docs/methods/dive.md.

    >>> import torch
    >>> pairwise_diversity(torch.ones(1, 2, 3))
    tensor(1.)
    """
    residual = _wide(as_floats(residual, "the residuals", 3))
    require_number("t", t, above=0)
    require_flag("normalise", normalise)
    require_choice("reduction", reduction, ("mean", "sum"))
    k = residual.shape[1]
    if k == 1:
        return residual.new_zeros(())
    rows = F.normalize(residual, dim=-1) if normalise else residual
    a, b = torch.triu_indices(k, k, offset=1, device=residual.device)
    near = (-t * (rows[:, a] - rows[:, b]).square().sum(-1)).exp()  # n pairs
    return near.mean() if reduction == "mean" else 2 * near.sum(1).mean()


def _wide(x: Tensor) -> Tensor:
    """`single`; bfloat16 stays under autocast, because it has these numbers and runs were trained in it."""
    return x if x.dtype == torch.bfloat16 and torch.is_autocast_enabled(x.device.type) else single(x)


# Maximum mean discrepancy between the elements of the two modalities.


@of_sets
def mmd(
    images: Comparable, captions: Comparable, gamma: float = 0.5, image_mask=None, caption_mask=None
) -> Float[Tensor, ""]:
    """mean k(v, v′) − 2 mean k(v, t) + mean k(t, t′) over all valid elements, k(x, y) = e^{−γ‖x − y‖₂}.

    The distance is not squared (docs/differences.md#x-54) and the pairs of an element with itself are included, as in
    PVSE (for K > 1 only) and DivE (for sets of one too). Computed in float32 at least: the kernel of near neighbours
    cancels badly in half precision. Sets, or plain tensors "i k d", "t l d" with their masks.
    Of more than 25 elements ‖x − y‖² is taken from products, so that distances below about 1e-3 lose their digits.
    Raises: BadInput for two widths or precisions, a gamma that is not positive.
    Source: docs/methods/pvse.md, docs/methods/dive.md.

    >>> import torch
    >>> mmd(torch.eye(2)[None], torch.eye(2)[None])
    tensor(0.)
    """
    require_number("gamma", gamma, above=0)
    images, captions = as_sets(images, captions, image_mask, caption_mask, normalise=ANY_LENGTH)
    v, t = (_weighed(items) for items in (images, captions))
    return _kernel_mean(*v, *v, gamma) - 2 * _kernel_mean(*v, *t, gamma) + _kernel_mean(*t, *t, gamma)


def _weighed(items: EmbeddingSet) -> tuple[Float[Tensor, "m d"], Float[Tensor, " m"]]:
    """All elements with weights of sum 1, 0 for padding."""
    x = single(torch.where(items.mask[..., None], items.x, 0.0).flatten(0, 1))
    return x, items.mask.flatten().to(x.dtype) / items.mask.sum()


def _kernel_mean(x: Float[Tensor, "m d"], p: Float[Tensor, " m"], y: Tensor, q: Tensor, gamma: float) -> Tensor:
    # torch.cdist also has the slope we want at distance 0, where the derivative does not exist: none
    # no matrix product, which autocast would take in half precision: what is left of three means has few digits
    return (p[:, None] * (-gamma * torch.cdist(x, y)).exp() * q).sum()
