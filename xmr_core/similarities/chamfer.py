"""Chamfer and smooth-Chamfer similarity of two embedding sets."""

import math

from jaxtyping import Float
from torch import Tensor

from xmr_core.base.checks import require_number
from xmr_core.base.plain_tensors import Comparable, as_sets
from xmr_core.similarities._kernels.set_scores import chamfer_scores, smooth_chamfer_scores
from xmr_core.similarities.base import Range, Similarity
from xmr_core.similarities.pairs import (
    PLAIN_EXPONENT,
    element_products,
    fill_padding,
    longest_row,
    mean_over_captions_elements,
    mean_over_images_elements,
    real_rows,
)


def smooth_chamfer(
    images: Comparable, captions: Comparable, alpha: float = 16.0, image_mask=None, caption_mask=None
) -> Float[Tensor, "i t"]:
    """Every element of each set looks for partners in the other, softly.

    s(I, T) = 1/(2α|I|) Σ_x log Σ_y e^{α x·y} + 1/(2α|T|) Σ_y log Σ_x e^{α x·y}

    Args: images "i k d", captions "t l d": unit rows, ragged by mask. alpha: inverse temperature, dimensionless, > 0;
        α → ∞ gives `chamfer`. image_mask "i k", caption_mask "t l": beside plain tensors only, True for real elements.
    Returns: "i t", larger is more similar, at most 1 + (log k + log l)/2α, at least −1 plus the same; the cosine when
        k = l = 1.
    Raises: BadInput unless alpha is positive and finite.
    Source: Kim, Kim & Kwak, CVPR 2023 (DivE), smooth-Chamfer similarity; docs/methods/dive.md.
    Note: log Σ grows by log(l)/α with the size of a set. That is harmless for fixed sizes and favours long token sets.
        While α|x·y| cannot pass 40, one plain exponential serves both sums, without loss; past it each sum is shifted
        by its own maximum.

    >>> import torch
    >>> smooth_chamfer(torch.eye(2)[None], torch.eye(2)[:, None], alpha=100.0)
    tensor([[0.7500, 0.7500]])
    """
    check_alpha(alpha)
    images, captions = as_sets(images, captions, image_mask, caption_mask)
    x, y = real_rows(images), real_rows(captions)
    bound = alpha * longest_row(x) * longest_row(y)
    logits = element_products(x, y).mul_(alpha)  # i k t l
    if bound <= PLAIN_EXPONENT:
        near = fill_padding(logits.exp_(), images, captions, 0.0)
        in_caption, in_image = near.sum(3).log(), near.sum(1).log()  # i k t, i t l
    else:
        logits = fill_padding(logits, images, captions, -math.inf)
        in_caption, in_image = logits.logsumexp(3), logits.logsumexp(1)
    total = mean_over_images_elements(in_caption, images) + mean_over_captions_elements(in_image, captions)
    return total / (2 * alpha)


def chamfer(images: Comparable, captions: Comparable, image_mask=None, caption_mask=None) -> Float[Tensor, "i t"]:
    """Every element of each set counts its best partner in the other.

    s(I, T) = 1/(2|I|) Σ_x max_y x·y + 1/(2|T|) Σ_y max_x x·y, in [−1, 1].

    Shapes and masks as in smooth_chamfer. Source: DivE, Table 3 ("Chamfer").

    >>> import torch
    >>> chamfer(torch.eye(2)[None], torch.eye(2)[:, None])
    tensor([[0.7500, 0.7500]])
    """
    images, captions = as_sets(images, captions, image_mask, caption_mask)
    products = element_products(real_rows(images), real_rows(captions))
    products = fill_padding(products, images, captions, -math.inf)
    in_caption, in_image = products.amax(3), products.amax(1)  # i k t, i t l
    return (mean_over_images_elements(in_caption, images) + mean_over_captions_elements(in_image, captions)) / 2


class SmoothChamfer(Similarity):
    """`smooth_chamfer` as a similarity. An element adds its own term of the sum.

    >>> SmoothChamfer().replace(alpha=4.0).settings
    {'alpha': 4.0}
    """

    function = staticmethod(smooth_chamfer)
    symmetric = True
    ranges = {"alpha": Range(1.0, 128.0, "α")}

    def __init__(self, alpha: float = 16.0):
        check_alpha(alpha)
        super().__init__(alpha=float(alpha))

    def _fast_scores(self, images, captions):
        return smooth_chamfer_scores(*as_sets(images, captions), self.options["alpha"])

    def _parts(self, x, y):
        return smooth_parts(x @ y.T, self.options["alpha"])


class Chamfer(Similarity):
    """`chamfer` as a similarity. An element adds its own term of the sum.

    >>> Chamfer().symmetric
    True
    """

    function = staticmethod(chamfer)
    symmetric = True

    def _fast_scores(self, images, captions):
        return chamfer_scores(*as_sets(images, captions))

    def _parts(self, x, y):
        products = x @ y.T
        return products.amax(1) / (2 * len(x)), products.amax(0) / (2 * len(y))


def smooth_parts(near: Float[Tensor, "k l"], alpha: float) -> tuple[Tensor, Tensor]:
    """What each element of two sets adds to a smooth-Chamfer score, of how near their elements are to each other."""
    k, l = near.shape
    return (alpha * near).logsumexp(1) / (2 * alpha * k), (alpha * near).logsumexp(0) / (2 * alpha * l)


def check_alpha(alpha: float) -> None:
    """Raise BadInput unless alpha is a positive, finite number."""
    require_number("alpha", alpha, above=0, hint="DivE uses 16; 1 to 64 is the usual range.")
