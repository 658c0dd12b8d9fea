"""Selective retrieval: areas against loops."""

import numpy as np
import pytest

from xmr_core.evaluation.analysis.uncertainty import score_confidence, selective_recall


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
