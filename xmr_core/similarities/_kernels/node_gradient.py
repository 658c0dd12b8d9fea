"""SGRAF's similarity nodes with their gradient by formula, block by block."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities._kernels.attention_gradient import Attention, Block, by_queries, flat_rows
from xmr_core.similarities.attend import EPS

_WIDE = 400_000  # elements of attended vectors at a time: 1.6 MB in float32, read about ten times


class _LocalNodes(Function):
    """l2(W (f − y)² + b) with f = l2(Σ_c w x_c).

    Forwards, ŵ = w / (‖Σ w x‖ + ε) with the length from the Gram matrix G, so that f = Σ ŵ x. Backwards, with z = f − y
    and h = 2 (dn W) ⊙ z where dn is the gradient before the l2:   dW = dnᵀ z²,   dy = −Σ h,   dŵ = X hᵀ. As f has
    length 1 the gradient through the softmax is   ŵ (dŵ − e Gŵ / ‖f‖ − ε e),   e = Σ_c ŵ dŵ, and
    dX = ŵ h − (Σ e/‖f‖ ŵ ŵᵀ) X + dp Y,   dY = dy + dpᵀ X. Attended vectors are computed again, not stored.
    """

    @staticmethod
    def forward(ctx, x, y, weight, bias, first, attention):
        (b, c, d), (a, q, _) = x.shape, y.shape
        ctx.room = room = 0 if first is None else 1
        out, inverse, length = x.new_empty(b, a, room + q, len(weight)), x.new_empty(b, q, a), x.new_empty(b, q, a)
        if first is not None:
            out[:, :, 0] = first
        with torch.autocast("cpu", enabled=False):
            gram, w_t = x @ x.transpose(1, 2), weight.T.contiguous()
            ctx.blocks = attention.blocks(x, y)
            for block in ctx.blocks:
                w, rows, columns = block.weights, block.contexts, block.queries
                n, _, _, m = w.shape
                squares = torch.bmm(gram[rows], w.view(n, c, q * m)).view_as(w).mul_(w).sum(1)
                lengths = squares.clamp_(min=0).sqrt_()
                factor = w.sum(1).mul_(EPS).add_(lengths).reciprocal_()
                w.mul_(factor[:, None])
                length[rows, :, columns] = lengths.mul_(factor)
                flat = flat_rows(y[columns])
                for few in _few(block, d):
                    z = torch.bmm(w[few].flatten(2).transpose(1, 2), x[rows][few])
                    torch.ops.aten.mse_loss.out(z, flat.expand_as(z), 0, out=z)  # (f − y)², element by element
                    nodes = torch.addmm(bias, z.flatten(0, 1), w_t).view(len(z), q, m, -1)
                    scale = torch.linalg.vector_norm(nodes, dim=-1).add_(EPS).reciprocal_()
                    inverse[rows][few, :, columns] = scale
                    torch.mul(nodes, scale[..., None], out=out[rows][few, columns, room:].transpose(1, 2))
        ctx.attention = attention
        ctx.save_for_backward(x, y, weight, gram, length, out, inverse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, y, weight, gram, length, out, inverse = ctx.saved_tensors
        (_, c, d), q = x.shape, y.shape[1]
        of_x, of_y, of_weight = torch.zeros_like(x), torch.zeros_like(y), torch.zeros_like(weight)
        of_bias, doubled = weight.new_zeros(len(weight)), 2 * weight
        with torch.autocast("cpu", enabled=False):
            for block, flat, of_flat in by_queries(ctx.blocks, y, of_y):
                rows, columns, w = block.contexts, block.queries, block.weights
                n, _, _, m = w.shape
                wide = w.view(n, c, q * m)
                towards = torch.empty_like(wide)
                for few in _few(block, d):
                    taken, own = x[rows][few], of_x[rows][few]
                    before = unit_gradient(
                        *(each[rows][few, columns, ctx.room :].transpose(1, 2) for each in (grad, out)),
                        inverse[rows][few, :, columns],
                    ).flatten(0, 2)
                    z = torch.bmm(wide[few].transpose(1, 2), taken).sub_(flat)
                    h = torch.mm(before, doubled).view_as(z).mul_(z)
                    of_weight.addmm_(before.T, z.square_().flatten(0, 1))
                    of_bias.add_(before.sum(0))
                    of_flat.sub_(h.sum(0) if len(h) > 1 else h[0])
                    torch.bmm(taken, h.transpose(1, 2), out=towards[few])
                    own.baddbmm_(wide[few], h)
                e = torch.mul(wide, towards).sum(1, keepdim=True)
                along = e / length[rows, :, columns].reshape(n, 1, q * m).clamp(min=EPS)
                towards.sub_(torch.bmm(gram[rows], wide).mul_(along)).sub_(e.mul_(EPS)).mul_(wide)
                of_gram = torch.bmm(wide * along, wide.transpose(1, 2))
                products = ctx.attention.towards_products(block, towards.view_as(w)).view(n * c, q * m)
                taken, own = x[rows], of_x[rows]
                own.view(n * c, d).addmm_(products, flat)
                own.baddbmm_(of_gram, taken, alpha=-1)
                of_flat.addmm_(products.T, taken.reshape(n * c, d))
        return of_x, of_y, of_weight, of_bias, grad[:, :, 0] if ctx.room else None, None


def _few(block: Block, d: int) -> list[slice]:
    """The contexts of a block in parts whose attended vectors fit a cache."""
    n, _, q, m = block.weights.shape
    size = max(1, _WIDE // (q * m * d))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def unit_gradient(grad: Tensor, u: Tensor, inverse: Tensor) -> Tensor:
    """Through u = v / (‖v‖ + ε), where inverse = 1 / (‖v‖ + ε):   dv = (du − u (u · du) / ‖u‖) · inverse, in new
    memory."""
    length = 1 - EPS * inverse
    along = torch.linalg.vecdot(u, grad) / length.clamp(min=EPS)
    return torch.addcmul(grad, u, along[..., None], value=-1).mul_(inverse[..., None])


def local_nodes(
    contexts: EmbeddingSet,
    queries: EmbeddingSet,
    x: Float[Tensor, "b c d"],
    y: Float[Tensor, "a q d"],
    sharpness: float,
    layer: torch.nn.Linear,
    first: Float[Tensor, "b a m"] | None = None,
) -> Float[Tensor, "b a n m"]:
    """l2(W (f − y)² + b) of each query y and f, the normalised vector that it attends to in each context item.

    first: nodes that are to stand before these.
    x and y: the elements of contexts and queries, with zeros in place of padding. Only first derivatives are defined.
    Nodes, products and attention are stored for the backward pass; attended vectors stand for one block at a time.
    Source: SGRAF, eq. 1–5.
    """
    attention = Attention(contexts.mask, queries.mask, sharpness, "clipped_l2norm", 0.1)
    return _LocalNodes.apply(x, y, layer.weight, layer.bias, first, attention)
