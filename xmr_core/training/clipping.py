"""Gradients that are kept from being too long."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


def clip_gradients(parameters: Iterable[nn.Parameter], most: float) -> Tensor:
    """Scale the gradients g of parameters in place, so that their common norm is at most `most`; gives the norm before:

        g ← g · min(1, most / (‖g‖ + 1e-6)),   ‖g‖ = √(Σ of all squares)

    Squares of numbers above 1e19 are infinite in float32, so on a CPU a norm that is not finite is computed again in
    float64, and long but finite gradients are clipped like any other. Elsewhere that look would wait for the device.

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3e25, 4e25])
    >>> clip_gradients([weight], 1.0).float(), weight.grad
    (tensor(5.0000e+25), tensor([0.6000, 0.8000]))
    """
    parameters = [parameter for parameter in parameters if parameter.grad is not None]
    norm = get_total_norm([parameter.grad for parameter in parameters])
    if norm.device.type == "cpu" and not norm.isfinite():
        norms = [torch.linalg.vector_norm(p.grad, dtype=torch.float64) for p in parameters]
        norm = torch.linalg.vector_norm(torch.stack(norms))
    clip_grads_with_norm_(parameters, most, norm)
    return norm
