"""What set similarities start from: dot products of all elements, and the attention of stacked cross attention."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.tensors import masked_softmax, may_branch, require_element, single
from xmr_core.base.types import EmbeddingSet, Rows

PLAIN_EXPONENT = 40.0  # e^±40 leaves float32 twenty decades of room on either side, for sums and for their gradients
_NUMBERS = 1 << 24  # that a block of differences may have: 64 MB in float32
_TOGETHER = 32  # captions of similar length that are compared at a time


def real_rows(s: EmbeddingSet) -> Float[Tensor, "n k d"]:
    """x with zeros in place of padding, in float32 at least.

    Whatever stands in a padded row (1e30, NaN) can then reach neither a score nor a gradient. Sets without padding cost
    no copy.
    Raises: BadInput for a set without a real element.
    """
    require_element(s.mask, "set")
    x = s.x if may_branch(s.mask) and s.mask.all() else torch.where(s.mask[..., None], s.x, 0.0)
    return single(x)


def longest_row(x: Float[Tensor, "n k d"]) -> float:
    """The largest norm of a row: |x·y| ≤ ‖x‖‖y‖."""
    return float(x.detach().norm(dim=-1).max()) if x.numel() else 0.0


def element_products(x: Float[Tensor, "i k d"], y: Float[Tensor, "t l d"]) -> Float[Tensor, "i k t l"]:
    """x_ik · y_tl: cosines when the rows are unit vectors. One matrix product.

    Never in half precision, not even inside autocast: it tells cosines near 1 apart only by 0.004 (times α, or 1/τ).
    """
    (i, k, d), (t, l, _) = x.shape, y.shape
    with torch.autocast(x.device.type, enabled=False):
        return (x.reshape(i * k, d) @ y.reshape(t * l, d).T).view(i, k, t, l)


def fill_padding(values: Float[Tensor, "i k t l"], images: EmbeddingSet, captions: EmbeddingSet, fill: float) -> Tensor:
    """`values`, but `fill` wherever either element is padding. Sets without padding, the usual case, cost no copy."""
    if may_branch(images.mask, captions.mask) and images.mask.all() & captions.mask.all():
        return values
    return torch.where(images.mask[:, :, None, None] & captions.mask[None, None, :, :], values, fill)


def real_products(images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i k t l"]:
    """x_ik · y_tl of real elements, −inf wherever either is padding: what a maximum over partners starts from."""
    return fill_padding(element_products(real_rows(images), real_rows(captions)), images, captions, -torch.inf)


def best_products(images: EmbeddingSet, captions: EmbeddingSet, *directions: str) -> list[Tensor]:
    """x · y of each element and the best real one of the other item: of words for 't2i', "i t l", of regions for 'i2t',
    "i k t". The gradient goes to the first of equals: what goes back is an index, not a comparison of all products."""
    products, out = element_products(real_rows(images), real_rows(captions)), []
    for direction in directions:
        mask, dim = (images.mask[:, :, None, None], 1) if direction == "t2i" else (captions.mask, 3)
        real = products.detach() if products.requires_grad else products
        real = real if may_branch(mask) and mask.all() else torch.where(mask, real, -torch.inf)
        if products.requires_grad:
            out.append(products.gather(dim, real.max(dim, keepdim=True).indices).squeeze(dim))
        else:
            out.append(real.amax(dim))
    return out


def mean_of_both(
    in_caption: Float[Tensor, "i k t"], in_image: Float[Tensor, "i t l"], images: EmbeddingSet, captions: EmbeddingSet
) -> Float[Tensor, "i t"]:
    """The mean over the real elements of each image plus that over those of each caption."""
    of_images = torch.where(images.mask[:, :, None], in_caption, 0.0).sum(1) / images.mask.sum(1).clamp(min=1)[:, None]
    of_captions = torch.where(captions.mask[None], in_image, 0.0).sum(2) / captions.mask.sum(1).clamp(min=1)[None]
    return of_images + of_captions


def in_image_blocks(
    score: Callable[[Rows, Rows], Tensor], images: Rows, captions: Rows, numbers: int
) -> Float[Tensor, "i t"]:
    """score(images, captions) in blocks of images. numbers: how many the score forms for one image and all captions:
    differences of vectors, say, which are as many times more than the scores as vectors are wide.
    """
    parts = steps_of(max(1, len(images)), _NUMBERS // max(1, numbers))
    return torch.cat([score(images[part], captions) for part in parts])


def steps_of(n: int, size: int) -> list[slice]:
    """n items, so many at a time, one at least; the last slice may end after them."""
    return [slice(start, start + max(1, size)) for start in range(0, n, max(1, size))]


def bucket_by_length(
    score: Callable[[EmbeddingSet, EmbeddingSet], Tensor],
    images: EmbeddingSet,
    captions: EmbeddingSet,
    split_equal: bool = True,
) -> Float[Tensor, "... i t"]:
    """score(images, captions), taken in groups of captions of similar length, each cut to its longest.

    A caption of 10 words beside one of 30 is mostly padding, and similarities that work on every word of every pair
    would compute it: on Flickr8k the longest of 64 captions has twice the words of a mean one. The result is the same,
    in the order of the captions.

    Args: score: pairs to "… i t", blind to padding and to the company of captions. split_equal: False takes captions
        that all have one length together, however many there are, as the blocks of an evaluation are.
    """
    if not len(images) or not len(captions):
        x, y = real_rows(images), real_rows(captions)
        return x.sum((1, 2))[:, None] + y.sum((1, 2))[None]  # one of the two is empty, and so is their sum
    if not may_branch(captions.mask):
        return score(images, captions)
    position = torch.arange(1, captions.mask.shape[1] + 1, device=captions.mask.device)
    longest = (captions.mask * position).amax(1)  # the last real element counts, should there be gaps before it
    equal = not split_equal and bool((longest == longest[0]).all())
    if len(captions) <= _TOGETHER or equal:
        parts, order = [slice(None)], None
    else:
        order = longest.argsort(stable=True)
        parts = order.split(_TOGETHER)
    scores = []
    for rows in parts:
        group, l = captions[rows], int(longest[rows].max())
        scores.append(score(images, EmbeddingSet(group.x[:, :l], group.mask[:, :l])))
    return scores[0] if order is None else torch.cat(scores, -1)[..., order.argsort()]


# The first stage of stacked cross attention: every query element attends to all elements of the other item (SCAN,
# SGRAF).


NORMALISATIONS = ("clipped_l2norm", "l2norm", "clipped", "no_norm", "softmax")
EPS = 1e-8  # of the authors' norms and cosines


def unit(x: Tensor, dim: int = -1) -> Tensor:
    """x / (‖x‖ + 1e-8), the authors' normalisation. The small norm is inverted, not the large x divided: the gradient
    of a product needs fewer passes over x than that of a quotient."""
    return x * (torch.linalg.vector_norm(x, dim=dim, keepdim=True) + EPS).reciprocal()


def attend(
    contexts: EmbeddingSet,
    queries: EmbeddingSet,
    sharpness: float,
    normalise: str = "clipped_l2norm",
    leak: float = 0.1,
) -> tuple[Float[Tensor, "b c a q"], Float[Tensor, "b c a q"]]:
    """(products, attention) of every query element over the elements of every context item, all pairs at once.

    p = x_c · y_q;   u = leakyReLU(p) if clipped, else p;   û = u / (‖u‖ over the queries of one item + 1e-8);
    attention = softmax over c of sharpness · û

    Args: contexts "b c d", queries "a q d", ragged by mask. sharpness: λ₁ of SCAN, λ of SGRAF, dimensionless, > 0.
        normalise: 'clipped_l2norm' (all of the above), 'l2norm' (no leaky ReLU), 'clipped' (no division), 'no_norm'
        (neither), 'softmax' (û = softmax of p over the queries of one item). leak: slope below 0; the authors' code has
        0.1, their paper 0 (docs/differences.md#x-22). Attention is 0 on padded contexts; on padded queries it means
        nothing.
    Raises: BadInput for an unknown normalisation or a sharpness that is not positive and finite.
    Source: Lee et al., ECCV 2018 (SCAN), §3.1; Diao et al., AAAI 2021 (SGRAF), §3.1.
    """
    products = element_products(real_rows(contexts), real_rows(queries))  # b c a q, 0 where either is padding
    u = F.leaky_relu(products, leak) if normalise.startswith("clipped") else products
    if normalise.endswith("l2norm"):
        u = unit(u, dim=3)
    elif normalise == "softmax":
        u = masked_softmax(u, queries.mask, dim=3)
    return products, masked_softmax(sharpness * u, contexts.mask[:, :, None, None], dim=1)
