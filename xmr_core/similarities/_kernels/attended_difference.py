"""How a query differs from the vector that it attends to, for all pairs: the inner loop of SGRAF, with its gradient."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from xmr_core.similarities.attend import EPS


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
