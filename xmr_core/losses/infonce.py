"""InfoNCE, with several positives per row or degrees of matching, and SigLIP's loss."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from xmr_core.base.errors import require_flag, require_number
from xmr_core.losses.checks import check_scores, positive_pairs


class InfoNCE(nn.Module):
    """Contrastive cross-entropy of every row and of every column of a score matrix, averaged over both.

    Boolean match: the mean over positive pairs (i, p) of −log( e^{s_ip/τ} / (e^{s_ip/τ} + Σ_{n not matching i}
        e^{s_in/τ}) ). Another positive of the same row is neither target nor negative for the pair. With one positive
        per row this is the cross-entropy of CLIP.
    Degrees m in [0, 1]: the mean over rows with Σ_j m_ij > 0 of −Σ_j p_ij log softmax_j(s_ij/τ), p_ij = m_ij / Σ_j
        m_ij. With one positive of degree 1 per row this is the same.

    Args: temperature: τ > 0 at the start. learned: train log(1/τ). max_scale: bound of 1/τ.
    Raises: BadInput for a temperature below 1/max_scale or not finite, inputs that do not fit, no positive pair.
    Source: van den Oord et al. 2018; the multi-positive form is ours (docs/methods/vse_2ad.md).

    >>> import torch
    >>> scores, match = torch.eye(3), torch.eye(3, dtype=torch.bool)
    >>> loss = InfoNCE(temperature=1.0)
    >>> torch.allclose(loss(scores, match), loss(scores, match.float()))
    True
    """

    def __init__(self, temperature: float = 0.05, learned: bool = True, max_scale: float = 100.0):
        super().__init__()
        require_number("max_scale", max_scale, above=0)
        require_flag("learned", learned)
        require_number("temperature", temperature, low=1 / max_scale, hint="The smallest is 1/max_scale.")
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)), requires_grad=learned)
        self.max_scale = max_scale

    def forward(
        self, scores: Float[Tensor, "i t"], match: Bool[Tensor, "i t"] | Float[Tensor, "i t"]
    ) -> Float[Tensor, ""]:
        scores, match = check_scores(scores, match)
        # bound the number itself, not its exponential: a clamp in the graph has no slope to come back on
        if self.training:
            with torch.no_grad():
                self.log_scale.clamp_(max=math.log(self.max_scale))
        scaled = scores * self.log_scale.exp()
        one_way = _pairs_one_way if match.dtype == torch.bool else _degrees_one_way
        return (one_way(scaled, match) + one_way(scaled.T, match.T)) / 2


def _pairs_one_way(scaled: Tensor, match: Tensor) -> Tensor:
    row, column = positive_pairs(match)
    positive = scaled[row, column]
    negatives = scaled.masked_fill(match, -torch.inf).logsumexp(1)[row]  # −inf where there are none
    return nn.functional.softplus(negatives - positive).mean()


def _degrees_one_way(scaled: Tensor, match: Tensor) -> Tensor:
    rows = positive_pairs(match > 0)[0].unique()
    target = match[rows].to(scaled.dtype)
    return nn.functional.cross_entropy(scaled[rows], target / target.sum(1, keepdim=True))


# SigLIP's loss: a yes or no for every pair of a batch, with a learned scale and bias.


class PairwiseSigmoid(nn.Module):
    """Binary cross-entropy of every pair on its logit z = e^{t′} s + b, divided by the number of positive pairs.

    L = 1/N₊ Σ_ij [m_ij softplus(−z_ij) + (1 − m_ij) softplus(z_ij)],   N₊ = Σ_ij m_ij

    With one caption per image N₊ is the number of images B, and this is the paper's loss. Several captions of one image
    are so many positives: no row has to choose between them.

    Args: temperature: 1/e^{t′} > 0 at the start (SigLIP: 0.1). bias: b at the start (SigLIP: −10, which suits batches
            of 20,000). None sets it at the first training step, so that the mean logit is the log-odds of a positive
            in that batch, log(p / (1 − p)) with p = N₊/(images × captions): similarities differ in where their scores
            lie, and a wrong bias costs hundreds of steps. learned: train t′ and b. max_scale: bound of e^{t′}.
    Shapes: scores "i t", match "i t" Boolean or degrees in [0, 1] → a number.
    Raises: BadInput for a temperature below 1/max_scale or not finite, a bias that is not finite, inputs that do not
        fit, no positive pair.
    Source: Zhai et al., ICCV 2023 (SigLIP), eq. 1; the form for several positives is ours (docs/methods/objectives.md).

    >>> import torch
    >>> loss = PairwiseSigmoid(temperature=1.0, bias=0.0)
    >>> round(loss(torch.zeros(2, 2), torch.eye(2, dtype=torch.bool)).item(), 4)  # two pairs of log 2 for each positive
    1.3863
    """

    def __init__(
        self, temperature: float = 0.1, bias: float | None = None, learned: bool = True, max_scale: float = 100.0
    ):
        super().__init__()
        require_number("max_scale", max_scale, above=0)
        require_number("temperature", temperature, low=1 / max_scale)
        require_flag("learned", learned)
        if bias is not None:
            require_number("bias", bias)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)), requires_grad=learned)
        self.bias = nn.Parameter(torch.tensor(float(bias or 0.0)), requires_grad=learned)
        self.register_buffer("bias_is_set", torch.tensor(bias is not None))
        self.max_scale = max_scale

    def forward(
        self, scores: Float[Tensor, "i t"], match: Bool[Tensor, "i t"] | Float[Tensor, "i t"]
    ) -> Float[Tensor, ""]:
        scores, match = check_scores(scores, match)
        positive_pairs(match > 0)  # refuses a batch without any
        target = match.to(scores.dtype)
        if self.training:
            with torch.no_grad():
                self.log_scale.clamp_(max=math.log(self.max_scale))  # the number itself, as in InfoNCE
                if not self.bias_is_set and target.mean() < 1:  # a batch without negatives says nothing of their share
                    self.bias.copy_(target.mean().logit(eps=1e-6) - self.log_scale.exp() * scores.mean())
                    self.bias_is_set.fill_(True)
        logits = scores * self.log_scale.exp() + self.bias
        return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / target.sum()
