"""Points of R-Precision between methods, and both ends of a scale of uncertainty."""

import numpy as np
import pandas as pd
import pytest

from xmr_core.base.errors import BadInput
from xmr_study.analysis import end_rows, precision_gains, ratio_of_ends


def per_query(values, kind="annotated"):
    """Two queries of captions for each image, and one of it."""
    n = len(values)
    lines = [("i2t", f"i{i}", i, v) for i, v in enumerate(values)]
    lines += [("t2i", f"t{t}", t // 2, values[t // 2]) for t in range(2 * n)]
    table = pd.DataFrame(lines, columns=["direction", "query", "image", "r_precision"])
    return table.assign(relevance=kind)


def test_a_gain_is_the_mean_difference_and_its_error_is_paired():
    rng = np.random.default_rng(0)
    base = rng.random(400)
    tables = {"a": [per_query(base + 0.02)], "b": [per_query(base)], "c": [per_query(base + rng.normal(0, 0.3, 400))]}
    table = precision_gains([("a", "b"), ("c", "b"), ("nobody", "b")], tables)
    assert table["method"].tolist() == ["a", "c"], "a pair without runs is left out"
    assert table["gain"].tolist() == pytest.approx([2.0, 100 * (tables["c"][0]["r_precision"].mean() - base.mean())])
    assert np.ptp(table.loc[0, ["low", "high"]].to_numpy(float)) < 1e-6, "what is paired has no error"
    alone = precision_gains([("c", "b")], tables).loc[0]
    assert alone["high"] - alone["low"] < table.loc[1, "high"] - table.loc[1, "low"], "two pairs hold together"
    half = 1.96 * 100 * (tables["c"][0]["r_precision"][:400] - base).std(ddof=1) / 20
    assert alone["high"] - alone["gain"] == pytest.approx(half, rel=0.01)


def test_seeds_are_paired_in_order():
    tables = {"a": [per_query([0.5 + s, 0.7 + s]) for s in (0.0, 0.1, 0.2)], "b": [per_query([0.4, 0.6])] * 3}
    row = precision_gains([("a", "b")], tables).loc[0]
    assert row["gain"] == pytest.approx(20.0) and row["low"] == pytest.approx(20 - 4.303 * 10 / 3**0.5, abs=0.01)
    with pytest.raises(ValueError, match="shorter"):
        precision_gains([("a", "b")], tables | {"b": tables["b"][:1]})


def test_ends_of_uncertainty_and_the_ratio_of_their_right_answers():
    rng = np.random.default_rng(0)
    uncertain, images = rng.permutation(200.0 * np.arange(200)), np.arange(200) // 2
    right = np.where(uncertain > 200 * 100, 2.0, 6.0)
    rows = end_rows(uncertain)
    assert sorted(uncertain[rows["certain"]]) == (200.0 * np.arange(20)).tolist() and len(rows["uncertain"]) == 20
    assert ratio_of_ends(uncertain, right, images) == pytest.approx((1 / 3,) * 3)
    noisy = right + rng.integers(0, 20, 200)
    value, low, high = ratio_of_ends(uncertain, noisy, images)
    ends = [noisy[rows[end]].mean() for end in ("uncertain", "certain")]
    assert value == pytest.approx(ends[0] / ends[1]) and low < value < high
    assert [len(rows) for rows in end_rows(np.arange(3.0)).values()] == [1, 1], "an end is never empty"
    with pytest.raises(BadInput, match="share in"):
        end_rows(uncertain, 0.6)
