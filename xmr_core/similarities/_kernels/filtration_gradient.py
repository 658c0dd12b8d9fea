"""A weighted mean of the nodes of many pairs, where the weights come from the nodes, with its gradient by formula."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from xmr_core.similarities._kernels.attention_blocks import parts_of

_ELEMENTS = 200_000  # of the nodes of a block: 0.8 MB in float32


class _Filtered(Function):
    """Σ_n β_n 𝒩_n with β = trust(𝒩 w + b).

    Backwards, with gradient g:   dβ_n = g · 𝒩_n,   dv by autograd from β(v),   d𝒩_n = β_n g + dv_n w. The arrays of
    autograd have one number for a node; those of its width are passed over once.
    """

    @staticmethod
    def forward(ctx, nodes, weight, bias, trust, *parameters):
        with torch.autocast("cpu", enabled=False):
            values = torch.cat([nodes[part] @ weight for part in _parts(nodes)]).add_(bias).requires_grad_()
            with torch.enable_grad():
                beta = trust(values)
            weights = beta.detach()
            out = torch.cat([(weights[part][..., None, :] @ nodes[part]).squeeze(-2) for part in _parts(nodes)])
        ctx.graph = values, beta, parameters
        ctx.save_for_backward(nodes, weight, weights)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        nodes, weight, weights = ctx.saved_tensors
        values, beta, parameters = ctx.graph
        of_nodes, of_weight, parts = torch.empty_like(nodes), torch.zeros_like(weight), _parts(nodes)
        with torch.autocast("cpu", enabled=False):
            of_beta = torch.cat([torch.linalg.vecdot(nodes[part], grad[part][..., None, :]) for part in parts])
            learned = [p for p in parameters if p.requires_grad]
            of_values, *rest = torch.autograd.grad(beta, (values, *learned), of_beta, retain_graph=True)
            of_parameters = [rest.pop(0) if p.requires_grad else None for p in parameters]
            for part in parts:
                v, g = of_values[part], grad[part][..., None, :]
                of_weight.addmv_(nodes[part].reshape(-1, len(weight)).T, v.flatten())
                torch.mul(weights[part][..., None], g, out=of_nodes[part]).addcmul_(v[..., None], weight)
        return of_nodes, of_weight, of_values.sum(), None, *of_parameters


def filtered(
    nodes: Float[Tensor, "i t n m"],
    layer: torch.nn.Linear,
    trust: Callable[[Float[Tensor, "i t n"]], Float[Tensor, "i t n"]],
    parameters: tuple[Tensor, ...],
) -> Float[Tensor, "i t m"]:
    """Σ_n β_n 𝒩_n with β = trust(layer(𝒩)); parameters: those that `trust` reads.

    `trust` is called once. Only first derivatives are defined. Source: SGRAF, eq. 9.
    """
    return _Filtered.apply(nodes, layer.weight[0], layer.bias[0], trust, *parameters)


def _parts(nodes: Tensor) -> list[slice]:
    """Which images are taken at a time."""
    return parts_of(len(nodes), max(1, _ELEMENTS // nodes[0].numel()))
