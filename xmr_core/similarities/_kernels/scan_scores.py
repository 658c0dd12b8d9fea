"""SCAN's scores without gradients, block by block."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, maximum

from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities._kernels.attention_blocks import attention_blocks
from xmr_core.similarities.attend import EPS
from xmr_core.similarities.pairs import PLAIN_EXPONENT, real_rows


def scan_scores(
    contexts: EmbeddingSet, queries: EmbeddingSet, sharpness: float, aggregate: str, lse_scale: float,
    normalise: str, leak: float, aggregated: Callable,
) -> Float[Tensor, "b a"]:  # fmt: skip
    """As in `scan`. Attention is not divided by its sum, which a cosine does not see. aggregated: scan.aggregated."""
    norms = real_rows(queries).norm(dim=-1)  # a q
    out = norms.new_empty(len(contexts), len(queries))
    for part in attention_blocks(contexts, queries, sharpness, normalise, leak):
        lengths = part.lengths * norms[part.queries].T
        if bool((lengths < EPS * part.largest).any()):  # no division by a vector of no length
            lengths = maximum(lengths, EPS * part.totals())
        relevance = part.weights.mul_(part.products).sum(1).div_(lengths)  # b q a
        mask = queries.mask[part.queries].T[None]
        if aggregate == "lse" and lse_scale <= PLAIN_EXPONENT:  # cosines: e^scale is no large number
            scores = relevance.mul_(lse_scale).exp_().mul_(mask).sum(1).log_().div_(lse_scale)
        else:
            scores = aggregated(relevance, mask, aggregate, lse_scale, 1)
        out[part.contexts, part.queries] = scores
    return out
