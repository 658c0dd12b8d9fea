"""Chamfer and smooth-Chamfer similarity of two embedding sets."""

import math
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.pairs import (
    element_products,
    fill_padding,
    mean_over_captions_elements,
    mean_over_images_elements,
    real_rows,
)
from xmr_core.similarities.planes import planes

_PLAIN = 40.0  # e^±40 leaves float32 twenty decades of room on either side, for the sums and for their gradients
_PLAIN_PRODUCT = 80.0  # e^±80 is still a float32: products of sums, of which one logarithm is taken instead of one each


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
    if (p := planes(images, captions, alpha)) is not None and (bound := _largest(p, x, y, alpha)) <= _PLAIN:
        return _scored(p, bound).div_(2 * alpha)
    bound = alpha * _longest(x) * _longest(y)
    logits = element_products(x, y).mul_(alpha)  # i k t l
    if bound <= _PLAIN:
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
    if (p := planes(images, captions)) is not None:
        k, l = len(p), len(p[0])
        rows = sum((reduce(torch.maximum, row) for row in p), 0.0) / (2 * k)
        return rows.add_(sum(reduce(torch.maximum, column) for column in zip(*p, strict=True)), alpha=1 / (2 * l))
    products = element_products(real_rows(images), real_rows(captions))
    products = fill_padding(products, images, captions, -math.inf)
    in_caption, in_image = products.amax(3), products.amax(1)  # i k t, i t l
    return (mean_over_images_elements(in_caption, images) + mean_over_captions_elements(in_image, captions)) / 2


def _scored(logits: list[list[Tensor]], bound: float) -> Float[Tensor, "i t"]:
    """Mean over x of log Σ_y e^logit plus mean over y of log Σ_x e^logit; overwrites the logits. bound: of |logit|."""
    near = [[m.exp_() for m in row] for row in logits]
    both = 0.0
    for groups in (near, list(zip(*near, strict=True))):
        sums = (reduce(torch.add, group) for group in groups)
        if len(groups) * (bound + math.log(len(groups[0]))) <= _PLAIN_PRODUCT:
            logs = reduce(torch.mul, sums).log()
        else:
            logs = sum(s.log() for s in sums)
        both = logs.div_(len(groups)).add_(both)
    return both


def _largest(logits: list[list[Tensor]], x: Tensor, y: Tensor, alpha: float) -> float:
    """A bound of |logit|: the largest, or that of the norms where these are fewer numbers to read."""
    if sum(m.numel() for row in logits for m in row) > x.numel() + y.numel():
        return alpha * _longest(x) * _longest(y)
    return max(float(m.abs().max()) if m.numel() else 0.0 for row in logits for m in row)


def _longest(x: Float[Tensor, "n k d"]) -> float:
    """The largest norm of a row: |x·y| ≤ ‖x‖‖y‖."""
    return float(x.detach().norm(dim=-1).max()) if x.numel() else 0.0
