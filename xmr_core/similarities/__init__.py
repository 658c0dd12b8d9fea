"""Similarities: two representations in, scores[image, caption] out, larger is more alike.

Contract (tests/test_similarities.py): no state, block-separable, blind to padding, invariant to the order of elements.
"""

from functools import partial

from xmr_core.similarities.chamfer import chamfer, smooth_chamfer
from xmr_core.similarities.cosine import cosine
from xmr_core.similarities.match_probability import MatchProbability
from xmr_core.similarities.mil import max_pairwise
from xmr_core.similarities.order import order

# name → a ready similarity; single-vector ones read Embedding, the others EmbeddingSet
SINGLE = {"cosine": cosine, "order": order}
SETS = {"smooth_chamfer": partial(smooth_chamfer, alpha=16.0), "chamfer": chamfer, "mil": max_pairwise, "mp": MatchProbability()}
ALL_SIMILARITIES = {**SINGLE, **SETS}

__all__ = [
    "ALL_SIMILARITIES", "SETS", "SINGLE", "MatchProbability", "chamfer", "cosine", "max_pairwise", "order", "smooth_chamfer",
]  # fmt: skip
