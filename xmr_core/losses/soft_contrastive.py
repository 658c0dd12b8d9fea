"""PCME's loss: every pair of a batch is asked whether it matches."""

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.errors import unknown
from xmr_core.losses.checks import check_scores

REDUCTIONS = ("sum", "mean")


def soft_contrastive(scores: Float[Tensor, "i t"], match: Bool[Tensor, "i t"], reduction: str = "sum") -> Float[Tensor, ""]:
    """Binary cross-entropy of log-odds: Σ over pairs of −log p where they match and −log(1 − p) where they do not.

    Args: scores: log-odds of a match (similarities.MatchLogit). reduction: 'sum', counted twice as in the authors' code,
        once from the image's and once from the caption's side (X-12); 'mean' over pairs, for a rate of learning that does
        not depend on the size of the batch.
    Raises: BadInput for an unknown reduction, or scores and match of different shapes.
    Source: Chun et al., CVPR 2021 (PCME), eq. 4.
    """
    if reduction not in REDUCTIONS:
        raise unknown("reduction", reduction, REDUCTIONS)
    check_scores(scores, match)
    loss = F.binary_cross_entropy_with_logits(scores, match.to(scores.dtype), reduction=reduction)
    return 2 * loss if reduction == "sum" else loss
