"""Chamfer and smooth-Chamfer similarity of two embedding sets."""

import math

from jaxtyping import Float
from torch import Tensor

from xmr_core.errors import BadInput
from xmr_core.similarities.pairs import (
    element_products,
    fill_padding,
    mean_over_captions_elements,
    mean_over_images_elements,
    real_rows,
)
from xmr_core.types import EmbeddingSet

_PLAIN = 40.0  # e^±40 leaves float32 twenty decades of room on either side, for the sums and for their gradients


def smooth_chamfer(images: EmbeddingSet, captions: EmbeddingSet, alpha: float = 16.0) -> Float[Tensor, "i t"]:
    """Every element of each set looks for partners in the other, softly.

    s(I, T) = 1/(2α|I|) Σ_x log Σ_y e^{α x·y} + 1/(2α|T|) Σ_y log Σ_x e^{α x·y}

    Args: images "i k d", captions "t l d": unit rows, ragged by mask. alpha: inverse temperature, dimensionless, > 0;
        α → ∞ gives `chamfer`.
    Returns: "i t", larger is more similar, at most 1 + (log k + log l)/2α, at least −1 plus the same; the cosine when
        k = l = 1.
    Raises: BadInput unless alpha is positive and finite.
    Source: Kim, Kim & Kwak, CVPR 2023 (DivE), smooth-Chamfer similarity; METHODS §9.3.
    Note: log Σ grows by log(l)/α with set size; harmless for fixed K, a length bias on ragged token sets. While α|x·y|
        cannot pass 40, one plain exponential serves both sums, without loss; past it each sum is shifted by its own maximum.
    """
    if not 0 < alpha < math.inf:
        raise BadInput(f"alpha must be a positive, finite number, got {alpha}. DivE uses 16; 1 to 64 is the usual range.")
    x, y = real_rows(images), real_rows(captions)
    logits = element_products(x, y).mul_(alpha)  # i k t l
    if alpha * _longest(x) * _longest(y) <= _PLAIN:
        near = fill_padding(logits.exp_(), images, captions, 0.0)
        in_caption, in_image = near.sum(3).log(), near.sum(1).log()  # i k t, i t l
    else:
        logits = fill_padding(logits, images, captions, -math.inf)
        in_caption, in_image = logits.logsumexp(3), logits.logsumexp(1)
    both = mean_over_images_elements(in_caption, images) + mean_over_captions_elements(in_image, captions)
    return both / (2 * alpha)


def chamfer(images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t"]:
    """Every element of each set counts its best partner in the other.

    s(I, T) = 1/(2|I|) Σ_x max_y x·y + 1/(2|T|) Σ_y max_x x·y, in [−1, 1].

    Shapes as smooth_chamfer. Source: DivE, Table 3 ("Chamfer").
    """
    products = element_products(real_rows(images), real_rows(captions))
    products = fill_padding(products, images, captions, -math.inf)
    in_caption, in_image = products.amax(3), products.amax(1)  # i k t, i t l
    return (mean_over_images_elements(in_caption, images) + mean_over_captions_elements(in_image, captions)) / 2


def _longest(x: Float[Tensor, "n k d"]) -> float:
    """The largest norm of a row: |x·y| ≤ ‖x‖‖y‖."""
    return float(x.detach().norm(dim=-1).max()) if x.numel() else 0.0
