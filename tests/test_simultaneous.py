"""Simultaneous intervals against a loop, and the law that an interval and its corrected p agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.simultaneous import holm_intervals
from xmr_core.evaluation.stats import holm

FINITE = st.floats(-5, 5)
FAMILY = st.lists(st.tuples(FINITE, st.floats(0.01, 3), st.integers(1, 20), FINITE), min_size=1, max_size=8)


@given(FAMILY)
def test_an_interval_leaves_out_its_bound_where_the_corrected_p_is_small(family):
    effects, errors, degrees, bounds = map(list, zip(*family, strict=True))
    low, high, p, corrected = holm_intervals(effects, errors, degrees, bounds)
    for i in range(len(p)):
        assert p[i] == pytest.approx(2 * student.sf(abs(effects[i] - bounds[i]) / errors[i], degrees[i]), abs=1e-9)
        if abs(corrected[i] - 0.05) > 1e-6:
            assert (not low[i] <= bounds[i] <= high[i]) == (corrected[i] < 0.05)
    assert corrected == pytest.approx(holm(p))


@given(FAMILY, st.data())
def test_no_corrected_p_rises_when_more_of_the_family_is_measured(family, data):
    effects, errors, degrees, bounds = map(list, zip(*family, strict=True))
    first = data.draw(st.integers(1, len(family)))
    some = [v[:first] for v in (effects, errors, degrees, bounds)]
    low, high, _, before = holm_intervals(*some, unmeasured=len(family) - first)
    all_low, all_high, _, after = holm_intervals(effects, errors, degrees, bounds)
    assert (after[:first] <= before + 1e-12).all()
    assert (all_low[:first] >= low - 1e-9).all() and (all_high[:first] <= high + 1e-9).all()
    assert (before >= holm_intervals(*some)[3] - 1e-12).all()


@given(FAMILY, st.integers(0, 60))
def test_unmeasured_ones_count_as_certain_nothings(family, more):
    """The same as comparisons without any effect."""
    effects, errors, degrees, bounds = map(list, zip(*family, strict=True))
    padded = holm_intervals(effects, errors, degrees, bounds, unmeasured=more)
    nothing = [[*effects, *[0.0] * more], [*errors, *[1.0] * more], [*degrees, *[5] * more], [*bounds, *[0.0] * more]]
    for one, other in zip(padded, holm_intervals(*nothing), strict=True):
        assert one == pytest.approx(other[: len(family)])


def test_levels_are_those_of_the_steps():
    effects, errors = np.array([4.0, 1.0, 2.5]), np.ones(3)
    low, _, p, _ = holm_intervals(effects, errors, [30] * 3)
    levels, rejected = {}, 0
    for place, n in enumerate(np.argsort(p)):  # the loop of the procedure
        alpha = 0.05 / (3 - rejected)
        levels[n] = alpha
        if p[n] <= alpha and rejected == place:
            rejected += 1
    expected = [e - student.ppf(1 - levels[n] / 2, 30) for n, e in enumerate(effects)]
    assert rejected == 2 and low == pytest.approx(expected)


def test_one_comparison_has_the_usual_interval():
    low, high, _, _ = holm_intervals([1.0], [0.5], [4])
    assert (low[0], high[0]) == pytest.approx((1 - 0.5 * student.ppf(0.975, 4), 1 + 0.5 * student.ppf(0.975, 4)))


@pytest.mark.parametrize(
    "bad", [([1.0], [1.0, 2.0], [1]), ([1.0], [-1.0], [1]), ([1.0], [np.nan], [1]), ([1.0], [1.0], [0])]
)
def test_bad_input_is_refused(bad):
    with pytest.raises(BadInput):
        holm_intervals(*bad)


def test_a_negative_number_of_unmeasured_ones_is_refused():
    with pytest.raises(BadInput, match="unmeasured comparisons must be 0 or more, got -1"):
        holm_intervals([1.0], [1.0], [1], unmeasured=-1)


def test_no_comparison_is_no_interval():
    assert [len(v) for v in holm_intervals([], [], [])] == [0, 0, 0, 0]
