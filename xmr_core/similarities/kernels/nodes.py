"""SGRAF's similarity nodes in blocks: the difference to what is attended to, for scoring and for training by
formula."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.kernels.attention import Attention, Block, attention_blocks, by_queries, flat_rows
from xmr_core.similarities.pairs import EPS, real_rows


class _AttendedDifference(Function):
    """W (f / (‖f‖ + ε) − y)² + b. Step by step autograd would pass twenty times over arrays of pairs × words × width;
    this passes nine times, and most of the time of SGRAF is these passes."""

    @staticmethod
    def forward(ctx, attended, queries, weight, bias):
        norm = torch.linalg.vector_norm(attended, dim=-1, keepdim=True)
        inverse = (norm + EPS).reciprocal()
        z = attended * inverse
        z -= queries
        ctx.save_for_backward(z, queries, norm, inverse, weight)
        return torch.nn.functional.linear(z * z, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        z, queries, norm, inverse, weight = ctx.saved_tensors
        flat = grad.flatten(0, -2)
        of_weight = flat.T @ (z * z).flatten(0, -2)
        g = (flat @ (2 * weight)).view_as(z).mul_(z)  # towards z
        of_queries = -g.sum(0)
        attended = z + queries  # f / (‖f‖ + ε)
        along = torch.linalg.vecdot(g, attended).unsqueeze(-1) / norm.clamp(min=torch.finfo(norm.dtype).tiny)
        return g.mul_(inverse).addcmul_(attended, along, value=-1), of_queries, of_weight, flat.sum(0)


def attended_difference(
    attended: Float[Tensor, "b a q d"],
    queries: Float[Tensor, "a q d"],
    weight: Float[Tensor, "m d"],
    bias: Float[Tensor, " m"],
) -> Float[Tensor, "b a q m"]:
    """W (f / (‖f‖ + 1e-8) − y)² + b for each query y and what it attended in each context item b.

    Where nothing was attended (f = 0) the gradient towards f is 0. Only first derivatives are defined.
    Source: Diao et al., AAAI 2021 (SGRAF), eq. 1 and 5, before the normalisation of the result; f is normalised in
        their code only.
    """
    return _AttendedDifference.apply(attended, queries, weight, bias)


# SGRAF's similarity nodes for scoring: without gradients, a few megabytes of them at a time.


_COLUMNS = 512  # queries at a time: what they attend to, 2 MB in float32 at D = 1024, stays in the cache of one core
_ROWS = 576


def node_blocks(
    contexts: EmbeddingSet, queries: EmbeddingSet, sharpness: float, layer: nn.Linear, room: int = 0
) -> Iterator[tuple[slice, slice, Tensor]]:
    """(which contexts, which queries, l2(W (f − y)² + b) "b a room+q m") with f the normalised vector that query y
    attends to. The first `room` nodes of each pair are left for the caller to fill.

    The attention is divided by the length of the attended vector (known from the Gram matrix), so that attended vectors
    leave the product normalised; then one pass subtracts and squares. Shapes: contexts "b c d", queries "a q d".
    Source: SGRAF, eq. 1–5.
    """
    x, y = real_rows(contexts), real_rows(queries)
    attended, w = x.new_empty(0), layer.weight.T.contiguous()
    for part in attention_blocks(contexts, queries, sharpness, "clipped_l2norm", 0.1, _COLUMNS, _ROWS):
        n, c, q, a = part.weights.shape
        weights = part.weights.div_((part.lengths + EPS * part.weights.sum(1))[:, None]).view(n, c, q * a)
        rows = y[part.queries].transpose(0, 1).reshape(q * a, -1)  # position by position, as in AttentionBlock
        attended = rows.new_empty(rows.shape) if attended.shape != rows.shape else attended
        nodes = x.new_empty(n, q * a, layer.out_features)
        for item in range(n):
            torch.mm(weights[item].T, x[part.contexts][item], out=attended)
            torch.ops.aten.mse_loss.out(attended, rows, 0, out=attended)  # (f − y)², element by element
            torch.addmm(layer.bias, attended, w, out=nodes[item])
        out = x.new_empty(n, a, room + q, layer.out_features)
        own, inverse = (each.view(n, q, a, -1).transpose(1, 2) for each in (nodes, _inverse_length(nodes)))
        torch.mul(own, inverse, out=out[:, :, room:])
        yield part.contexts, part.queries, out


def global_nodes(x: Float[Tensor, "i d"], y: Float[Tensor, "t d"], layer: nn.Linear) -> Float[Tensor, "i t m"]:
    """l2(W (x − y)² + b) of all pairs."""
    nodes = layer(nn.functional.mse_loss(x[:, None].expand(-1, len(y), -1), y.expand(len(x), -1, -1), reduction="none"))
    return nodes.mul_(_inverse_length(nodes))


def _inverse_length(x: Float[Tensor, "... m"]) -> Float[Tensor, "... 1"]:
    """The factor of pairs.unit."""
    return (torch.linalg.vector_norm(x, dim=-1, keepdim=True) + EPS).reciprocal_()


# SGRAF's similarity nodes with their gradient by formula, block by block.


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
