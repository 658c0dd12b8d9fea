"""Selective retrieval: areas against loops, and σ beside the baselines in a trained run."""

import numpy as np
import pytest

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.analysis.selective import (
    TEMPERATURES,
    best_temperature,
    gain_error,
    score_confidence,
    selective_recall,
)


def test_the_area_is_the_mean_recall_over_all_coverages():
    rng = np.random.default_rng(0)
    right, confidence = rng.integers(0, 2, 30), rng.permutation(30)
    order = sorted(range(30), key=lambda q: -confidence[q])
    by_hand = np.mean([np.mean([right[q] for q in order[:n]]) for n in range(1, 31)])
    assert selective_recall(right, confidence) == pytest.approx(by_hand)
    tied = selective_recall([1, 0, 0, 1], [1, 1, 1, 1])
    assert tied == selective_recall([0, 0, 1, 1], [4, 3, 2, 1]), "ties never help"


def test_margin_and_entropy_against_loops():
    scores = np.random.default_rng(1).normal(size=(4, 6))
    made = score_confidence(scores, 0.5)
    for q, row in enumerate(scores):
        best, second = sorted(row)[::-1][:2]
        p = np.exp(row / (0.5 * scores.std()))
        p /= p.sum()
        assert made["margin"][q] == pytest.approx(best - second)
        assert made["entropy"][q] == pytest.approx((p * np.log(p)).sum())


def test_the_temperature_is_the_one_that_selects_best():
    rng = np.random.default_rng(2)
    scores, right = rng.normal(size=(40, 9)), rng.integers(0, 2, 40)
    areas = {t: selective_recall(right, score_confidence(scores, t)["entropy"]) for t in TEMPERATURES}
    assert areas[best_temperature(scores, right)] == max(areas.values()) > min(areas.values())


def test_the_error_of_a_gain_leaves_out_one_image_with_all_its_queries():
    rng = np.random.default_rng(5)
    right, one, other, images = rng.integers(0, 2, 40), rng.random(40), rng.random(40), np.repeat(np.arange(8), 5)

    def gain(kept):
        return selective_recall(right[kept], one[kept]) - selective_recall(right[kept], other[kept])

    without = np.array([gain(images != g) for g in range(8)])
    by_hand = (7 / 8 * ((without - without.mean()) ** 2).sum()) ** 0.5
    assert gain_error(right, one, other, images) == pytest.approx(by_hand) and by_hand > 0
    assert gain_error(right, one, one, images) == 0


def test_bad_input_is_refused():
    with pytest.raises(BadInput, match="one value for each query"):
        selective_recall([1, 0], [0.5])
    with pytest.raises(BadInput, match="two items"):
        score_confidence(np.ones((3, 1)))
