"""Intervals and tests: against loops and known answers, and with the coverage they promise."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet, RelevantRanks
from xmr_core.data.readers.assembly import plausible_match
from xmr_core.evaluation import metrics, stats
from xmr_core.evaluation.analysis.elements import keep_elements
from xmr_core.evaluation.stats import bootstrap_interval, holm, image_error, paired_permutation, seed_interval


def test_the_bootstrap_resamples_images_not_captions():
    """Five equal captions per image carry the information of one: the interval must be that of the images."""
    rng = np.random.default_rng(0)
    per_image = (rng.random(200) < 0.3).astype(float)
    once = bootstrap_interval([(per_image, np.arange(200))])
    five = bootstrap_interval([(np.repeat(per_image, 5), np.repeat(np.arange(200), 5))])
    assert np.allclose(once, five)
    naive = bootstrap_interval([(np.repeat(per_image, 5), np.arange(1000))])
    assert naive[2] - naive[1] < 0.6 * (five[2] - five[1])


def test_the_bootstrap_equals_a_loop_on_the_same_draws():
    values, images = np.array([1.0, 0.0, 2.0, 5.0]), np.array([7, 7, 3, 9])
    estimate, low, high = bootstrap_interval([(values, images)], resamples=50, seed=3)
    weights = np.random.default_rng(3).multinomial(3, np.full(3, 1 / 3), size=50)
    drawn = []
    for w in weights:  # weights are of the images in ascending order: 3, 7, 9
        count = dict(zip((3, 7, 9), w, strict=True))
        total = sum(count[i] * v for v, i in zip(values, images, strict=True))
        drawn.append(total / max(1, sum(count[i] for i in images)))
    assert estimate == 2 and np.allclose([low, high], np.quantile(drawn, [0.025, 0.975]))


def test_parts_are_summed_on_the_same_images():
    x = np.random.default_rng(0).random(100)
    images = np.arange(100)
    estimate, low, high = bootstrap_interval([(x, images), (1 - x, images)])
    assert np.allclose([estimate, low, high], 1), "what one part gains the other loses, on every draw"


def test_the_error_of_images_is_its_loop():
    rng = np.random.default_rng(1)
    parts = [(rng.random(n), rng.integers(0, 6, n)) for n in (20, 13)]
    images = sorted({int(i) for _, clusters in parts for i in clusters})
    pulls = [
        sum(
            (v - values.mean()) / len(values)
            for values, clusters in parts
            for v, i in zip(values, clusters, strict=True)
            if i == image
        )
        for image in images
    ]
    wanted = (len(images) / (len(images) - 1) * sum(u * u for u in pulls)) ** 0.5
    assert image_error(parts) == pytest.approx(wanted, rel=1e-12)


def test_the_bootstrap_covers():
    rng, hits = np.random.default_rng(0), 0
    for n in range(200):
        x = rng.normal(1.0, 1.0, 60)
        _, low, high = bootstrap_interval([(x, np.arange(60))], resamples=400, seed=n)
        hits += low <= 1.0 <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_seed_interval_is_students():
    x = [3.0, 5.0, 4.0, 6.0]
    mean, low, high = seed_interval(x)
    wanted = scipy_stats.t.interval(0.95, 3, loc=4.5, scale=scipy_stats.sem(x))
    assert mean == 4.5 and np.allclose([low, high], wanted)
    assert np.isnan(seed_interval([2.0])[1:]).all()


def test_the_permutation_test_flips_whole_images():
    a, b = np.array([3.0, 3.0, 2.0, 1.0]), np.array([1.0, 1.0, 1.0, 3.0])
    images = np.array([0, 0, 1, 2])
    totals = [4.0, 1.0, -2.0]
    exact = np.mean(
        [
            abs(sum(s * t for s, t in zip(signs, totals, strict=True))) >= 3 - 1e-9
            for signs in itertools.product((1, -1), repeat=3)
        ]
    )
    difference, p = paired_permutation(a, b, images, resamples=20_000)
    assert difference == 0.75 and p == pytest.approx(exact, abs=0.02)
    _, never_zero = paired_permutation(np.ones(50), np.zeros(50), np.arange(50), resamples=99)
    assert never_zero == 1 / 100
    assert paired_permutation(a, a, images)[1] == 1


def test_holm():
    assert np.allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]) and holm([0.9, 0.8]).max() == 1


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: bootstrap_interval([(np.ones(2), np.arange(3))]), "one image for each value"),
        (lambda: image_error([(np.array([1.0, 0.0]), np.array([-1, 4]))]), "no single image"),
        (lambda: paired_permutation(np.ones(2), np.ones(3), np.arange(2)), "one length"),
        (lambda: paired_permutation(np.ones(2), np.zeros(2), np.array([-1, -1])), "no single image"),
        (lambda: bootstrap_interval([(np.array([1.0, np.nan]), np.arange(2))]), "numbers"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(BadInput, match=message):
        call()


ONE = RelevantRanks(np.array([0, 1]), np.array([3]), n_gallery=9)
CODES, SET = np.eye(3, dtype=int), EmbeddingSet(torch.ones(1, 3, 2), torch.ones(1, 3, dtype=torch.bool))


@pytest.mark.parametrize(
    "call",
    [
        lambda: metrics.recall_at_k(ONE, 0), lambda: metrics.precision_at_k(ONE, 0),
        lambda: metrics.random_hit(10, 11, 1), lambda: metrics.random_hit(10, 1, 0), lambda: stats.holm([0.01, 4.0]),
        lambda: keep_elements(SET, [0, 0]), lambda: keep_elements(SET, [-1]), lambda: keep_elements(SET, []),
        lambda: plausible_match(CODES, np.array([0, -1]), 0),
    ],
)  # fmt: skip
def test_what_would_give_a_wrong_number_in_silence_is_refused(call):
    with pytest.raises(BadInput):
        call()
