"""Keeping the elements of a set apart."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def gram_diversity(residual: Float[Tensor, "n k d"]) -> Float[Tensor, ""]:
    """Mean over items of ‖R̂R̂ᵀ − diag‖_F / K², R̂ the rows at unit length; 0 for K = 1.

    Source: PVSE (Song & Soleymani, CVPR 2019), the norm not squared; METHODS §3.
    """
    k = residual.shape[1]
    if k == 1:
        return residual.new_zeros(())
    unit = F.normalize(residual, dim=-1)
    gram = (unit @ unit.transpose(1, 2)).masked_fill(torch.eye(k, dtype=torch.bool, device=residual.device), 0.0)
    return (gram.square().sum((1, 2)).clamp(min=1e-24).sqrt() / k**2).mean()


def pairwise_diversity(residual: Float[Tensor, "n k d"], t: float = 2.0, form: str = "official") -> Float[Tensor, ""]:
    """Mean over items and pairs a < b of e^{−t‖p̂_a − p̂_b‖²}, p̂ at unit length; 0 for K = 1. In (0, 1], smaller is more diverse.

    form 'paper': the sum over ordered pairs a ≠ b of rows as they are, mean over items (X-47; its weight is not 0.01).
    Source: DivE (Kim et al., CVPR 2023); METHODS §9.4.
    """
    k = residual.shape[1]
    if k == 1:
        return residual.new_zeros(())
    rows = F.normalize(residual, dim=-1) if form == "official" else residual
    a, b = torch.triu_indices(k, k, offset=1, device=residual.device)
    near = (-t * (rows[:, a] - rows[:, b]).square().sum(-1)).exp()  # n pairs
    return near.mean() if form == "official" else 2 * near.sum(1).mean()
