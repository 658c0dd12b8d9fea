"""Ways to read one vector out of the nodes of a pair: attention filtration, and the plain mean."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.masked import masked_mean
from xmr_core.similarities._kernels.attention_gradient import by_blocks
from xmr_core.similarities._kernels.filtration_gradient import filtered
from xmr_core.similarities.attend import EPS, unit


def linear(d_in: int, d_out: int) -> nn.Linear:
    """Xavier-uniform weight, zero bias, as SGRAF's authors start all of theirs."""
    layer = nn.Linear(d_in, d_out)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Filtration(nn.Module):
    """SAF: nodes weighted by how much they can be trusted.

        β = sigmoid(BN₁(𝒩 w_f + b)),   β ← β / (Σ|β| + 1e-8),   out = l2(Σ_n β_n 𝒩_n)

    BN₁ is BatchNorm with one channel. While training its statistics are those of one caption: over all images of the
    batch and all nodes of the pair; the running statistics follow caption after caption, as in the authors'
    loop, short captions before long ones where there are many.
    Shapes: nodes "i t n m", mask broadcast to "i t n" → "i t m". Source: SGRAF, eq. 9; the last l2 is in their code
    only (docs/differences.md#x-28).
    """

    def __init__(self, m: int):
        super().__init__()
        self.weigh, self.norm = linear(m, 1), nn.BatchNorm1d(1)

    def forward(self, nodes: Float[Tensor, "i t n m"], mask: Tensor) -> Float[Tensor, "i t m"]:
        if by_blocks(nodes, *self.parameters()):
            own = self.norm.weight, self.norm.bias
            return unit(filtered(nodes, self.weigh, lambda values: self._trust(values, mask), own))
        return unit((self.weights(nodes, mask)[..., None] * nodes).sum(-2))

    def score(self, nodes: Float[Tensor, "i t n m"], mask: Tensor) -> Float[Tensor, "i t m"]:
        """The same in one pass over the nodes, whose gradient would be slow."""
        return unit((self.weights(nodes, mask)[..., None, :] @ nodes).squeeze(-2))

    def weights(self, nodes: Float[Tensor, "i t n m"], mask: Tensor) -> Float[Tensor, "i t n"]:
        """β: what each word (node 0: the global vectors) counts in a pair, for visualisation; 0 on padding."""
        return self._trust(self.weigh(nodes).squeeze(-1), mask)

    def _trust(self, values: Float[Tensor, "i t n"], mask: Tensor) -> Float[Tensor, "i t n"]:
        """β from 𝒩 w_f + b."""
        trust = torch.where(mask, self._normalised(values, mask).sigmoid(), 0.0)
        return trust / (trust.sum(-1, keepdim=True) + EPS)

    def _normalised(self, x: Float[Tensor, "i t n"], mask: Tensor) -> Float[Tensor, "i t n"]:
        bn = self.norm
        if self.training:
            valid = mask.expand_as(x)
            count = valid.sum((0, 2))  # per caption
            mean = torch.where(valid, x, 0.0).sum((0, 2)) / count
            variance = torch.where(valid, x - mean[None, :, None], 0.0).square().sum((0, 2)) / count
            self._follow(mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
            mean, variance = mean[None, :, None], variance[None, :, None]
        else:
            mean, variance = bn.running_mean, bn.running_var
        return (x - mean) / (variance + bn.eps).sqrt() * bn.weight + bn.bias

    def _follow(self, means: Float[Tensor, " t"], variances: Float[Tensor, " t"]) -> None:
        """t updates r ← (1 − μ) r + μ s in closed form: earlier captions have been damped more often."""
        bn, t = self.norm, len(means)
        damped = (1 - bn.momentum) ** torch.arange(t, -1, -1, device=means.device, dtype=means.dtype)
        for running, new in ((bn.running_mean, means), (bn.running_var, variances)):
            running.copy_(damped[0] * running + bn.momentum * (damped[1:] * new).sum())
        bn.num_batches_tracked += t


class Average(nn.Module):
    """The mean over real nodes: of similarity vectors, or of the logistic score of each (SGRAF, Table 4, "AA")."""

    def forward(self, nodes: Float[Tensor, "i t n m"], mask: Tensor) -> Float[Tensor, "i t m"]:
        return masked_mean(nodes, mask[..., None], dim=-2)
