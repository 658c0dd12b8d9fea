"""Losses of a score matrix, regularisers of representations, and the objective that adds them up. All take plain
tensors."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "InfoNCE": "infonce", "PairwiseSigmoid": "siglip", "hinge_triplet": "triplet",
        "soft_contrastive": "soft_contrastive", "pseudo_positive_matching": "pseudo_positives",
        "pseudo_positives": "pseudo_positives",
        "AdaptiveClustering": "adaptive_clustering", "gram_diversity": "diversity", "pairwise_diversity": "diversity",
        "mmd": "mmd", "kl_to_normal": "gaussian", "uniformity": "gaussian",
        "mean_kl_to_normal": "gaussian",
        "Objective": "objective",
    },
)  # fmt: skip
