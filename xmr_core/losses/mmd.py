"""Maximum mean discrepancy between the elements of the two modalities."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.types import EmbeddingSet


def mmd(images: EmbeddingSet, captions: EmbeddingSet, gamma: float = 0.5) -> Float[Tensor, ""]:
    """mean k(v, v′) − 2 mean k(v, t) + mean k(t, t′) over all valid elements, k(x, y) = e^{−γ‖x − y‖₂}.

    The distance is not squared (X-54) and the pairs of an element with itself are included, as in PVSE (for K > 1 only) and DivE
    (for sets of one too). Computed in float32 at least: the kernel of near neighbours cancels badly in half precision.
    Source: METHODS §3, §9.4.
    """
    v, t = images.x[images.mask], captions.x[captions.mask]
    if v.dtype in (torch.float16, torch.bfloat16):
        v, t = v.float(), t.float()
    same_v, same_t = (torch.eye(len(x), dtype=torch.bool, device=x.device) for x in (v, t))
    return _kernel_mean(v, v, gamma, same_v) - 2 * _kernel_mean(v, t, gamma) + _kernel_mean(t, t, gamma, same_t)


def _kernel_mean(x: Float[Tensor, "m d"], y: Float[Tensor, "n d"], gamma: float, same: Bool[Tensor, "m n"] | None = None) -> Tensor:
    """same: pairs of an element with itself, at distance exactly 0, where rounding would leave 1e-7 and its root 3e-4."""
    squared = x.square().sum(1)[:, None] + y.square().sum(1)[None, :] - 2 * x @ y.T
    apart = squared > 1e-12
    if same is not None:
        apart = apart & ~same
    # at distance 0 the slope of the distance is undefined: such pairs get value 1 and no gradient
    distance = torch.where(apart, squared, 1.0).sqrt() * apart
    return (-gamma * distance).exp().mean()
