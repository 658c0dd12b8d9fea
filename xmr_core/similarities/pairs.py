"""What every set similarity starts from: the dot products of all elements of all images with all elements of all captions."""

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.errors import BadInput
from xmr_core.masked import require_element
from xmr_core.types import EmbeddingSet


def same_width(x: Tensor, y: Tensor) -> None:
    """Raise BadInput unless the two sides have one width (last axis)."""
    if x.shape[-1] != y.shape[-1]:
        raise BadInput(
            f"vectors of width {x.shape[-1]} cannot be compared with vectors of width {y.shape[-1]}; both sides must come from one method."
        )


def real_rows(s: EmbeddingSet) -> Float[Tensor, "n k d"]:
    """x with zeros in place of padding, in float32 at least.

    Whatever stands in a padded row (1e30, NaN) can then reach neither a score nor a gradient.
    Raises: BadInput for a set without a real element.
    """
    require_element(s.mask, "set")
    x = torch.where(s.mask[..., None], s.x, 0.0)
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def element_products(x: Float[Tensor, "i k d"], y: Float[Tensor, "t l d"]) -> Float[Tensor, "i k t l"]:
    """x_ik · y_tl: cosines when the rows are unit vectors. One matrix product; the axes stay in the order it leaves them.

    Also inside autocast not in half precision, which tells cosines near 1 apart only by 0.004 (times α, times 1/τ).
    Raises: BadInput for two widths.
    """
    same_width(x, y)
    (i, k, d), (t, l, _) = x.shape, y.shape
    with torch.autocast(x.device.type, enabled=False):
        return (x.reshape(i * k, d) @ y.reshape(t * l, d).T).view(i, k, t, l)


def fill_padding(values: Float[Tensor, "i k t l"], images: EmbeddingSet, captions: EmbeddingSet, fill: float) -> Tensor:
    """`values`, but `fill` wherever either element is padding. Sets without padding, the usual case, cost no copy."""
    if images.mask.all() & captions.mask.all():
        return values
    return torch.where(images.mask[:, :, None, None] & captions.mask[None, None, :, :], values, fill)


def mean_over_images_elements(values: Float[Tensor, "i k t"], images: EmbeddingSet) -> Float[Tensor, "i t"]:
    """Mean over the real elements of axis k, by their number."""
    total = torch.where(images.mask[:, :, None], values, 0.0).sum(1)
    return total / images.mask.sum(1).clamp(min=1)[:, None]


def mean_over_captions_elements(values: Float[Tensor, "i t l"], captions: EmbeddingSet) -> Float[Tensor, "i t"]:
    """Mean over the real elements of axis l, by their number."""
    total = torch.where(captions.mask[None], values, 0.0).sum(2)
    return total / captions.mask.sum(1).clamp(min=1)[None]
