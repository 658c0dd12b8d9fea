"""Random rankings in closed form, against all rankings of a few items written out."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest

from xmr_core.evaluation.metrics import random_hit, random_rsum


def test_a_hit_is_counted_over_all_rankings():
    for n, relevant, k in ((6, 2, 3), (5, 1, 1), (4, 4, 1), (3, 1, 10), (3, 0, 1)):
        tops = list(combinations(range(n), min(k, n)))
        assert random_hit(n, relevant, k) == pytest.approx(np.mean([min(top) < relevant for top in tops]))


def all_rsums(queries: list[tuple[str, int, int]], galleries: dict[str, int]) -> dict[float, float]:
    """RSUM → probability, from every ranking: (direction, image, relevant items) of each query; the queries of an image
    with equally many relevant items rank alike."""
    sums = Counter({0.0: 1.0})
    for cluster in dict.fromkeys(queries):
        direction, _, relevant = cluster
        weight = queries.count(cluster) / sum(q[0] == direction for q in queries)
        hits = Counter()
        rankings = list(permutations(range(galleries[direction])))
        for ranking in rankings:
            first = min(ranking.index(item) for item in range(relevant))
            hits[100 * weight * sum(first < k for k in (1, 5, 10))] += 1 / len(rankings)
        joined = Counter()
        for total, p in sums.items():
            for value, q in hits.items():
                joined[round(total + value, 6)] += p * q
        sums = joined
    return sums


QUERIES = [("i2t", 0, 3), ("i2t", 1, 2), ("i2t", 2, 1)] + [("t2i", i, 1) for i in (0, 0, 0, 1, 1, 2)]


def test_mean_and_interval_are_those_of_all_rankings():
    galleries = {"i2t": 6, "t2i": 7}  # more images than are asked for: distractors
    exact = all_rsums(QUERIES, galleries)
    table = pd.DataFrame(QUERIES, columns=["direction", "image", "n_relevant"])
    mean, low, high = random_rsum(table, galleries)
    assert mean == pytest.approx(
        sum(value * p for value, p in exact.items()), abs=1e-4
    )  # sums are rounded to be compared
    for bound, share in ((low, 0.025), (high, 0.975)):  # the probability below, and up to, the bound encloses the share
        below = sum(p for value, p in exact.items() if value < bound - 1e-6)
        reached = sum(p for value, p in exact.items() if value <= bound + 1e-6)
        assert below - 0.005 <= share <= reached + 0.005


def test_captions_of_one_image_share_their_luck():
    apart = pd.DataFrame({"direction": "t2i", "image": np.arange(500), "n_relevant": 1})
    shared = apart.assign(image=np.arange(500) // 5)
    wide, narrow = (np.ptp(random_rsum(table, {"t2i": 100})[1:]) for table in (shared, apart))
    assert 1.9 < wide / narrow < 2.6  # about √5
    assert random_rsum(apart.assign(image=-1), {"t2i": 100}) == random_rsum(apart, {"t2i": 100})
