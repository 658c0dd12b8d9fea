"""Similarity graph reasoning: the nodes of a pair exchange what they know (SGRAF)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xmr_core.base.errors import BadInput
from xmr_core.base.masked import masked_mean, masked_softmax
from xmr_core.similarities._kernels.attention_gradient import by_blocks
from xmr_core.similarities._kernels.reasoning_gradient import reasoning
from xmr_core.similarities.filtration import linear

_BLOCK = 1_000_000  # elements of the nodes that reason at a time; a step makes about five arrays of that size
_STORED = 4_000_000  # up to so many elements are stored for the backward pass; of more, blocks are computed twice


class GraphReasoning(nn.Module):
    """SGR: nodes exchange what they know, N times, with weights of their own each time; node 0 is read in the end.

        E = softmax_rows((𝒩 W_q + b_q)(𝒩 W_k + b_k)ᵀ),   𝒩 ← ReLU(E 𝒩 W_r + b_r)

    There is no 1/√m. Without a global node the mean of the nodes is read. E needs one product with 𝒩 instead of two,
    because what b_k adds is the same for all nodes that a node attends to, and the softmax does not see it:

        E = softmax_rows((𝒩 A + a) 𝒩ᵀ),   A = W_q W_kᵀ,   a = b_q W_kᵀ

    In the last step only the node that is read is computed. Blocks of images are recomputed in the backward pass where
    there are many, so that the intermediates of one block stand at a time.
    Shapes: nodes "i t n m", mask broadcast to "i t n" → "i t m". Source: SGRAF, eq. 6–8.
    """

    def __init__(self, m: int, steps: int = 3, with_global: bool = True):
        super().__init__()
        if steps < 1:
            raise BadInput(f"graph reasoning needs at least 1 step, got {steps}. SGRAF uses 3.")
        self.steps = nn.ModuleList(
            nn.ModuleDict({k: linear(m, m) for k in ("query", "key", "graph")}) for _ in range(steps)
        )
        self.with_global = with_global

    def forward(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "i t m"]:
        if by_blocks(nodes, *self.parameters()):
            rows = 1 if self.with_global else nodes.shape[2]
            weights = [w for layers in self.steps for w in (*_query_weights(layers), *layers["graph"].parameters())]
            read = reasoning(nodes, mask, rows, weights)
            return read[:, :, 0] if self.with_global else masked_mean(read, mask[..., None], dim=-2)
        if nodes.numel() > _STORED:
            return torch.cat([checkpoint(self._read, *block, use_reentrant=False) for block in _blocks(nodes, mask)])
        return torch.cat([self._read(*block) for block in _blocks(nodes, mask)])

    def score(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "i t m"]:
        """The same without gradients."""
        return torch.cat([self._read(*block, step=_fast_step) for block in _blocks(nodes, mask)])

    def after_steps(self, nodes: Tensor, mask: Tensor) -> list[Float[Tensor, "i t n m"]]:
        """The nodes after each step, for visualisation."""
        out = []
        for layers in self.steps:
            nodes = _step(layers, nodes, nodes, mask)
            out.append(nodes)
        return out

    def weights(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "i t n"]:
        """How much node 0 attends to each node in the last step: row 0 of E there. Rows sum to 1, padding is 0."""
        if len(self.steps) > 1:
            nodes = self.after_steps(nodes, mask)[-2]
        last = self.steps[-1]
        return masked_softmax(
            (last["query"](nodes[..., :1, :]) @ last["key"](nodes).transpose(-1, -2))[..., 0, :], mask
        )

    def _read(self, nodes: Tensor, mask: Tensor, step=None) -> Float[Tensor, "i t m"]:
        step = step or _step
        *first, last = self.steps
        for layers in first:
            nodes = step(layers, nodes, nodes, mask)
        if self.with_global:
            return step(last, nodes[..., :1, :], nodes, mask)[..., 0, :]
        return masked_mean(step(last, nodes, nodes, mask), mask[..., None], dim=-2)


def _blocks(nodes: Tensor, mask: Tensor):
    size = max(1, _BLOCK // nodes[0].numel())
    masks = mask.split(size) if len(mask) > 1 else [mask] * len(nodes)
    return zip(nodes.split(size), masks, strict=False)


def _step(layers: nn.ModuleDict, queries: Tensor, nodes: Tensor, mask: Tensor) -> Tensor:
    """The query nodes, after they have attended to all nodes."""
    return layers["graph"](masked_softmax(_logits(layers, queries, nodes), mask[..., None, :]) @ nodes).relu()


def _fast_step(layers: nn.ModuleDict, queries: Tensor, nodes: Tensor, mask: Tensor) -> Tensor:
    """`_step` in fewer passes, without gradients."""
    logits = _logits(layers, queries, nodes)
    if not mask.all():
        logits = logits.masked_fill(~mask[..., None, :], torch.finfo(logits.dtype).min)
    return layers["graph"](logits.softmax(-1) @ nodes).relu_()


def _logits(layers: nn.ModuleDict, queries: Tensor, nodes: Tensor) -> Tensor:
    return nn.functional.linear(queries, *_query_weights(layers)) @ nodes.transpose(-1, -2)


def _query_weights(layers: nn.ModuleDict) -> tuple[Float[Tensor, "m m"], Float[Tensor, " m"]]:
    """Aᵀ and a of the docstring of GraphReasoning."""
    query, key = layers["query"], layers["key"]
    return key.weight.T @ query.weight, query.bias @ key.weight
