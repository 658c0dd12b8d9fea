"""SGRAF's similarity nodes for scoring: without gradients, a few megabytes of them at a time."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities._kernels.attention_blocks import attention_blocks
from xmr_core.similarities.attend import EPS
from xmr_core.similarities.pairs import real_rows

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
        weights = part.weights.div_((part.lengths + EPS * part.totals())[:, None]).view(n, c, q * a)
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
    """The factor of attend.unit."""
    return (torch.linalg.vector_norm(x, dim=-1, keepdim=True) + EPS).reciprocal_()
