"""The bidirectional triplet hinge, with every mining and reduction of the papers."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.errors import BadInput, require_number
from xmr_core.losses.checks import check_scores, positive_pairs

MINING = ("hardest", "all", "semi-hard")
REDUCTIONS = ("sum", "mean", "batch_mean")


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
        raise BadInput(
            f"mining must be one of {MINING} and reduction one of {REDUCTIONS}; got {mining!r}, {reduction!r}."
        )
    return _one_way(scores, match, margin, mining, reduction) + _one_way(scores.T, match.T, margin, mining, reduction)


def _one_way(scores: Tensor, match: Tensor, margin: float, mining: str, reduction: str) -> Tensor:
    row, column = positive_pairs(match)
    positive = scores[row, column]  # p
    if mining == "hardest":
        hardest = scores.masked_fill(match, -torch.inf).amax(1)  # i; −inf where a row has no negative
        cost = (margin + hardest[row] - positive).relu()
        if reduction == "sum":
            return cost.sum()
        return cost.sum() / (len(cost) if reduction == "mean" else len(scores))
    negative = ~match[row]  # p t
    cost = torch.where(negative, margin + scores[row] - positive[:, None], 0.0).relu()
    if mining == "semi-hard":
        cost = cost.clamp(max=margin)
        return cost.sum() / ((cost > 0).sum().clamp(min=1) if reduction == "mean" else 1)
    if reduction == "sum":
        return cost.sum()
    return cost.sum() / (negative.sum().clamp(min=1) if reduction == "mean" else match.numel())
