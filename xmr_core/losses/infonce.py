"""InfoNCE with several positives per row."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.losses.checks import check_scores, positive_pairs


class InfoNCE(nn.Module):
    """Mean over positive pairs (i, p) of −log( e^{s_ip/τ} / (e^{s_ip/τ} + Σ_{n not matching i} e^{s_in/τ}) ), both ways averaged.

    Another positive of the same row is neither target nor negative for the pair. With one positive per row this is the
    cross-entropy of CLIP.

    Args: temperature: τ > 0 at the start. learned: train log(1/τ). max_scale: bound of 1/τ.
    Raises: BadInput for a temperature below 1/max_scale or not finite, mismatching inputs, no positive pair.
    Source: van den Oord et al. 2018; the multi-positive form is ours (METHODS §8 for its use in VSE+2AD).
    """

    def __init__(self, temperature: float = 0.05, learned: bool = True, max_scale: float = 100.0):
        super().__init__()
        if not 1 / max_scale <= temperature < math.inf:
            raise BadInput(f"temperature must be finite and at least 1/max_scale = {1 / max_scale:.3g}, got {temperature}.")
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)), requires_grad=learned)
        self.max_scale = max_scale

    def forward(self, scores: Float[Tensor, "i t"], match: Bool[Tensor, "i t"]) -> Float[Tensor, ""]:
        check_scores(scores, match)
        if self.training:  # bound the number itself, not its exponential: a clamp in the graph has no slope to come back on
            with torch.no_grad():
                self.log_scale.clamp_(max=math.log(self.max_scale))
        scores = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        scaled = scores * self.log_scale.exp()
        return (self._one_way(scaled, match) + self._one_way(scaled.T, match.T)) / 2

    @staticmethod
    def _one_way(scaled: Tensor, match: Tensor) -> Tensor:
        row, column = positive_pairs(match)
        positive = scaled[row, column]
        negatives = scaled.masked_fill(match, -torch.inf).logsumexp(1)[row]  # −inf where there are none
        return nn.functional.softplus(negatives - positive).mean()
