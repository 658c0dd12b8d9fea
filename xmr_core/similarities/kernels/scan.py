"""SCAN in blocks: relevance with its gradient by formula, and scores without gradients."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, maximum
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.kernels.attention import Attention, attention_blocks, by_queries
from xmr_core.similarities.pairs import EPS, PLAIN_EXPONENT, real_rows

_ITEMS = 32


class _AttendedTerms(Function):
    """(Σ_c w p, ‖Σ_c w x‖²) with attention w. With G = X Xᵀ the second is wᵀ G w.

    Backwards, with gradients f and g of the two:   dw = f p + 2 g G w,   dp = f w + (through the softmax) w (dw − Σ w
    dw),   dX = dp Y + 2 (Σ g w wᵀ) X,   dY = dpᵀ X
    """

    @staticmethod
    def forward(ctx, x, y, attention):
        (b, c, _), (a, q, _) = x.shape, y.shape
        with torch.autocast("cpu", enabled=False):
            gram = x @ x.transpose(1, 2)
            terms, squares = x.new_empty(b, q, a), x.new_empty(b, q, a)
            ctx.blocks = attention.blocks(x, y)
            for block in ctx.blocks:
                w = block.weights.div_(block.weights.sum(1, keepdim=True))
                n, _, _, m = w.shape
                spread = torch.bmm(gram[block.contexts], w.view(n, c, q * m)).view_as(w)
                squares[block.contexts, :, block.queries] = spread.mul_(w).sum(1)
                terms[block.contexts, :, block.queries] = torch.mul(w, block.products, out=spread).sum(1)
        ctx.attention = attention
        ctx.save_for_backward(x, y, gram, terms, squares)
        return terms, squares

    @staticmethod
    @once_differentiable
    def backward(ctx, of_terms, of_squares):
        x, y, gram, terms, squares = ctx.saved_tensors
        c, d = x.shape[1:]
        inner = of_terms * terms + 2 * of_squares * squares  # Σ w dw
        doubled = 2 * of_squares
        of_x, of_y = torch.zeros_like(x), torch.zeros_like(y)
        with torch.autocast("cpu", enabled=False):
            for block, flat, of_flat in by_queries(ctx.blocks, y, of_y):
                rows, w = block.contexts, block.weights
                n, _, q, m = w.shape
                f, g, total = (each[rows, None, :, block.queries] for each in (of_terms, doubled, inner))
                wide = w.view(n, c, q * m)
                grad = torch.bmm(gram[rows], wide).view_as(w).mul_(g).addcmul_(block.products, f)
                grad.sub_(total).mul_(w)
                grad = ctx.attention.towards_products(block, grad).addcmul_(w, f).view(n * c, q * m)
                of_gram = torch.bmm(w.mul(g).view(n, c, q * m), wide.transpose(1, 2))
                own, taken = of_x[rows], x[rows]
                own.view(n * c, d).addmm_(grad, flat)
                own.baddbmm_(of_gram, taken)
                of_flat.addmm_(grad.T, taken.reshape(n * c, d))
        return of_x, of_y, None


def attended_terms(
    x: Float[Tensor, "b c d"],
    y: Float[Tensor, "a q d"],
    x_mask: Bool[Tensor, "b c"],
    y_mask: Bool[Tensor, "a q"],
    sharpness: float,
    normalise: str,
    leak: float,
) -> tuple[Float[Tensor, "b q a"], Float[Tensor, "b q a"]]:
    """(Σ_c attention_cq x_c · y_q, ‖Σ_c attention_cq x_c‖²) for all pairs of items, with the attention of `attend`.

    x and y have zeros in place of padding. Only first derivatives are defined. The products and the attention are
    stored for the backward pass, two arrays of pairs × contexts × queries; everything else stands for one block at a
    time.
    """
    return _AttendedTerms.apply(x, y, Attention(x_mask, y_mask, sharpness, normalise, leak, _ITEMS))


# SCAN's scores without gradients, block by block.


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
            lengths = maximum(lengths, EPS * part.weights.sum(1))
        relevance = part.weights.mul_(part.products).sum(1).div_(lengths)  # b q a
        mask = queries.mask[part.queries].T[None]
        if aggregate == "lse" and lse_scale <= PLAIN_EXPONENT:  # cosines: e^scale is no large number
            scores = relevance.mul_(lse_scale).exp_().mul_(mask).sum(1).log_().div_(lse_scale)
        else:
            scores = aggregated(relevance, mask, aggregate, lse_scale, 1)
        out[part.contexts, part.queries] = scores
    return out
