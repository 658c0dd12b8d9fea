"""PCME++'s loss: every pair is asked whether it matches, and pairs that look as good as the match count too."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.checks import require_number
from xmr_core.base.errors import BadInput
from xmr_core.losses.checks import check_scores


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
