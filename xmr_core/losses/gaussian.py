"""Losses and regularisers of distributions: PCME's and PCME++'s."""

import math
import warnings

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.errors import BadInput, require_choice, require_number
from xmr_core.base.tensors import as_gaussians, may_branch, samples_of
from xmr_core.base.types import GaussianEmbedding
from xmr_core.losses.scores import check_scores

REDUCTIONS = ("sum", "mean")


def soft_contrastive(
    scores: Float[Tensor, "i t"], match: Bool[Tensor, "i t"] | Float[Tensor, "i t"], reduction: str = "sum"
) -> Float[Tensor, ""]:
    """Binary cross-entropy of log-odds: Σ over pairs of −m log p − (1 − m) log(1 − p), m = 1 where they match and 0
    where they do not.

    Args: scores: log-odds of a match (similarities.MatchLogit). match: Boolean, or degrees m in [0, 1]. reduction:
        'sum', counted twice as in the authors' code, once for the image and once for the caption
        (docs/differences.md#x-12); 'mean' over pairs, for a learning rate that does not depend on the size of the
        batch.
    Raises: BadInput for an unknown reduction, scores and match of different shapes, or degrees outside [0, 1].
    Source: Chun et al., CVPR 2021 (PCME), eq. 4.

    >>> import torch
    >>> soft_contrastive(torch.zeros(2, 2), torch.eye(2, dtype=torch.bool), reduction="mean")
    tensor(0.6931)
    """
    require_choice("reduction", reduction, REDUCTIONS)
    scores, match = check_scores(scores, match)
    loss = F.binary_cross_entropy_with_logits(scores, match.to(scores.dtype), reduction=reduction)
    return 2 * loss if reduction == "sum" else loss


# PCME++'s loss: every pair is asked whether it matches, and pairs that look as good as the match count too.


def pseudo_positives(scores: Float[Tensor, "q c"], degrees: Float[Tensor, "q c"]) -> Float[Tensor, "q c"]:
    """Degrees of matching in which a candidate that scores no lower than the query's match has the match's degree.

    j* = argmax_j m_qj (the first of equals),   m′_qj = m_qj* where s_qj ≥ s_qj*, else m_qj

    Where several candidates match to the same degree, the first of them is the reference, so their order matters.
    The match is the reference also where another candidate had a degree of its own (docs/differences.md#x-80, #x-81).
    Raises: BadInput for inputs that do not fit.
    Source: Chun, ICLR 2024 (PCME++), §3.3; docs/methods/pcmepp.md.

    >>> import torch
    >>> pseudo_positives(torch.tensor([[0.5, 0.9, 0.1]]), torch.tensor([[1.0, 0.0, 0.0]]))
    tensor([[1., 1., 0.]])
    """
    scores, degrees = check_scores(scores, degrees)
    degrees = degrees.to(scores.dtype)
    best = degrees.argmax(1, keepdim=True)
    return torch.where(scores >= scores.gather(1, best), degrees.gather(1, best), degrees)


def pseudo_positive_matching(
    scores: Float[Tensor, "i t"],
    match: Bool[Tensor, "i t"] | Float[Tensor, "i t"],
    pseudo: float = 0.1,
    smoothing: float = 1e-4,
) -> Float[Tensor, ""]:
    """L = 2 BCE(z, y) + α [BCE(z, y′) + BCE(z, y″)],   y = ε + (1 − 2ε) m, each BCE a mean over all pairs.

    y′ are the degrees y with the pseudo-positives of every image among the captions, y″ with those of every caption
    among the images. The first term counts twice, as in the authors' code.
    Args: scores: log-odds z of a match (similarities.DistanceLogit). match: Boolean, or degrees m in [0, 1], as mixed
        images have them. pseudo: α ≥ 0. smoothing: ε in [0, 0.5).
    Raises: BadInput for numbers out of range or inputs that do not fit.
    Source: Chun, ICLR 2024 (PCME++), §3.3; reductions as in the code (docs/differences.md#x-78).

    >>> import torch
    >>> pseudo_positive_matching(torch.zeros(2, 2), torch.eye(2, dtype=torch.bool), pseudo=0.0)
    tensor(1.3863)
    """
    require_number("pseudo", pseudo, low=0)
    require_number("smoothing", smoothing, low=0)
    if smoothing >= 0.5:
        raise BadInput(f"smoothing must be below 0.5, or a match would count less than none; got {smoothing!r}.")
    scores, match = check_scores(scores, match)
    degrees = smoothing + (1 - 2 * smoothing) * match.to(scores.dtype)
    loss = 2 * F.binary_cross_entropy_with_logits(scores, degrees)
    if pseudo:
        for z, y in ((scores, degrees), (scores.T, degrees.T)):
            loss = loss + pseudo * F.binary_cross_entropy_with_logits(z, pseudo_positives(z, y))
    return loss


