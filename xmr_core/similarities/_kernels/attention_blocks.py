"""Stacked cross attention for scoring: no gradient, few passes, over arrays that stay in a processor's cache."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.masked import masked_softmax
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.attend import EPS
from xmr_core.similarities.pairs import PLAIN_EXPONENT, real_rows, same_width

# query and context elements multiplied at a time: 7 MB in float32, three of which fit a large cache
_COLUMNS, _ROWS = 1536, 1152
_ALIGNED = 16  # floats in 64 bytes: products whose rows start there are much faster


@dataclass(frozen=True)
class AttentionBlock:
    """The attention of the queries of some items over some context items.

    Queries lie position by position (q before a), so that what is summed over the words of a caption is whole rows.
    products: x_c · y_q. weights: attention before its division by its sum over c, `totals()`, at most `largest`.
    lengths: ‖Σ_c weights x_c‖. contexts, queries: which items (rows and columns of the result). The tensors are
    overwritten by the next block.
    """

    products: Float[Tensor, "b c q a"]
    weights: Float[Tensor, "b c q a"]
    lengths: Float[Tensor, "b q a"]
    contexts: slice
    queries: slice
    largest: float

    def totals(self) -> Float[Tensor, "b q a"]:
        return self.weights.sum(1)


def attention_blocks(
    contexts: EmbeddingSet,
    queries: EmbeddingSet,
    sharpness: float,
    normalise: str,
    leak: float,
    columns: int = _COLUMNS,
    rows: int = _ROWS,
) -> Iterator[AttentionBlock]:
    """The attention of `attend` (which says what the arguments mean) in small blocks, every pair of items once.

    ‖Σ w_c x_c‖² = wᵀ (X Xᵀ) w: no attended vector is formed. Shapes: contexts "b c d", queries "a q d", ragged by mask.
    """
    x, y = real_rows(contexts), real_rows(queries)
    same_width(x, y)
    gram = torch.bmm(x, x.transpose(1, 2), out=x.new_empty(len(x), x.shape[1], x.shape[1]))  # also under autocast
    padding = None if contexts.mask.all() else ~contexts.mask
    (b, c, d), (a, q, _) = x.shape, y.shape
    exponent = sharpness * normalised_bound(x, y, normalise)
    shifted = exponent > PLAIN_EXPONENT
    largest = 1.0 * c if shifted else c * math.exp(exponent)
    b_parts, a_parts = parts_of(b, max(1, rows // c)), parts_of(a, max(1, columns // q), _ALIGNED)
    most = max(p.stop - p.start for p in b_parts) * c * max(p.stop - p.start for p in a_parts) * q
    buffers = [x.new_empty(most) for _ in range(3)]
    for a_part in a_parts:
        flat = y[a_part].transpose(0, 1).reshape(-1, d)  # (q a) d
        for b_part in b_parts:
            n, m = b_part.stop - b_part.start, a_part.stop - a_part.start
            size = n * c * q * m
            products, weights, spare = (each[:size].view(n, c, q, m) for each in buffers)
            torch.mm(x[b_part].reshape(n * c, d), flat.T, out=products.view(n * c, q * m))
            hidden = None if padding is None else padding[b_part][:, :, None, None]
            weigh(products, weights, spare, sharpness, normalise, leak, queries.mask[a_part], hidden, shifted)
            spread = weights.view(n, c, q * m)
            lengths = (
                torch.bmm(gram[b_part], spread, out=spare.view(n, c, q * m)).mul_(spread).sum(1).clamp_(min=0).sqrt_()
            )
            yield AttentionBlock(products, weights, lengths.view(n, q, m), b_part, a_part, largest)


def normalised_bound(x: Float[Tensor, "b c d"], y: Float[Tensor, "a q d"], normalise: str) -> float:
    """A bound of |û|: 1 after a division by the norm over the queries, and after a softmax; else that of a product."""
    if normalise.endswith("l2norm") or normalise == "softmax":
        return 1.0
    return float(x.norm(dim=-1).max() * y.norm(dim=-1).max())


def weigh(
    products: Tensor,
    weights: Tensor,
    spare: Tensor,
    sharpness: float,
    normalise: str,
    leak: float,
    real: Bool[Tensor, "a q"],
    hidden: Tensor | None,
    shifted: bool,
) -> Tensor | None:
    """Fill `weights` with exp(sharpness · û), 0 on padded contexts, up to a factor per query where that keeps it
    finite. Returns the divisor of û, ‖u‖ + 1e-8 "b c 1 a", where there is one."""
    divisor = None
    if normalise.startswith("clipped"):
        torch.ops.aten.leaky_relu.out(products, leak, out=weights)
    else:
        weights.copy_(products)
    if normalise.endswith("l2norm"):
        divisor = torch.mul(weights, weights, out=spare).sum(2, keepdim=True).sqrt_().add_(EPS)
        weights.mul_(divisor.reciprocal().mul_(sharpness))
    elif normalise == "softmax":
        weights.copy_(masked_softmax(weights, real.T[None, None], dim=2).mul_(sharpness))
    else:
        weights.mul_(sharpness)
    if shifted:
        seen = weights if hidden is None else torch.where(hidden, -math.inf, weights)
        weights.sub_(seen.amax(1, keepdim=True))
    weights.exp_()
    if hidden is not None:
        weights.masked_fill_(hidden, 0.0)
    return divisor


def parts_of(n: int, most: int, multiple: int = 1) -> list[slice]:
    """n items in parts of nearly equal size, none larger than `most`; sizes are multiples of a number that fits, except
    the last."""
    size = -(-n // -(-n // most))
    size = min(most, -(-size // multiple) * multiple) if most >= multiple else size
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
