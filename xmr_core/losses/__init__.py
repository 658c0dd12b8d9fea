"""Losses of a score matrix, regularisers of representations, and the objective that adds them up. All take plain
tensors."""

from xmr_core.losses.adaptive_clustering import AdaptiveClustering
from xmr_core.losses.gaussian import (
    kl_to_normal, mean_kl_to_normal, pseudo_positive_matching, pseudo_positives, soft_contrastive, uniformity,
)  # fmt: skip
from xmr_core.losses.objective import Objective
from xmr_core.losses.regularisers import gram_diversity, mmd, pairwise_diversity
from xmr_core.losses.scores import InfoNCE, PairwiseSigmoid, hinge_triplet

__all__ = [
    "AdaptiveClustering", "InfoNCE", "Objective", "PairwiseSigmoid", "gram_diversity", "hinge_triplet",
    "kl_to_normal", "mean_kl_to_normal", "mmd", "pairwise_diversity", "pseudo_positive_matching",
    "pseudo_positives", "soft_contrastive", "uniformity",
]  # fmt: skip
