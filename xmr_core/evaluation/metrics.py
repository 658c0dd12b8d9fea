"""Metrics of ranked retrieval: one value per query, from the ranks of its relevant items. See docs/evaluation.md.

All raise BadInput for a query without a relevant item.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from xmr_core.base.errors import BadInput
from xmr_core.base.types import RelevantRanks


def first_rank(ranks: RelevantRanks) -> Int[np.ndarray, " q"]:
    """Rank of the best relevant item of each query, counted from 1.

    >>> first_rank(RelevantRanks(np.array([0, 2, 3]), np.array([1, 4, 7]), n_gallery=9)).tolist()
    [1, 7]
    """
    return ranks.ranks[_starts(ranks)]


def recall_at_k(ranks: RelevantRanks, k: int) -> Float[np.ndarray, " q"]:
    """R@K as image–text retrieval defines it: 1.0 if *any* relevant item is among the first k, else 0.0.

    The recall of information retrieval is another number: it divides by the number of relevant items.
    Raises: BadInput for k < 1. Source: Karpathy & Fei-Fei, CVPR 2015.

    >>> recall_at_k(RelevantRanks(np.array([0, 2, 3]), np.array([1, 4, 7]), n_gallery=9), 5).tolist()
    [1.0, 0.0]
    """
    _check_k(k)
    return (first_rank(ranks) <= k).astype(float)


def precision_at_k(ranks: RelevantRanks, k: int) -> Float[np.ndarray, " q"]:
    """Share of the first k items that are relevant, in [0, 1]. Raises: BadInput for k < 1. Used for CUB.

    >>> precision_at_k(RelevantRanks(np.array([0, 2, 3]), np.array([1, 4, 7]), n_gallery=9), 4).tolist()
    [0.5, 0.0]
    """
    _check_k(k)
    return np.add.reduceat(ranks.ranks <= k, _starts(ranks), dtype=np.int64) / k


def r_precision(ranks: RelevantRanks) -> Float[np.ndarray, " q"]:
    """Share of the R relevant items of a query that stand among its first R items, in [0, 1].

    Source: Musgrave et al., ECCV 2020; used by PCME.

    >>> r_precision(RelevantRanks(np.array([0, 2, 3]), np.array([1, 4, 7]), n_gallery=9)).tolist()
    [0.5, 0.0]
    """
    return np.add.reduceat(_among_first_r(ranks), _starts(ranks)) / np.diff(ranks.indptr)


def map_at_r(ranks: RelevantRanks) -> Float[np.ndarray, " q"]:
    """(1/R) Σ_{r ≤ R, item r relevant} precision at r, for the R relevant items of each query, in [0, 1].

    Source: Musgrave et al., ECCV 2020; used by ECCV Caption.

    >>> map_at_r(RelevantRanks(np.array([0, 2, 3]), np.array([1, 4, 7]), n_gallery=9)).tolist()
    [0.5, 0.0]
    """
    counts = np.diff(ranks.indptr)
    number = np.arange(len(ranks.ranks)) - np.repeat(ranks.indptr[:-1], counts) + 1  # 1 … R within each query
    return np.add.reduceat(_among_first_r(ranks) * number / ranks.ranks, _starts(ranks)) / counts


def median_rank(ranks: RelevantRanks) -> float:
    """medR: ⌊median over queries of (first rank − 1)⌋ + 1, rounded as the program of VSE++ does.

    >>> median_rank(RelevantRanks(np.array([0, 2, 3]), np.array([1, 4, 8]), n_gallery=9))
    4.0
    """
    return float(np.floor(np.median(first_rank(ranks) - 1)) + 1)


def mean_rank(ranks: RelevantRanks) -> float:
    """meanR: mean over queries of the first rank, counted from 1.

    >>> mean_rank(RelevantRanks(np.array([0, 2, 3]), np.array([1, 4, 8]), n_gallery=9))
    4.5
    """
    return float(first_rank(ranks).mean())


def _starts(ranks: RelevantRanks) -> Int[np.ndarray, " q"]:
    """Where the ranks of each query begin. Raises: BadInput for a query without a relevant item, whose ranks would be
    those of the next one."""
    starts, without = ranks.indptr[:-1], np.diff(ranks.indptr) == 0
    if without.any():
        raise BadInput(
            f"query {int(np.flatnonzero(without)[0])} has no relevant item ({int(without.sum()):,} of {len(without):,} "
            "have none). Leave such queries out."
        )
    return starts


def _among_first_r(ranks: RelevantRanks) -> Bool[np.ndarray, " r"]:
    counts = np.diff(ranks.indptr)
    return ranks.ranks <= np.repeat(counts, counts)


def _check_k(k: int) -> None:
    if k < 1:
        raise BadInput(f"k must be at least 1, got {k}.")
