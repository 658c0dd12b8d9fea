"""Maximum mean discrepancy between the elements of the two modalities."""

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.types import Embedding, EmbeddingSet


def mmd(images: EmbeddingSet, captions: EmbeddingSet, gamma: float = 0.5) -> Float[Tensor, ""]:
    """mean k(v, v′) − 2 mean k(v, t) + mean k(t, t′) over all valid elements, k(x, y) = e^{−γ‖x − y‖₂}; 0 for one vector per item.

    The distance is not squared (X-54) and the pairs of an element with itself are included, as in PVSE and DivE.
    Source: METHODS §3, §9.4.
    """
    if isinstance(images, Embedding) or max(images.x.shape[1], captions.x.shape[1]) == 1:
        return images.x.new_zeros(())
    v, t = images.x[images.mask], captions.x[captions.mask]
    return _kernel_mean(v, v, gamma) - 2 * _kernel_mean(v, t, gamma) + _kernel_mean(t, t, gamma)


def _kernel_mean(x: Float[Tensor, "m d"], y: Float[Tensor, "n d"], gamma: float) -> Tensor:
    squared = x.square().sum(1)[:, None] + y.square().sum(1)[None, :] - 2 * x @ y.T
    # at distance 0 the slope of the distance is undefined: such pairs get value 1 and no gradient
    distance = torch.where(squared > 1e-10, squared, 1.0).sqrt() * (squared > 1e-10)
    return (-gamma * distance).exp().mean()
