"""Graph reasoning over the nodes of many pairs, with its gradient by formula, block by block."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_ELEMENTS = 200_000  # of the nodes of a block: 0.8 MB in float32, read about forty times


class _Step(NamedTuple):
    """What a step computed, "p …" for the pairs of a block; `outputs` are the nodes after it."""

    nodes: Float[Tensor, "p n m"]
    queries: Float[Tensor, "p q m"]
    edges: Float[Tensor, "p q n"]
    mixed: Float[Tensor, "p q m"]
    outputs: Float[Tensor, "p q m"]


class _Reasoning(Function):
    """E = softmax((𝒩 Aᵀ + a) 𝒩ᵀ),   𝒩 ← ReLU(E 𝒩 Wᵀ + b), several times, the last time for the first `rows` nodes.

    Backwards, with gradient g before the ReLU:   dW = gᵀ E𝒩,   dE = g W 𝒩ᵀ,   dL = E (dE − Σ E dE),
    dQ = dL 𝒩,   dA = dQᵀ 𝒩,   d𝒩 = Eᵀ g W + dLᵀ Q + dQ A,   where Q = 𝒩 Aᵀ + a. The steps of a block are computed
    again, not stored.
    """

    @staticmethod
    def forward(ctx, nodes, mask, rows, *weights):
        ctx.rows = rows
        ctx.save_for_backward(nodes, mask, *weights)
        out = nodes.new_empty(*nodes.shape[:2], rows, nodes.shape[3])
        with torch.autocast("cpu", enabled=False):
            for part, block, hidden in _blocks(nodes, mask):
                out[part] = _steps(block, hidden, rows, weights)[-1].outputs.view_as(out[part])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        nodes, mask, *weights = ctx.saved_tensors
        of_nodes, of_weights = torch.empty_like(nodes), [torch.zeros_like(w) for w in weights]
        with torch.autocast("cpu", enabled=False):
            for part, block, hidden in _blocks(nodes, mask):
                g = grad[part].flatten(0, 1)
                steps = _steps(block, hidden, ctx.rows, weights)
                for number in reversed(range(len(steps))):
                    own = slice(4 * number, 4 * number + 4)
                    g = _back(steps[number], g, weights[own], of_weights[own])
                of_nodes[part] = g.view_as(of_nodes[part])
        return of_nodes, None, None, *of_weights


def reasoning(
    nodes: Float[Tensor, "i t n m"], mask: Bool[Tensor, "..."], rows: int, weights: list[Tensor]
) -> Float[Tensor, "i t r m"]:
    """The first `rows` nodes of each pair after all steps; weights: A, a, W, b of each step, one after another.

    mask: broadcast to "i t n". Only first derivatives are defined, and only the nodes are stored for them.
    Source: SGRAF, eq. 6–8.
    """
    return _Reasoning.apply(nodes, mask, rows, *weights)


def _blocks(nodes: Tensor, mask: Tensor):
    """(which images, their pairs "p n m", what is padding in them "p 1 n" or None)."""
    n, m = nodes.shape[2:]
    size = max(1, _ELEMENTS // nodes[0].numel())
    padded = not mask.all()
    for start in range(0, len(nodes), size):
        part = slice(start, min(start + size, len(nodes)))
        block = nodes[part]
        hidden = None
        if padded:
            hidden = ~(mask[part] if len(mask) > 1 else mask).expand(*block.shape[:2], n).reshape(-1, 1, n)
        yield part, block.reshape(-1, n, m), hidden


def _steps(nodes: Tensor, hidden: Tensor | None, rows: int, weights: tuple[Tensor, ...]) -> list[_Step]:
    steps = []
    for number in range(0, len(weights), 4):
        a, shift, w, bias = weights[number : number + 4]
        sources = nodes if number + 4 < len(weights) else nodes[:, :rows]
        queries = F.linear(sources, a, shift)
        logits = _products(queries, nodes)
        if hidden is not None:
            logits.masked_fill_(hidden, torch.finfo(logits.dtype).min)
        edges = logits.softmax(-1)
        mixed = torch.bmm(edges, nodes)
        steps.append(_Step(nodes, queries, edges, mixed, F.linear(mixed, w, bias).relu_()))
        nodes = steps[-1].outputs
    return steps


def _back(step: _Step, grad: Tensor, weights: list[Tensor], totals: list[Tensor]) -> Float[Tensor, "p n m"]:
    """The gradient towards the nodes that a step began with; those towards its weights are added to `totals`."""
    nodes, queries, edges, mixed, outputs = step
    a, _, w, _ = weights
    of_a, of_shift, of_w, of_bias = totals
    rows = queries.shape[1]
    g = torch.ops.aten.threshold_backward(grad, outputs, 0)
    flat = g.flatten(0, 1)
    of_w.addmm_(flat.T, mixed.flatten(0, 1))
    of_bias.add_(flat.sum(0))
    g = torch.mm(flat, w).view_as(g)
    of_edges = _products(g, nodes)
    of_nodes = torch.bmm(edges.transpose(1, 2), g)
    of_logits = of_edges.sub_(torch.linalg.vecdot(of_edges, edges).unsqueeze(-1)).mul_(edges)
    of_queries = torch.bmm(of_logits, nodes)
    of_nodes.baddbmm_(of_logits.transpose(1, 2), queries)
    flat = of_queries.flatten(0, 1)
    of_a.addmm_(flat.T, nodes[:, :rows].reshape(len(flat), -1))
    of_shift.add_(flat.sum(0))
    if rows == nodes.shape[1]:
        of_nodes.view(len(flat), -1).addmm_(flat, a)
    else:
        of_nodes[:, :rows].add_(torch.mm(flat, a).view_as(queries))
    return of_nodes


def _products(x: Float[Tensor, "p q m"], nodes: Float[Tensor, "p n m"]) -> Float[Tensor, "p q n"]:
    """x 𝒩ᵀ of each pair. A single row is many small sums, which a batch of matrix products does slowly."""
    if x.shape[1] == 1:
        return torch.linalg.vecdot(x, nodes)[:, None]
    return torch.bmm(x, nodes.transpose(1, 2))
