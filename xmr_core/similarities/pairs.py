"""What every set similarity starts from: the dot products of all elements of all images with all elements of all captions."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.types import EmbeddingSet


def element_products(images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i k t l"]:
    """x_ik · y_tl for unit rows: cosines. One matrix product; the axes stay in the order it leaves them."""
    i, k, d = images.x.shape
    t, l, _ = captions.x.shape
    return (images.x.reshape(i * k, d) @ captions.x.reshape(t * l, d).T).view(i, k, t, l)


def element_masks(images: EmbeddingSet, captions: EmbeddingSet) -> tuple[Bool[Tensor, "i k 1 1"], Bool[Tensor, "1 1 t l"]]:
    """Both masks, shaped to broadcast against element_products."""
    return images.mask[:, :, None, None], captions.mask[None, None, :, :]


def set_mean(values: Float[Tensor, "i k t"], mask: Bool[Tensor, "i k"]) -> Float[Tensor, "i t"]:
    """Mean over the valid elements of axis k, by their number."""
    weights = mask.to(values.dtype)
    return (torch.where(mask[:, :, None], values, 0.0)).sum(1) / weights.sum(1).clamp(min=1)[:, None]
