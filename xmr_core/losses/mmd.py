"""Maximum mean discrepancy between the elements of the two modalities."""

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.checks import require_number
from xmr_core.base.errors import BadInput
from xmr_core.base.plain_tensors import Comparable, as_sets, single
from xmr_core.losses.checks import of_sets, require_one_width


@of_sets
def mmd(
    images: Comparable, captions: Comparable, gamma: float = 0.5, image_mask=None, caption_mask=None
) -> Float[Tensor, ""]:
    """mean k(v, v′) − 2 mean k(v, t) + mean k(t, t′) over all valid elements, k(x, y) = e^{−γ‖x − y‖₂}.

    The distance is not squared (docs/differences.md#x-54) and the pairs of an element with itself are included, as in
    PVSE (for K > 1 only) and DivE (for sets of one too). Computed in float32 at least: the kernel of near neighbours
    cancels badly in half precision. Sets, or plain tensors "i k d", "t l d" with their masks.
    Of more than 25 elements ‖x − y‖² is taken from products, so that distances below about 1e-3 lose their digits.
    Raises: BadInput for two widths or precisions, no image or no caption, a gamma that is not positive.
    Source: docs/methods/pvse.md, docs/methods/dive.md.

    >>> import torch
    >>> mmd(torch.eye(2)[None], torch.eye(2)[None])
    tensor(0.)
    """
    require_number("gamma", gamma, above=0)
    images, captions = as_sets(images, captions, image_mask, caption_mask)
    v, t = single(images.x[images.mask]), single(captions.x[captions.mask])
    require_one_width(v, t, "elements")
    if v.dtype != t.dtype:
        raise BadInput(f"images and captions must have one precision, got {v.dtype} and {t.dtype}; convert one.")
    if not len(v) or not len(t):
        raise BadInput(f"mmd compares two groups of items; got {len(images)} images and {len(captions)} captions.")
    return _kernel_mean(v, v, gamma) - 2 * _kernel_mean(v, t, gamma) + _kernel_mean(t, t, gamma)


def _kernel_mean(x: Float[Tensor, "m d"], y: Float[Tensor, "n d"], gamma: float) -> Tensor:
    # torch.cdist also has the slope we want at distance 0, where the derivative does not exist: none
    return (-gamma * torch.cdist(x, y)).exp().mean()
