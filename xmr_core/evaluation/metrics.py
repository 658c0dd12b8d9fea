"""Metrics of ranked retrieval, protocols, and what a random ranking scores. See docs/evaluation.md.

A metric gives one value per query, from the ranks of its relevant items, and raises BadInput for a query without one.
A protocol says which images and captions are ranked together, and refuses any other number of images.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from xmr_core.base.errors import BadInput, require_choice, require_number
from xmr_core.base.types import RelevantRanks

KS = (1, 5, 10)


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
    require_number("k", k, 1)
    return (first_rank(ranks) <= k).astype(float)


def precision_at_k(ranks: RelevantRanks, k: int) -> Float[np.ndarray, " q"]:
    """Share of the first k items that are relevant, in [0, 1]. Raises: BadInput for k < 1. Used for CUB.

    >>> precision_at_k(RelevantRanks(np.array([0, 2, 3]), np.array([1, 4, 7]), n_gallery=9), 4).tolist()
    [0.5, 0.0]
    """
    require_number("k", k, 1)
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
    return _mean_precision(ranks, _among_first_r(ranks))


def average_precision(ranks: RelevantRanks, k: int | None = None) -> Float[np.ndarray, " q"]:
    """(1/R) Σ_{n: rank(p_n) ≤ K} n / rank(p_n) over all R relevant items, or those among the first k; MAP is its mean.

    >>> average_precision(RelevantRanks(np.array([0, 2, 3]), np.array([1, 4, 5]), n_gallery=9)).tolist()
    [0.75, 0.2]
    """
    return _mean_precision(ranks, _within(ranks, k))


def reciprocal_rank(ranks: RelevantRanks, k: int | None = None) -> Float[np.ndarray, " q"]:
    """1 / rank of the best relevant item, 0 where it stands behind the first k; MRR is its mean.

    >>> reciprocal_rank(RelevantRanks(np.array([0, 2, 3]), np.array([1, 4, 5]), n_gallery=9), 4).tolist()
    [1.0, 0.0]
    """
    return (_within(ranks, k) / ranks.ranks)[_starts(ranks)]


def discounted_gain(
    ranks: RelevantRanks, k: int | None = None
) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """(DCG@K, the DCG@K of a ranking with all relevant items first), DCG = Σ_{rank(p_n) ≤ K} 1 / log₂(1 + rank(p_n)).

    Their ratio is nDCG@K of relevance without grades. Source: Järvelin & Kekäläinen, TOIS 2002.

    >>> gain, ideal = discounted_gain(RelevantRanks(np.array([0, 1]), np.array([3]), n_gallery=9), 5)
    >>> gain.tolist(), ideal.tolist()
    ([0.5], [1.0])
    """
    starts, first = _starts(ranks), replace(ranks, ranks=_numbers(ranks))
    discounts = [_within(own, k) / np.log2(1.0 + own.ranks) for own in (ranks, first)]
    return np.add.reduceat(discounts[0], starts), np.add.reduceat(discounts[1], starts)


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
    without = np.flatnonzero(np.diff(ranks.indptr) == 0)
    if without.size:
        raise BadInput(f"query {without[0]} has no relevant item. Leave such queries out.")
    return ranks.indptr[:-1]


def _mean_precision(ranks: RelevantRanks, counted: Bool[np.ndarray, " r"]) -> Float[np.ndarray, " q"]:
    """(1/R) Σ n / rank(p_n) over the relevant items that are counted."""
    return np.add.reduceat(counted * _numbers(ranks) / ranks.ranks, _starts(ranks)) / np.diff(ranks.indptr)


def _numbers(ranks: RelevantRanks) -> Int[np.ndarray, " r"]:
    """1 … R within each query."""
    return np.arange(len(ranks.ranks)) - np.repeat(ranks.indptr[:-1], np.diff(ranks.indptr)) + 1


def _within(ranks: RelevantRanks, k: int | None) -> Bool[np.ndarray, " r"]:
    """Which relevant items are among the first k; all for None."""
    require_number("k", ranks.n_gallery if k is None else k, 1)
    return ranks.ranks <= (ranks.n_gallery if k is None else k)


def _among_first_r(ranks: RelevantRanks) -> Bool[np.ndarray, " r"]:
    counts = np.diff(ranks.indptr)
    return ranks.ranks <= np.repeat(counts, counts)


@dataclass(frozen=True)
class Protocol:
    """n_images: how many images the split must have; 0 accepts any number. n_folds: contiguous parts in file order."""

    name: str
    n_images: int
    n_folds: int
    about: str

    def folds(
        self, n_images: int, image_of: Int[np.ndarray, " t"]
    ) -> list[tuple[Int[np.ndarray, " i"], Int[np.ndarray, " s"]]]:
        """(image positions, caption positions) of each fold; a caption follows its image.

        Args: n_images: how many images there are. image_of: position of each caption's only image, −1 for a caption
            that has none or several.
        Raises: BadInput when the number of images is not the protocol's, or for several folds and a caption without
            exactly one image. Nothing is cut or padded to fit.

        >>> [captions.tolist() for _, captions in Protocol("halves", 4, 2, "").folds(4, np.array([0, 3, 1, 2]))]
        [[0, 2], [1, 3]]
        """
        if self.n_images and n_images != self.n_images:
            fault = f"protocol {self.name} needs exactly {self.n_images:,} images, got {n_images:,}"
            raise BadInput(f"{fault}. COCO has them in the split 'testall'.")
        if self.n_folds == 1:
            return [(np.arange(n_images), np.arange(len(image_of)))]
        if (image_of < 0).any():
            raise BadInput(
                f"protocol {self.name} has {self.n_folds} folds: every caption needs exactly one image in the first "
                f"relevance set, and {(image_of < 0).sum():,} have none or several."
            )
        parts = np.array_split(np.arange(n_images), self.n_folds)
        return [(part, np.flatnonzero((image_of >= part[0]) & (image_of <= part[-1]))) for part in parts]


FULL = Protocol("full", 0, 1, "every image against every caption of the split; n_queries gives its size")
COCO_5K = Protocol("coco-5k", 5000, 1, "all 5,000 test images against their captions")
COCO_1K = Protocol(
    "coco-1k", 5000, 5, "five contiguous folds of 1,000 of the 5,000 test images, metrics averaged over folds"
)
FLICKR_1K = Protocol("flickr-1k", 1000, 1, "the 1,000 test images of Flickr30K or Flickr8k")
PROTOCOLS = {p.name: p for p in (FULL, COCO_5K, COCO_1K, FLICKR_1K)}


def get_protocol(name: str) -> Protocol:
    """A protocol by its name. Raises: BadInput with the names that exist.

    >>> get_protocol("coco-1k").n_folds
    5
    """
    require_choice("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]


def random_hit(gallery: int, relevant: int, k: int) -> float:
    """Probability that a random ranking of N = `gallery` items has at least one of its R relevant items among the
    first K:

        P_K = 1 − C(N − R, K) / C(N, K)

    Raises: BadInput for no item, more relevant items than items, or K below 1.

    >>> random_hit(10, 1, 5)
    0.5
    """
    require_number("k", k, 1)
    if not 0 <= relevant <= gallery or gallery < 1:
        raise BadInput(f"{relevant} of {gallery} items cannot be relevant.")
    places = np.arange(min(k, gallery))
    return 1.0 - float(np.prod(np.clip((gallery - relevant - places) / (gallery - places), 0, 1)))


def random_rsum(
    per_query: pd.DataFrame, galleries: Mapping[str, int], level: float = 0.95, draws: int = 20_000, seed: int = 0
) -> tuple[float, float, float]:
    """(mean, low, high) of the RSUM, in percent of 600, that a random ranking has on these queries.

    The mean is Σ_directions Σ_K 100 · mean over queries of P_K (random_hit). The interval holds `level` of RSUMs drawn
    at random. An image's captions with equally many right answers share one random ranking, because a model that has
    learned nothing still reads captions that say the same as nearly the same; different images, and the two
    directions, draw for themselves. So of each image and direction three hits are drawn with the probabilities
    P_1 ≤ P_5 ≤ P_10 (a hit among the first is one among the first five), and they count once for each of its queries.

    per_query: columns direction, image and n_relevant, one row per query of one kind of relevance; image −1 stands for
    itself. galleries: direction → number of ranked items. Raises: BadInput for no query.

    >>> table = pd.DataFrame({"direction": "t2i", "image": [0, 0, 1, 1], "n_relevant": 1})
    >>> random_rsum(table, {"t2i": 2})  # one hit among the first of two in half of the rankings, always among five
    (250.0, 200.0, 300.0)
    """
    if not len(per_query):
        raise BadInput("a random ranking needs at least one query.")
    rng, drawn, mean = np.random.default_rng(seed), np.zeros(draws), 0.0
    for direction, own in per_query.groupby("direction"):
        alone = np.where(own["image"] < 0, -1 - np.arange(len(own)), own["image"])
        clusters = own.assign(image=alone).groupby(["n_relevant", "image"]).size()
        for (relevant, size), count in clusters.groupby([clusters.index.get_level_values(0), clusters]).size().items():
            chances = _places(galleries[direction], int(relevant))
            weight = 100 * size / len(own)  # of one hit
            mean += weight * count * float(chances @ np.arange(len(KS) + 1))
            drawn += weight * (rng.multinomial(count, chances, size=draws) @ np.arange(len(KS) + 1))
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(mean), float(low), float(high)


def expected_random_rsum(images: int, captions: int) -> float:
    """The mean of `random_rsum`, in [0, 600], by two counts: as if every image had as many captions as the others.

    >>> expected_random_rsum(2, 2)
    500.0
    """
    hits = _places(images, 1) + _places(captions, max(1, captions // images))
    return 100 * float(hits @ np.arange(len(KS) + 1))


def _places(gallery: int, relevant: int) -> Float[np.ndarray, " hits"]:
    """Probability of 0, 1, 2 and 3 hits among the three K: the first right answer behind 10, in 6–10, in 2–5, first."""
    reached = [random_hit(gallery, relevant, k) for k in KS]
    chances = np.array([1 - reached[2], reached[2] - reached[1], reached[1] - reached[0], reached[0]]).clip(0)
    return chances / chances.sum()