# Regularisers of distributions: PCME's two, and that of PCME++.


FORMS = ("official", "exact")
_MOST_PAIRS, _DRAWN = 16_384, 128  # of the authors' uniformity: above so many pairs, so many points are drawn


def kl_to_normal(images: GaussianEmbedding, captions: GaussianEmbedding, form: str = "official") -> Float[Tensor, ""]:
    """Σ over both modalities, items and dimensions of the divergence from N(0, 1).

    exact: ½ [μ² + σ² − 1 − 2 log σ]. official: ½ [m̄² + e^s − 1 − s] with m̄ the mean of the samples and s = log σ
    taken for a log-variance (docs/differences.md#x-13).
    Raises: BadInput for another form, or for distributions without samples in the official one.
    Source: PCME, eq. 8 ("VIB").

    >>> import torch
    >>> normal = GaussianEmbedding(mean=torch.zeros(1, 3), log_std=torch.zeros(1, 3))
    >>> kl_to_normal(normal, normal, "exact")
    tensor(0.)
    """
    require_choice("form", form, FORMS)
    total = 0.0
    for items, what in ((images, "image"), (captions, "caption")):
        items = as_gaussians(items, what)
        mean = samples_of(items, what).mean(1) if form == "official" else items.mean
        s = items.log_std if form == "official" else 2 * items.log_std
        total = total + (mean.square() + s.exp() - 1 - s).sum() / 2
    return total


def mean_kl_to_normal(
    images: GaussianEmbedding, captions: GaussianEmbedding, most: float = math.inf
) -> Float[Tensor, ""]:
    """½ mean over items and dimensions of [μ² + σ² − 1 − log σ²], images plus captions: the divergence per dimension.

    Unlike `kl_to_normal`, its weight does not depend on batch size and width. most: a modality whose value is larger
    counts as 0, with a warning on a CPU, as in the authors' code (1e4 there); ∞ keeps every value.
    Raises: BadInput for other items than distributions.
    Source: Chun, ICLR 2024 (PCME++), the VIB loss; docs/differences.md#x-78, docs/differences.md#x-79.

    >>> import torch
    >>> items = GaussianEmbedding(mean=torch.ones(2, 3), log_std=torch.zeros(2, 3))
    >>> mean_kl_to_normal(items, items)
    tensor(1.)
    """
    total = 0.0
    for items, what in ((images, "image"), (captions, "caption")):
        items = as_gaussians(items, what)
        value = _mean_kl(items.mean, items.log_std)
        if most < math.inf:
            if may_branch(value) and value > most:
                warnings.warn(f"the divergence of the {what}s is {float(value):.3g} and is left out.", stacklevel=2)
            # N(0, 1) in its place, because a gradient of 0 does not silence one that is infinite
            value = _mean_kl(*(torch.where(value.detach() > most, 0.0, x) for x in (items.mean, items.log_std)))
        total = total + value
    return total


def _mean_kl(mean: Tensor, log_std: Tensor) -> Tensor:
    return (mean.square() + (2 * log_std).exp() - 1 - 2 * log_std).mean() / 2


def uniformity(
    images: GaussianEmbedding, captions: GaussianEmbedding, form: str = "official", t: float = 2.0
) -> Float[Tensor, ""]:
    """Samples of both modalities should spread out: small when exp(−t‖x − y‖²) is small for most pairs.

    official: log of the mean over unordered pairs, of 128 points drawn with replacement where there are more than
    16,384 pairs. exact (the paper): the sum over all ordered pairs, no logarithm (docs/differences.md#x-14). The
    paper's weight of 10 belongs to the official form.
    Raises: BadInput for another form, or distributions without samples.
    Source: PCME, eq. 9, after Wang & Isola, ICML 2020.

    >>> import torch
    >>> point = GaussianEmbedding(torch.zeros(1, 2), torch.zeros(1, 2), samples=torch.zeros(1, 2, 2))
    >>> uniformity(point, point)
    tensor(0.)
    """
    require_choice("form", form, FORMS)
    require_number("t", t, above=0)
    x, y = samples_of(images, "image"), samples_of(captions, "caption")
    points = torch.cat([x.flatten(0, 1), y.flatten(0, 1)])
    if form == "official" and len(points) ** 2 > _MOST_PAIRS:
        points = points[torch.randint(len(points), (_DRAWN,), device=points.device)]
    squares = torch.pdist(points).square()
    if form == "exact":
        return 2 * (-t * squares).exp().sum()
    return (-t * squares).logsumexp(0) - math.log(len(squares))
