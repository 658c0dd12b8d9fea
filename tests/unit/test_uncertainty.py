"""Uncertainty of items, bins of it, rank correlation, other numbers of samples."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding
from xmr_core.evaluation.analysis.representations import with_samples
from xmr_core.evaluation.analysis.uncertainty import in_bins, rank_correlation, uncertainty
from xmr_study.analysis import frequent_words


def gaussian(n=5, d=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    mean, log_std = torch.randn(n, d, generator=g), torch.randn(n, d, generator=g)
    return GaussianEmbedding(mean, log_std, mean[:, None])


def test_uncertainty_is_the_log_of_the_geometric_mean_of_sigma():
    items = gaussian()
    for n, value in enumerate(uncertainty(items)):
        product = 1.0
        for s in items.log_std[n].double():
            product *= math.exp(s)
        assert value == pytest.approx(math.log(product ** (1 / 4)))


def test_uncertainty_of_a_set_is_the_log_of_its_circular_variance_and_padding_does_not_count():
    x = torch.tensor([[[1.0, 0], [0, 1], [9, 9]], [[1, 0], [1, 0], [1, 0]]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    wide, none = uncertainty(EmbeddingSet(x, mask))
    assert wide == pytest.approx(math.log(1 - math.sqrt(0.5))) and none == pytest.approx(math.log(1e-12))


@pytest.mark.parametrize(
    "items", [Embedding(torch.ones(2, 3)), EmbeddingSet(torch.ones(2, 1, 3), torch.ones(2, 1, dtype=torch.bool)),
              GaussianEmbedding(torch.ones(2, 3), torch.full((2, 3), -torch.inf), torch.ones(2, 1, 3))],
)  # fmt: skip
def test_one_vector_has_no_uncertainty(items):
    with pytest.raises(BadInput, match="one vector per item and so no uncertainty"):
        uncertainty(items)


def test_bins_are_ordered_of_equal_size_and_hold_their_means():
    rng = np.random.default_rng(0)
    by, values, images = rng.random(103), rng.random(103), np.repeat(np.arange(21), 5)[:103]
    table = in_bins(by, values, images, 10)
    assert table["n"].tolist() == [11] * 3 + [10] * 7 and table["by"].is_monotonic_increasing
    order = sorted(range(103), key=lambda q: by[q])
    assert table["value"].iloc[1] == pytest.approx(np.mean([values[q] for q in order[11:22]]))
    assert ((table["low"] <= table["value"]) & (table["value"] <= table["high"])).all()
    with pytest.raises(BadInput, match="bins"):
        in_bins(by[:5], values[:5], images[:5], 6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=4, max_size=30))
def test_rank_correlation_is_spearman_s(pairs):
    x, y = np.array(pairs, float).T
    if len(set(x)) < 2 or len(set(y)) < 2:
        return
    value, *_ = rank_correlation(x, y, np.arange(len(x)), resamples=50)
    assert value == pytest.approx(spearmanr(x, y).statistic, abs=1e-9)


def test_the_interval_of_a_correlation_resamples_images():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = x + rng.normal(size=200)
    images = np.arange(200)
    value, low, high = rank_correlation(x, y, images)
    assert low < value < high
    # each image counted five times says nothing new, and must not make the interval narrower
    five = [np.repeat(v, 5) for v in (x, y, images)]
    again, low5, high5 = rank_correlation(*five)
    assert again == pytest.approx(value, abs=1e-6) and high5 - low5 == pytest.approx(high - low, rel=0.05)
    apart = rank_correlation(five[0], five[1], np.arange(1000))
    assert apart[2] - apart[1] < 0.6 * (high - low)
    assert math.isnan(rank_correlation(np.ones(5), np.arange(5.0), np.arange(5))[0])
    with pytest.raises(BadInput, match="at least 3"):
        rank_correlation(x[:2], y[:2], images[:2])


def test_other_numbers_of_samples_share_their_first_draws_and_have_the_right_spread():
    items = gaussian(3, 6)
    few, many = with_samples(items, 2, seed=4), with_samples(items, 4000, seed=4)
    assert torch.equal(few.samples, many.samples[:, :2]) and few.mean is items.mean
    assert ((many.samples.mean(1) - items.mean) / items.log_std.exp()).abs().max() < 0.06
    assert torch.allclose(many.samples.std(1).log(), items.log_std, atol=0.1)
    assert not torch.equal(few.samples, with_samples(items, 2, seed=5).samples)
    with pytest.raises(BadInput, match="samples must be"):
        with_samples(items, 0)


def test_words_of_a_bin_are_ordered_by_their_score():
    texts = ["a red cat", "a red dog", "a blue dog", "a bird", "two birds sat", "two birds flew"]
    table = frequent_words(texts, [0, 1, 2, 3, 4, 5], bins=2, top=3)
    score = lambda n, total: (1 + math.log(n)) * math.log(total / n)  # noqa: E731
    scores = {"a": score(3, 3), "red": score(2, 3), "dog": score(2, 3), "cat": score(1, 3), "blue": score(1, 3)}
    wanted = sorted(scores, key=lambda w: (-scores[w], w))[:3]
    assert table[1].tolist() == wanted and scores["a"] == 0 and table[2].tolist() == ["a", "bird", "flew"]
