"""Similarities: two representations in, scores[image, caption] out, larger is more alike.

Each is a class (`SmoothChamfer`, a `Similarity` with everything that a method, an evaluation and an explanation ask of
it) and, where it has no weights, a plain function too (`smooth_chamfer`, for everyday use). All take plain tensors.
"""

from xmr_core.similarities.base import Contributions, FunctionSimilarity, Similarity, as_similarity
from xmr_core.similarities.chan import Chan, chan
from xmr_core.similarities.gaussian import DISTANCES, DistanceLogit, GaussianDistance, MatchLogit, distances_of
from xmr_core.similarities.maxsim import SumMax, sum_max
from xmr_core.similarities.nested import Truncated, Nested
from xmr_core.similarities.scan import Scan, scan, scan_attention
from xmr_core.similarities.sets import (
    Chamfer, EuclideanSmoothChamfer, MatchProbability, MaxPairwise, SmoothChamfer, chamfer,
    euclidean_smooth_chamfer, max_pairwise, smooth_chamfer,
)  # fmt: skip
from xmr_core.similarities.sgraf import JointSgraf, Sgraf
from xmr_core.similarities.vectors import Cosine, Order, cosine, order

__all__ = [
    "DISTANCES", "Chamfer", "Chan", "Contributions", "Cosine", "DistanceLogit", "EuclideanSmoothChamfer",
    "FunctionSimilarity", "GaussianDistance", "JointSgraf", "MatchLogit", "MatchProbability", "MaxPairwise",
    "Nested", "Order", "Scan", "Sgraf", "Similarity", "SmoothChamfer", "SumMax", "Truncated", "as_similarity",
    "chamfer", "chan", "cosine", "distances_of", "euclidean_smooth_chamfer", "max_pairwise", "order", "scan",
    "scan_attention", "smooth_chamfer", "sum_max",
]  # fmt: skip
