"""Stacked cross attention: how well each word finds itself in the picture, or each region in the sentence."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.masked import masked_logsumexp, masked_max, masked_mean
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.attend import EPS, attend, check_attention
from xmr_core.similarities.looks import looks
from xmr_core.similarities.pairs import by_length, element_products, fill_padding, real_rows

DIRECTIONS = ("t2i", "i2t")
AGGREGATIONS = ("lse", "mean", "sum", "max")
_PLAIN = 40.0  # e^±40 is far from the ends of float32


def scan(
    images: EmbeddingSet,
    captions: EmbeddingSet,
    direction: str = "t2i",
    sharpness: float = 9.0,
    aggregate: str = "lse",
    lse_scale: float = 6.0,
    normalise: str = "clipped_l2norm",
    leak: float = 0.1,
) -> Float[Tensor, "i t"]:
    """Every query element q attends to the other side, and is compared with what it found.

    c_q = Σ_c attention_cq x_c,   R_q = c_q · q / max(‖c_q‖‖q‖, 1e-8),   s = 1/λ₂ log Σ_q e^{λ₂ R_q}  (or mean, sum, max)

    Queries are words and contexts regions for direction 't2i', the other way round for 'i2t'. No attended vector is ever
    formed: c_q · q = Σ attention · product, and ‖c_q‖² = attentionᵀ (X Xᵀ) attention, so memory is that of the products.

    Args: images "i k d", captions "t l d", ragged by mask. sharpness: λ₁ (9 for t2i, 4 for i2t). lse_scale: λ₂, read by
        'lse' only (6; 5 or 20 for i2t). normalise, leak: see `attend`.
    Returns: "i t"; mean and max lie in [−1, 1], sum in ±(number of queries), lse in [−1, 1 + log(queries)/λ₂].
    Raises: BadInput for an unknown direction, aggregation or normalisation, or a scale that is not positive and finite.
    Source: Lee et al., ECCV 2018 (SCAN), eq. 1–9; METHODS §5. The authors go through captions one at a time (X-24).
    """
    if aggregate not in AGGREGATIONS:
        raise unknown("aggregation", aggregate, AGGREGATIONS)
    if aggregate == "lse" and not 0 < lse_scale < math.inf:
        raise BadInput(f"lse_scale must be a positive, finite number, got {lse_scale}. SCAN uses 5 to 20.")

    def score(images: EmbeddingSet, captions: EmbeddingSet) -> Tensor:
        contexts, queries = _roles(images, captions, direction)
        if not torch.is_grad_enabled():
            found = _scored(contexts, queries, sharpness, aggregate, lse_scale, normalise, leak)
            return found if direction == "t2i" else found.T
        relevance = _relevance(contexts, queries, sharpness, normalise, leak)
        found = _aggregate(relevance, queries.mask[None], aggregate, lse_scale, 2)
        return found if direction == "t2i" else found.T

    check_attention(sharpness, normalise)
    return by_length(score, images, captions)


def scan_attention(
    images: EmbeddingSet,
    captions: EmbeddingSet,
    direction: str = "t2i",
    sharpness: float = 9.0,
    normalise: str = "clipped_l2norm",
    leak: float = 0.1,
) -> Float[Tensor, "i t q c"]:
    """The attention of `scan`, for pictures: row q sums to 1 over the real elements c of the other side."""
    attention = attend(*_roles(images, captions, direction), sharpness, normalise, leak)[1]
    return attention.permute(0, 2, 3, 1) if direction == "t2i" else attention.permute(2, 0, 3, 1)


def sum_max(images: EmbeddingSet, captions: EmbeddingSet, direction: str = "t2i") -> Float[Tensor, "i t"]:
    """Each query element counts its best partner: t2i Σ_words max_regions x·y, i2t Σ_regions max_words x·y.

    Returns: "i t", in ±(number of queries). Source: SCAN, Table 3 ("sum-max", after Karpathy & Fei-Fei, CVPR 2015); not
    in the authors' code.
    """
    contexts, queries = _roles(images, captions, direction)
    products = element_products(real_rows(contexts), real_rows(queries))
    best = fill_padding(products, contexts, queries, -math.inf).amax(1)  # b a q
    found = torch.where(queries.mask, best, 0.0).sum(2)
    return found if direction == "t2i" else found.T


def _roles(images: EmbeddingSet, captions: EmbeddingSet, direction: str) -> tuple[EmbeddingSet, EmbeddingSet]:
    if direction not in DIRECTIONS:
        raise unknown("direction", direction, DIRECTIONS)
    return (images, captions) if direction == "t2i" else (captions, images)


def _relevance(contexts: EmbeddingSet, queries: EmbeddingSet, sharpness: float, normalise: str, leak: float) -> Float[Tensor, "b a q"]:
    """R of the docstring of `scan`."""
    products, attention = attend(contexts, queries, sharpness, normalise, leak)  # b c a q
    x = real_rows(contexts)
    with torch.autocast(x.device.type, enabled=False):
        gram = x @ x.transpose(1, 2)  # b c c
        lengths = (attention * (gram @ attention.flatten(2)).view_as(attention)).sum(1)  # b a q, squared
    # the clamp keeps √ and its gradient finite where nothing was found
    norms = lengths.clamp(min=EPS**3).sqrt() * real_rows(queries).norm(dim=-1)
    return (attention * products).sum(1) / norms.clamp(min=EPS)


def _scored(
    contexts: EmbeddingSet, queries: EmbeddingSet, sharpness: float, aggregate: str, lse_scale: float, normalise: str, leak: float
) -> Float[Tensor, "b a"]:
    """The same without gradients, block by block. Attention is not divided by its sum, which a cosine does not see."""
    norms = real_rows(queries).norm(dim=-1)  # a q
    out = norms.new_empty(len(contexts), len(queries))
    for part in looks(contexts, queries, sharpness, normalise, leak):
        found = part.lengths * norms[part.queries].T
        if bool((found < EPS * part.largest).any()):  # no division by what is nothing
            found = torch.maximum(found, EPS * part.totals())
        relevance = part.weights.mul_(part.products).sum(1).div_(found)  # b q a
        mask = queries.mask[part.queries].T[None]
        if aggregate == "lse" and lse_scale <= _PLAIN:  # cosines: e^scale is no large number
            found = relevance.mul_(lse_scale).exp_().mul_(mask).sum(1).log_().div_(lse_scale)
        else:
            found = _aggregate(relevance, mask, aggregate, lse_scale, 1)
        out[part.contexts, part.queries] = found
    return out


def _aggregate(relevance: Float[Tensor, "..."], mask: Bool[Tensor, "..."], how: str, lse_scale: float, dim: int) -> Float[Tensor, "b a"]:
    """Over the queries of each item, which stand along `dim`."""
    if how == "mean":
        return masked_mean(relevance, mask, dim=dim)
    if how == "max":
        return masked_max(relevance, mask, dim=dim)
    if how == "sum":
        return torch.where(mask, relevance, 0.0).sum(dim)
    return masked_logsumexp(lse_scale * relevance, mask, dim=dim) / lse_scale


scan.own_blocks = True  # see retrieval.scores
