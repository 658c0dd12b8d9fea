"""Metrics of ranked retrieval: one value per query, from the ranks of its relevant items. Averaging happens elsewhere."""

import numpy as np
from jaxtyping import Float, Int

from xmr_core.base.errors import BadInput
from xmr_core.base.types import RelevantRanks


def first_rank(ranks: RelevantRanks) -> Int[np.ndarray, " q"]:
    """1-based rank of the best relevant item of each query."""
    return ranks.ranks[ranks.indptr[:-1]]


def recall_at_k(ranks: RelevantRanks, k: int) -> Float[np.ndarray, " q"]:
    """This field's R@K: 1.0 if *any* relevant item is among the first k, else 0.0.

    Not the recall of information retrieval, which divides by the number of relevant items.
    Raises: BadInput for k < 1. Source: METHODS §1.6.
    """
    if k < 1:
        raise BadInput(f"k must be at least 1, got {k}.")
    return (first_rank(ranks) <= k).astype(float)


def precision_at_k(ranks: RelevantRanks, k: int) -> Float[np.ndarray, " q"]:
    """Share of the first k items that are relevant. Raises: BadInput for k < 1. Source: METHODS §10.4 (CUB)."""
    if k < 1:
        raise BadInput(f"k must be at least 1, got {k}.")
    return np.add.reduceat(ranks.ranks <= k, ranks.indptr[:-1], dtype=np.int64) / k


def r_precision(ranks: RelevantRanks) -> Float[np.ndarray, " q"]:
    """Share of the R relevant items that stand among the first R. Source: METHODS §10.1, §10.4."""
    counts = np.diff(ranks.indptr)
    hits = ranks.ranks <= np.repeat(counts, counts)
    return np.add.reduceat(hits, ranks.indptr[:-1]) / counts


def map_at_r(ranks: RelevantRanks) -> Float[np.ndarray, " q"]:
    """(1/R) Σ_{r ≤ R, item r relevant} precision at r. Source: Musgrave et al. 2020; METHODS §10.1."""
    counts = np.diff(ranks.indptr)
    hits = ranks.ranks <= np.repeat(counts, counts)
    nth = np.arange(len(ranks.ranks)) - np.repeat(ranks.indptr[:-1], counts) + 1  # the nth relevant item of its query
    return np.add.reduceat(hits * nth / ranks.ranks, ranks.indptr[:-1]) / counts


def median_rank(ranks: RelevantRanks) -> float:
    """⌊median of the 0-based first rank⌋ + 1 over queries: the field's medR. Source: METHODS §1.6."""
    return float(np.floor(np.median(first_rank(ranks) - 1)) + 1)


def mean_rank(ranks: RelevantRanks) -> float:
    """Mean of the 1-based first rank over queries: the field's meanR."""
    return float(first_rank(ranks).mean())
