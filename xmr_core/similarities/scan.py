"""Stacked cross attention: how well each word is matched by what it attends to in the image, or each region in the
caption."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.errors import require_choice, require_number
from xmr_core.base.tensors import ANY_LENGTH, Comparable, as_sets, masked_logsumexp, masked_max, masked_mean
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.base import DIRECTIONS, Range, Similarity, blockwise, roles
from xmr_core.similarities.kernels.attention import AttendedTerms, Attention, attention_blocks, by_blocks
from xmr_core.similarities.pairs import EPS, NORMALISATIONS, PLAIN_EXPONENT, attend, bucket_by_length, real_rows

AGGREGATIONS = ("lse", "mean", "sum", "max")


@blockwise
def scan(
    images: Comparable,
    captions: Comparable,
    direction: str = "t2i",
    sharpness: float = 9.0,
    aggregate: str = "lse",
    lse_scale: float = 6.0,
    normalise: str = "clipped_l2norm",
    leak: float = 0.1,
    image_mask=None,
    caption_mask=None,
) -> Float[Tensor, "i t"]:
    """Every query element q attends to the other item, and is compared with what it attended to.

    c_q = Σ_c attention_cq x_c,   R_q = c_q · q / max(‖c_q‖‖q‖, 1e-8),   s = 1/λ₂ log Σ_q e^{λ₂ R_q}  (or mean, sum,
    max)

    Queries are words and contexts regions for direction 't2i', the other way round for 'i2t'. No attended vector is
    ever formed: c_q · q = Σ attention · product, and ‖c_q‖² = attentionᵀ (X Xᵀ) attention, so memory is that of the
        products.

    Args: images "i k d", captions "t l d", ragged by mask. sharpness: λ₁ (9 for t2i, 4 for i2t). lse_scale: λ₂, read by
        'lse' only (6; 5 or 20 for i2t). normalise, leak: see `attend`. image_mask, caption_mask: as in smooth_chamfer.
    Returns: "i t"; mean and max lie in [−1, 1], sum in ±(number of queries), lse in [−1, 1 + log(queries)/λ₂].
    Raises: BadInput for an unknown direction, aggregation or normalisation, or a scale that is not positive and finite.
    Source: Lee et al., ECCV 2018 (SCAN), eq. 1–9; docs/methods/scan.md. The authors take captions one at a time
        (docs/differences.md#x-24).

    >>> import torch
    >>> scan(torch.eye(2)[None], torch.eye(2)[None], sharpness=100.0, aggregate="mean").round(decimals=3)
    tensor([[1.]])
    """
    _check(direction, sharpness, normalise, leak, aggregate, lse_scale)
    images, captions = as_sets(images, captions, image_mask, caption_mask)

    def score(images: EmbeddingSet, captions: EmbeddingSet) -> Tensor:
        contexts, queries = roles(images, captions, direction)
        relevance = attended_cosines(contexts, queries, sharpness, normalise, leak)
        return _by_image(aggregated(relevance, queries.mask[None], aggregate, lse_scale, 2), direction)

    return bucket_by_length(score, images, captions)


def scan_attention(
    images: Comparable,
    captions: Comparable,
    direction: str = "t2i",
    sharpness: float = 9.0,
    normalise: str = "clipped_l2norm",
    leak: float = 0.1,
    image_mask=None,
    caption_mask=None,
) -> Float[Tensor, "i t q c"]:
    """The attention of `scan`, for visualisation: row q sums to 1 over the real elements c of the other item.

    >>> import torch
    >>> scan_attention(torch.eye(2)[None], torch.eye(2)[None], sharpness=100.0).round(decimals=3)[0, 0]
    tensor([[1., 0.],
            [0., 1.]])
    """
    _check(direction, sharpness, normalise, leak)
    contexts, queries = roles(*as_sets(images, captions, image_mask, caption_mask), direction)
    attention = attend(contexts, queries, sharpness, normalise, leak)[1]
    return attention.permute(0, 2, 3, 1) if direction == "t2i" else attention.permute(2, 0, 3, 1)


def _check(
    direction: str, sharpness: float, normalise: str, leak: float, aggregate: str = "mean", lse_scale: float = 1.0
) -> None:
    """Raise BadInput for values that SCAN and its attention cannot have."""
    require_choice("direction", direction, DIRECTIONS)
    require_choice("normalisation of the attention", normalise, NORMALISATIONS)
    require_number("the sharpness of the attention", sharpness, above=0, hint="SCAN uses 9 (t2i) and 4 (i2t).")
    require_number("leak", leak)
    require_choice("aggregation", aggregate, AGGREGATIONS)
    if aggregate == "lse":
        require_number("lse_scale", lse_scale, above=0, hint="SCAN uses 5 to 20.")


class Scan(Similarity):
    """`scan` as a similarity. With aggregate 'mean' or 'sum' each query element adds its own term and contexts add
    nothing.

    >>> Scan(direction="i2t", sharpness=4.0, aggregate="mean").settings
    {'sharpness': 4.0, 'lse_scale': 6.0}
    """

    function = staticmethod(scan)
    block_scale, compares = 8, "tokens"  # larger blocks seldom leave a rest
    ranges = {"sharpness": Range(1.0, 64.0, "λ₁"), "lse_scale": Range(1.0, 64.0, "λ₂")}

    def __init__(
        self,
        direction: str = "t2i",
        sharpness: float = 9.0,
        aggregate: str = "lse",
        lse_scale: float = 6.0,
        normalise: str = "clipped_l2norm",
        leak: float = 0.1,
    ):
        _check(direction, sharpness, normalise, leak, aggregate, lse_scale)
        attention = {"direction": direction, "sharpness": sharpness, "normalise": normalise, "leak": leak}
        super().__init__(**attention, aggregate=aggregate, lse_scale=lse_scale)
        self.direction = direction

    def attention(self, images: Comparable, captions: Comparable) -> Float[Tensor, "i t q c"]:
        of_attention = {n: v for n, v in self.options.items() if n not in ("aggregate", "lse_scale")}
        return scan_attention(images, captions, **of_attention)

    def _fast_scores(self, images, captions):
        options = {n: v for n, v in self.options.items() if n != "direction"}

        def score(images: EmbeddingSet, captions: EmbeddingSet) -> Tensor:
            return _by_image(scan_scores(*roles(images, captions, self.direction), **options), self.direction)

        return bucket_by_length(score, *as_sets(images, captions, normalise=ANY_LENGTH), split_equal=False)

    def _parts(self, x, y):
        o = self.options
        if o["aggregate"] not in ("mean", "sum"):
            return None
        contexts, queries = roles(*as_sets(x[None], y[None]), self.direction)
        terms = attended_cosines(contexts, queries, o["sharpness"], o["normalise"], o["leak"]).flatten()
        return terms_of_queries(terms, contexts.x.shape[1], self.direction, o["aggregate"])


def terms_of_queries(terms: Float[Tensor, " q"], contexts: int, direction: str, how: str) -> tuple[Tensor, Tensor]:
    """(of the image, of the caption): what each query element adds to a 'sum' or 'mean', and 0 for each context."""
    return roles(terms.new_zeros(contexts), terms / len(terms) if how == "mean" else terms, direction)


def _by_image(scores: Float[Tensor, "b a"], direction: str) -> Float[Tensor, "i t"]:
    return scores if direction == "t2i" else scores.T


def aggregated(
    relevance: Float[Tensor, "..."], mask: Bool[Tensor, "..."], how: str, lse_scale: float, dim: int
) -> Float[Tensor, "b a"]:
    """Relevances put together over the queries of each item, which stand along `dim`."""
    if how == "mean":
        return masked_mean(relevance, mask, dim=dim)
    if how == "max":
        return masked_max(relevance, mask, dim=dim)
    if how == "sum":
        return torch.where(mask, relevance, 0.0).sum(dim)
    return masked_logsumexp(lse_scale * relevance, mask, dim=dim) / lse_scale


def attended_cosines(
    contexts: EmbeddingSet, queries: EmbeddingSet, sharpness: float, normalise: str, leak: float
) -> Float[Tensor, "b a q"]:
    """R of the docstring of `scan`: the cosine of each query element with what it attends to in the context item."""
    x, y = real_rows(contexts), real_rows(queries)
    if by_blocks(x, y):
        terms, squares = AttendedTerms.apply(x, y, Attention(contexts.mask, queries.mask, sharpness, normalise, leak))
        terms, squares = terms.transpose(1, 2), squares.transpose(1, 2)
    else:
        products, attention = attend(contexts, queries, sharpness, normalise, leak)  # b c a q
        with torch.autocast(x.device.type, enabled=False):
            gram = x @ x.transpose(1, 2)  # b c c
            squares = (attention * (gram @ attention.flatten(2)).view_as(attention)).sum(1)  # b a q
        terms = (attention * products).sum(1)
    # the clamp keeps √ and its gradient finite where the attended vector is 0
    return terms / (squares.clamp(min=EPS**3).sqrt() * y.norm(dim=-1)).clamp(min=EPS)


def scan_scores(
    contexts: EmbeddingSet, queries: EmbeddingSet, sharpness: float, aggregate: str, lse_scale: float,
    normalise: str, leak: float, aggregated: Callable[..., Tensor] = aggregated,
) -> Float[Tensor, "b a"]:  # fmt: skip
    """Scores without gradients, block by block. Attention is not divided by its sum, which a cosine does not see."""
    norms = real_rows(queries).norm(dim=-1)  # a q
    out = norms.new_empty(len(contexts), len(queries))
    for part, lengths in attention_blocks(contexts, queries, sharpness, normalise, leak):
        lengths = lengths * norms[part.queries].T
        if bool((lengths < EPS * part.largest).any()):  # no division by a vector of no length
            lengths = torch.maximum(lengths, EPS * part.weights.sum(1))
        relevance = part.weights.mul_(part.products).sum(1).div_(lengths)  # b q a
        mask = queries.mask[part.queries].T[None]
        if aggregate == "lse" and lse_scale <= PLAIN_EXPONENT:  # cosines: e^scale is no large number
            scores = relevance.mul_(lse_scale).exp_().mul_(mask).sum(1).log_().div_(lse_scale)
        else:
            scores = aggregated(relevance, mask, aggregate, lse_scale, 1)
        out[part.contexts, part.queries] = scores
    return out
