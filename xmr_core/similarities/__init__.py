"""Similarities: two representations in, scores[image, caption] out, larger is more alike.

Contract (tests/test_similarities.py): no state, block-separable, blind to padding, invariant to the order of elements, float64 when given
float64. Without gradients some take other paths to the same numbers (tests/test_scoring.py), because scoring is most of an evaluation.
"""

from functools import partial

from xmr_core.similarities.chamfer import chamfer, smooth_chamfer
from xmr_core.similarities.cosine import cosine
from xmr_core.similarities.euclidean import euclidean_smooth_chamfer
from xmr_core.similarities.gaussian import DISTANCES
from xmr_core.similarities.match_logit import MatchLogit
from xmr_core.similarities.match_probability import MatchProbability
from xmr_core.similarities.mil import max_pairwise
from xmr_core.similarities.order import order
from xmr_core.similarities.scan import scan, scan_attention, sum_max
from xmr_core.similarities.sgraf import Sgraf
from xmr_core.similarities.sgraf_joint import JointSgraf

# name → a ready similarity; single-vector ones read Embedding, the others EmbeddingSet. CROSS: the two sides play different roles
SINGLE = {"cosine": cosine, "order": order}
SETS = {
    "smooth_chamfer": partial(smooth_chamfer, alpha=16.0),
    "chamfer": chamfer,
    "mil": max_pairwise,
    "mp": MatchProbability(),
    "euclidean smooth-Chamfer": partial(euclidean_smooth_chamfer, alpha=4.0),
}
CROSS = {
    "scan t2i": partial(scan, direction="t2i", sharpness=9.0, aggregate="lse", lse_scale=6.0),
    "scan i2t": partial(scan, direction="i2t", sharpness=4.0, aggregate="mean"),
    "sum-max t2i": partial(sum_max, direction="t2i"),
    "sum-max i2t": partial(sum_max, direction="i2t"),
}
ALL_SIMILARITIES = {**SINGLE, **SETS, **CROSS}

__all__ = [
    "ALL_SIMILARITIES", "CROSS", "DISTANCES", "SETS", "SINGLE", "JointSgraf", "MatchLogit", "MatchProbability", "Sgraf", "chamfer", "cosine", "euclidean_smooth_chamfer", "max_pairwise", "order", "scan",
    "scan_attention", "smooth_chamfer", "sum_max",
]  # fmt: skip
