"""PCME's loss: every pair of a batch is asked whether it matches."""

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.checks import require_choice
from xmr_core.losses.checks import check_scores

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
