"""What is corrected together: of a confirmatory family everything that is planned, from the beginning."""

import pandas as pd
import pytest
from test_claims import FIVE, rows

from xmr_core.study.claims import ledger
from xmr_core.study.claims_data.claim import Claim, Measure
from xmr_core.study.rules import rule_hash
from xmr_core.study.variants import known_labels

STARTED = {"started_utc": "2026-11-23T00:00:00+00:00", "world": 1}
MADE = Claim("made", "ours", "t", ("a",), ("b",))
OPEN = [Claim("one", "ours", "t", ("a",), ("c", "d")), Claim("two", "ours", "t", ("b",), ("d",), bound=-5.0)]
OTHERS = Claim("other", "theirs", "t", ("a",), ("d",))


@pytest.fixture(autouse=True)
def short_labels(monkeypatch):
    """Labels of one letter, which no method has."""
    monkeypatch.setattr("xmr_core.study.claim_checks.known_labels", lambda: {*"abcd", *known_labels()})


@pytest.fixture
def registered(monkeypatch):
    """All rules stood before the rows."""
    when = {(c.id, rule_hash(c)): "2026-11-22T00:00:00+00:00" for c in (MADE, *OPEN, OTHERS)}
    monkeypatch.setattr("xmr_core.study.claims.fixed", lambda: when)


def holm_factor(claims: list[Claim], table: pd.DataFrame, which: str = "made") -> float:
    line = ledger(table, claims).set_index("claim").loc[which]
    return line["p Holm"] / line["p"]


def test_planned_comparisons_count_before_they_are_measured(registered):
    table = rows({v: FIVE[v] for v in "ab"}).assign(**STARTED)
    assert holm_factor([MADE, *OPEN, OTHERS], table) == pytest.approx(4), "its own, two and one; not another paper's"
    assert holm_factor([MADE], table) == pytest.approx(1)


def test_where_nothing_is_confirmatory_those_with_rows_count(registered):
    table = rows({v: FIVE[v] for v in "ab"}).assign(**{**STARTED, "world": 0})
    assert holm_factor([MADE, *OPEN], table) == pytest.approx(1)


def test_later_rows_of_other_claims_take_no_verdict_back(registered):
    few = rows({v: FIVE[v] for v in "ab"}).assign(**STARTED)
    all_rows = rows({**FIVE, "d": [2.5, 2.6, 2.4, 2.5, 2.5]}).assign(**STARTED)
    before, after = (ledger(t, [MADE, *OPEN]).set_index("claim").loc["made"] for t in (few, all_rows))
    assert before["verdict"] == after["verdict"] == "held" and after["p Holm"] <= before["p Holm"]


def test_a_comparison_that_two_claims_make_counts_once(registered):
    again = Claim("again", "ours", "t", ("a", "c"), ("b",))
    table = rows(FIVE).assign(**STARTED, size="quick")
    assert holm_factor([MADE, again], table.assign(world=0)) <= 2
    assert ledger(table.assign(world=0), [MADE, again])["p Holm"].max() == pytest.approx(
        ledger(table.assign(world=0), [again])["p Holm"].max()
    )


def test_one_control_under_two_labels_is_one_comparison(monkeypatch):
    """α = 16 is DivE as it is, in the protocol's runs."""
    claims = [Claim(name, "ours", "t", (label,), ("VSE++",)) for name, label in (("x", "DivE"), ("y", "α=16"))]
    when = {(c.id, rule_hash(c)): "2026-11-22T00:00:00+00:00" for c in claims}
    table = rows({"DivE": FIVE["a"], "α=16": FIVE["a"], "VSE++": FIVE["b"]}).assign(**STARTED)
    for register, count in ((when, 1), ({}, 2)):
        monkeypatch.setattr("xmr_core.study.claims.fixed", lambda register=register: register)
        assert holm_factor(claims, table, "x") == pytest.approx(count)


def test_photographs_count_what_is_run_on_them(monkeypatch):
    """No ablation is, and nobody knows all their true answers."""
    exhaustive = Measure("RSUM exhaustive", "exhaustive", "both", "rsum", factor=100)
    claims = [
        Claim("made", "ours", "t", ("DivE",), ("VSE++",)),
        Claim("planned", "ours", "t", ("DivE", "PVSE"), ("VSE∞",)),
        Claim("ablation", "ours", "t", ("DivE",), ("α=1",)),
        Claim("complete", "ours", "t", ("DivE",), ("PVSE",), exhaustive),
    ]
    when = {(c.id, rule_hash(c)): "2026-11-22T00:00:00+00:00" for c in claims}
    monkeypatch.setattr("xmr_core.study.claims.fixed", lambda: when)
    table = rows({"DivE": FIVE["a"], "VSE++": FIVE["b"]}, dataset="flickr8k", size="").assign(**STARTED)
    assert holm_factor(claims, table) == pytest.approx(3)


@pytest.mark.parametrize(("variant", "seeds", "count"), [("DivE", 6, 2), ("DivE", 5, 1), ("PVSE", 6, 1)])
def test_what_was_looked_at_before_counts_twice(monkeypatch, variant, seeds, count):
    claim = Claim("x", "ours", "t", (variant,), ("VSE++",))
    when = {(claim.id, rule_hash(claim)): "2026-11-22T00:00:00+00:00"}
    monkeypatch.setattr("xmr_core.study.claims.fixed", lambda: when)
    values = {variant: [3.0, 3.1, 2.9, 3.0, 3.1, 2.8][:seeds], "VSE++": [2.0, 2.3, 1.9, 2.0, 2.4, 2.2][:seeds]}
    assert holm_factor([claim], rows(values).assign(**STARTED), "x") == pytest.approx(count)
