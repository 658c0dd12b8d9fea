"""Losses of a score matrix: the triplet hinge, InfoNCE and SigLIP's loss; and what all losses ask of their input."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_flag, require_number
from xmr_core.base.tensors import as_floats, checking, single

LEFT_OUT = -1e4  # the score of a pair that is neither a positive nor a negative: no loss of scores sees it
MINING = ("hardest", "all", "semi-hard")
REDUCTIONS = ("sum", "mean", "batch_mean")
_DEGREES = "Degrees of matching are floats and must lie in [0, 1]."


def check_scores(
    scores: Float[Tensor, "i t"] | np.ndarray,
    match: Bool[Tensor, "i t"] | Float[Tensor, "i t"] | np.ndarray,
    soft: str = "",
) -> tuple[Float[Tensor, "i t"], Tensor]:
    """(scores, match) as tensors of one matrix shape, scores in float32 at least.

    match is Boolean, or a degree of matching in [0, 1] where the loss can express it. soft: '' where it can; otherwise
    why it cannot. Scores that nothing is trained from must be numbers; NaN in training is left to the training loop,
    which names the step.
    Raises: BadInput for anything else.
    """
    scores = single(as_floats(scores, "scores", 2))
    match = torch.as_tensor(match, device=scores.device)
    if match.shape != scores.shape:
        raise BadInput(f"scores {tuple(scores.shape)} and match {tuple(match.shape)} must have one shape.")
    if checking() and not scores.requires_grad and scores.isnan().any():
        raise BadInput("the score of an image and a caption is NaN.")
    if match.dtype != torch.bool:
        in_range = not checking() or ((match >= 0) & (match <= 1)).all()
        if soft or not match.is_floating_point() or not in_range:
            soft = f"{soft} InfoNCE, PairwiseSigmoid and soft_contrastive take degrees." if soft else _DEGREES
            raise BadInput(f"match must be Boolean, True where a caption describes an image; got {match.dtype}. {soft}")
        match = match.to(scores.dtype)
    return scores, match


def require_pair(match: Bool[Tensor, "i t"] | Float[Tensor, "i t"]) -> None:
    """Raise BadInput where nothing matches."""
    if checking() and not match.any():
        raise BadInput(f"no image of this batch matches a caption; match is {tuple(match.shape)}.")


def mean_of_pairs(values: Float[Tensor, "i t"], match: Bool[Tensor, "i t"]) -> Float[Tensor, ""]:
    """The mean over the matching pairs, by shapes alone: a list of the pairs would be as long as their number."""
    return torch.where(match, values, 0.0).sum() / match.sum()


def hinge_triplet(
    scores: Float[Tensor, "i t"],
    match: Bool[Tensor, "i t"],
    margin: float = 0.2,
    mining: str = "hardest",
    reduction: str = "sum",
) -> Float[Tensor, ""]:
    """Σ over positive pairs (i, p) and their negatives n of [δ + s_in − s_ip]₊, rows (i2t) plus columns (t2i).

    Negatives of a pair are the entries of its row (column) that do not match; a pair without negatives costs nothing.

    Args: margin: δ ≥ 0, in units of the scores. mining: 'hardest' keeps the largest negative of each pair; 'all' every
        negative; 'semi-hard' every negative, its cost clamped to [0, δ], so that only those inside the margin pull.
        reduction: 'sum' (VSE++, SCAN, SGRAF, VSE∞); 'mean' over positive pairs ('hardest'), over (positive, negative)
        pairs ('all') or over strictly positive costs ('semi-hard') per direction (DivE); 'batch_mean' divides by the
        number of rows (columns) for 'hardest' and by all entries of the matrix for 'all' (PVSE).
    Raises: BadInput for a wrong shape or type, no positive pair, a negative margin, an unknown mining or reduction.
    Source: Faghri et al., BMVC 2018; docs/methods/vsepp.md. Captions of the same image are positives, never negatives
        (docs/differences.md#x-62).

    >>> import torch
    >>> hinge_triplet(torch.tensor([[0.5, 0.4], [0.1, 0.9]]), torch.eye(2, dtype=torch.bool), margin=0.2)
    tensor(0.1000)
    """
    scores, match = check_scores(scores, match, soft="A hinge has no target for a pair that matches by half.")
    require_number("margin", margin, low=0)
    if mining not in MINING or reduction not in REDUCTIONS or (mining == "semi-hard" and reduction == "batch_mean"):
        raise BadInput(f"mining is one of {MINING}, reduction one of {REDUCTIONS}; got {mining!r}, {reduction!r}.")
    require_pair(match)
    return _hinge(scores, match, margin, mining, reduction) + _hinge(scores.T, match.T, margin, mining, reduction)


def _hinge(scores: Tensor, match: Tensor, margin: float, mining: str, reduction: str) -> Tensor:
    negatives = scores.masked_fill(match, -torch.inf)
    if mining == "hardest":
        # −inf where a row has no negative
        cost, count, entries = (margin + negatives.amax(1, keepdim=True) - scores).relu(), match.sum(), len(scores)
    else:
        cost, active = _excess(negatives, scores - margin)
        if mining == "semi-hard":  # min(cost, δ) = cost − [cost − δ]₊
            cost, counted = cost - _excess(negatives, scores)[0], active
        else:
            counted = (negatives > LEFT_OUT / 2).sum(1, keepdim=True).expand_as(match)
        count, entries = torch.where(match, counted, 0).sum().clamp(min=1), match.numel()
    return torch.where(match, cost, 0.0).sum() / {"sum": 1, "mean": count, "batch_mean": entries}[reduction]


def _excess(negatives: Float[Tensor, "i t"], limits: Float[Tensor, "i t"]) -> tuple[Tensor, Tensor]:
    """(Σ_n [s_n − l]₊, #{s_n > l}), each "i t", over the negatives of a row, for every limit l of the row. The first m
    of the sorted negatives are above a limit, and their sum less m · l is what they exceed it by: no array of pairs ×
    negatives is made."""
    ordered = negatives.sort(1, descending=True).values
    sums = F.pad(torch.where(ordered == -torch.inf, 0.0, ordered).cumsum(1), (1, 0))
    above = torch.searchsorted(-ordered.detach(), -limits.detach().contiguous())
    return torch.where(above > 0, sums.gather(1, above) - above * limits, 0.0), above


class _Scaled(nn.Module):
    """What InfoNCE and PairwiseSigmoid share: scores times e^{log_scale} = 1/τ, learned up to a bound."""

    def __init__(self, temperature: float, learned: bool, max_scale: float):
        super().__init__()
        require_number("max_scale", max_scale, above=0)
        require_flag("learned", learned)
        require_number("temperature", temperature, low=1 / max_scale, hint="The smallest is 1/max_scale.")
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)), requires_grad=learned)
        self.max_scale = max_scale

    def scale(self) -> Float[Tensor, ""]:
        """1/τ. In training the number itself is bound, not its exponential: a clamp in the graph has no slope to come
        back on."""
        if self.training:
            with torch.no_grad():
                self.log_scale.clamp_(max=math.log(self.max_scale))
        return self.log_scale.exp()


class InfoNCE(_Scaled):
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
        super().__init__(temperature, learned, max_scale)

    def forward(
        self, scores: Float[Tensor, "i t"], match: Bool[Tensor, "i t"] | Float[Tensor, "i t"]
    ) -> Float[Tensor, ""]:
        scores, match = check_scores(scores, match)
        scaled = scores * self.scale()
        require_pair(match)
        one_way = _pairs_one_way if match.dtype == torch.bool else _degrees_one_way
        return (one_way(scaled, match) + one_way(scaled.T, match.T)) / 2


def _pairs_one_way(scaled: Tensor, match: Tensor) -> Tensor:
    negatives = scaled.masked_fill(match, -torch.inf).logsumexp(1, keepdim=True)  # −inf where there are none
    return mean_of_pairs(F.softplus(negatives - scaled), match)


def _degrees_one_way(scaled: Tensor, match: Tensor) -> Tensor:
    total = match.sum(1, keepdim=True)
    shares = match / torch.where(total > 0, total, 1)
    return -(shares * scaled.log_softmax(1)).sum() / (total > 0).sum()


class PairwiseSigmoid(_Scaled):
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
        super().__init__(temperature, learned, max_scale)
        if bias is not None:
            require_number("bias", bias)
        self.bias = nn.Parameter(torch.tensor(float(bias or 0.0)), requires_grad=learned)
        self.register_buffer("bias_is_set", torch.tensor(bias is not None))

    def forward(
        self, scores: Float[Tensor, "i t"], match: Bool[Tensor, "i t"] | Float[Tensor, "i t"]
    ) -> Float[Tensor, ""]:
        scores, match = check_scores(scores, match)
        require_pair(match)
        target = match.to(scores.dtype)
        scale = self.scale()
        if self.training:
            with torch.no_grad():  # a batch without negatives says nothing of their share
                now = ~self.bias_is_set & (target.mean() < 1)
                inside = scores > LEFT_OUT / 2
                share, mean = target.sum() / inside.sum(), torch.where(inside, scores, 0.0).sum() / inside.sum()
                bias = share.logit(eps=1e-6) - scale * mean
                self.bias.copy_(torch.where(now, bias, self.bias))
                self.bias_is_set |= now
        logits = scores * scale + self.bias
        return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / target.sum()
