"""Chamfer and smooth-Chamfer similarity of two embedding sets."""

import math

from jaxtyping import Float
from torch import Tensor

from xmr_core.errors import BadInput
from xmr_core.masked import masked_logsumexp, masked_max
from xmr_core.similarities.pairs import element_masks, element_products, set_mean
from xmr_core.types import EmbeddingSet


def smooth_chamfer(images: EmbeddingSet, captions: EmbeddingSet, alpha: float = 16.0) -> Float[Tensor, "i t"]:
    """Every element of each set looks for partners in the other, softly.

    s(I, T) = 1/(2α|I|) Σ_x log Σ_y e^{α x·y} + 1/(2α|T|) Σ_y log Σ_x e^{α x·y}

    Args: images "i k d", captions "t l d": unit rows, ragged by mask. alpha: inverse temperature, dimensionless, > 0;
        α → ∞ gives `chamfer`.
    Returns: "i t", larger is more similar, in [−1, 1] plus log(k)/2α + log(l)/2α at most; the cosine when k = l = 1.
    Raises: BadInput unless alpha is positive and finite.
    Source: Kim, Kim & Kwak, CVPR 2023 (DivE), smooth-Chamfer similarity; METHODS §9.3.
    Note: log Σ grows by log(l)/α with set size; harmless for fixed K, a length bias on ragged token sets.
    """
    if not 0 < alpha < math.inf:
        raise BadInput(f"alpha must be a positive, finite number, got {alpha}. DivE uses 16; 1 to 64 is the usual range.")
    products = alpha * element_products(images, captions)  # i k t l
    of_image, of_caption = element_masks(images, captions)
    partner_in_caption = masked_logsumexp(products, of_caption, dim=3)  # i k t
    partner_in_image = masked_logsumexp(products, of_image, dim=1)  # i t l
    return (set_mean(partner_in_caption, images.mask) + _caption_mean(partner_in_image, captions)) / (2 * alpha)


def chamfer(images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t"]:
    """Every element of each set counts its best partner in the other.

    s(I, T) = 1/(2|I|) Σ_x max_y x·y + 1/(2|T|) Σ_y max_x x·y, in [−1, 1].

    Shapes as smooth_chamfer. Source: DivE, Table 3 ("Chamfer").
    """
    products = element_products(images, captions)
    of_image, of_caption = element_masks(images, captions)
    best_in_caption = masked_max(products, of_caption, dim=3)  # i k t
    best_in_image = masked_max(products, of_image, dim=1)  # i t l
    return (set_mean(best_in_caption, images.mask) + _caption_mean(best_in_image, captions)) / 2


def _caption_mean(values: Float[Tensor, "i t l"], captions: EmbeddingSet) -> Float[Tensor, "i t"]:
    return set_mean(values.permute(1, 2, 0), captions.mask).T
