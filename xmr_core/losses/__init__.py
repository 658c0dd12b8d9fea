"""Losses of a score matrix, regularisers of representations, and the objective that adds them up. All take plain
tensors."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "InfoNCE": "infonce", "hinge_triplet": "triplet", "soft_contrastive": "soft_contrastive",
        "AdaptiveClustering": "adaptive_clustering", "gram_diversity": "diversity", "pairwise_diversity": "diversity",
        "mmd": "mmd", "kl_to_normal": "gaussian", "uniformity": "gaussian",
        "Objective": "objective",
    },
)  # fmt: skip
