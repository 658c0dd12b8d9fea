"""What a random ranking scores, and what no model exceeds, against all rankings of a few items written out."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmr_core.base.reachable import in_words, reachable
from xmr_core.base.types import Relevance
from xmr_core.evaluation.evaluate import evaluate_scores
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


# What no model exceeds: against every ranking of classes written out.


def by_all_rankings(relevant: np.ndarray, queries: list, items: list, k: int) -> float:
    """The largest R@K. relevant: queries × items. Equal queries share one ranking of the classes of items, and in a
    class irrelevant items go first."""
    most = 0
    for query in dict.fromkeys(queries):
        rows, counts = [q for q, own in enumerate(queries) if own == query and relevant[q].any()], [0]
        for ranking in permutations(dict.fromkeys(items)):
            hits = 0
            for q in rows:
                order = [
                    g for name in ranking for right in (False, True) for g, own in enumerate(items)
                    if own == name and relevant[q, g] == right
                ]  # fmt: skip
                hits += any(relevant[q, g] for g in order[:k])
            counts.append(hits)
        most += max(counts)
    return most / relevant.any(1).sum()


@settings(derandomize=True, deadline=None, max_examples=8)
@given(st.data())
def test_no_model_exceeds_what_is_reachable_and_one_reaches_it(data):
    n, m = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    contents = data.draw(st.lists(st.sampled_from("abcd"), min_size=n, max_size=n))
    texts = data.draw(st.lists(st.sampled_from(["one", "two", "three", "four"]), min_size=m, max_size=m))
    single = data.draw(st.booleans())
    if single:  # each caption has its own image
        relevant = np.arange(n) == np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=m, max_size=m)))[:, None]
    else:
        relevant = np.array(data.draw(st.lists(st.booleans(), min_size=n * m, max_size=n * m))).reshape(m, n)
    if not relevant.any():
        return
    best = reachable(Relevance.from_matrix(relevant, range(m), range(n)), texts, contents, ks=(1, 2, 3))
    for k in (1, 2, 3):
        t2i, i2t = by_all_rankings(relevant, texts, contents, k), by_all_rankings(relevant.T, contents, texts, k)
        assert best[f"t2i R@{k}"] >= t2i - 1e-9 and best[f"i2t R@{k}"] >= i2t - 1e-9
        if k == 1 or single:
            assert best[f"t2i R@{k}"] == pytest.approx(t2i)
        if k == 1 or (single and len({*contents}) == n):
            assert best[f"i2t R@{k}"] == pytest.approx(i2t)


@pytest.mark.parametrize("seed", range(3))
def test_one_model_reaches_all_numbers_where_captions_repeat(seed):
    """Captions of five each, of which images share many, as in collections of satellite images."""
    rng, owner = np.random.default_rng(seed), np.repeat(np.arange(40), 5)
    words = rng.integers(0, 60, 200)
    best = reachable(
        Relevance.from_positions(np.arange(200), owner, range(200), range(40)), words.astype(str), range(40)
    )
    own = np.zeros((40, 60))
    np.add.at(own, (owner, words), 1)
    scores = 1000.0 * (own > 0) + own - np.bincount(words, minlength=60) + rng.random((40, 60)) / 9
    summary = evaluate_scores(scores[:, words], owner).summary()
    reached = {f"{row.direction} R@{row.k}": row.value for row in summary[summary["metric"] == "recall"].itertuples()}
    assert reached == pytest.approx({name: value for name, value in best.items() if name != "RSUM"})
    assert best["RSUM"] == pytest.approx(summary["value"].iloc[-1]) and best["t2i R@1"] < 0.5
    better = evaluate_scores(scores[:, words] + rng.random((40, 200)), owner).summary()  # reads what no model sees
    assert better["value"].iloc[-1] > best["RSUM"]


def test_what_is_reachable_of_eight_captions_by_hand():
    """Five images with a caption of their own and three that share one: 5/8 + 1/8 from text to image."""
    relevance = Relevance.from_positions(range(8), range(8), range(8), range(8))
    texts = [*"abcde", "an airport", "an airport ", "an  airport"]
    assert (best := reachable(relevance, texts, range(8)))["t2i R@1"] == 6 / 8 and best["i2t R@1"] == 5 / 8
    assert "R@1 62.5 image to text and 75.0 text to image, RSUM 537.5" in in_words(best)
    assert (
        in_words(reachable(relevance, "abcdefgh", range(8)))
        == ""
        != in_words(reachable(relevance, "abcdefgh", [0] * 8))
    )
