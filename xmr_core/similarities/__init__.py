"""Similarities: two representations in, scores[image, caption] out, larger is more alike.

Each is a class (`SmoothChamfer`, a `Similarity` with everything that a method, an evaluation and an explanation ask of
it) and, where it has no weights, a plain function too (`smooth_chamfer`, for everyday use). All take plain tensors.
"""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "Similarity": "base", "FunctionSimilarity": "functions", "Contributions": "base", "as_similarity": "functions",
        "Cosine": "cosine", "cosine": "cosine", "Order": "order", "order": "order",
        "SmoothChamfer": "chamfer", "smooth_chamfer": "chamfer", "Chamfer": "chamfer", "chamfer": "chamfer",
        "EuclideanSmoothChamfer": "euclidean", "euclidean_smooth_chamfer": "euclidean",
        "Nested": "nested", "Cut": "nested",
        "MaxPairwise": "mil", "max_pairwise": "mil", "MatchProbability": "match_probability",
        "Scan": "scan", "scan": "scan", "scan_attention": "scan", "SumMax": "sum_max", "sum_max": "sum_max",
        "Chan": "chan", "chan": "chan",
        "Sgraf": "sgraf", "JointSgraf": "sgraf_joint",
        "MatchLogit": "match_logit", "GaussianDistance": "distances", "DistanceLogit": "distances",
        "DISTANCES": "distances", "distances_of": "distances",
    },
)  # fmt: skip
