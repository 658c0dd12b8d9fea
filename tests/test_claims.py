"""Verdicts follow the rules, from rows alone."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from xmr_core.base.errors import BadInput
from xmr_core.study.claims import CLAIMS, Claim, Measure, in_words, ledger


def rows(
    values: dict[str, list[float]],
    dataset="scenes",
    size="study",
    metric="rsum",
    relevance="annotated",
    direction="both",
):
    return pd.DataFrame(
        [
            {"variant": v, "seed": s, "value": x, "dataset": dataset, "size": size, "metric": metric,
             "relevance": relevance, "direction": direction, "k": 0, "origin": "ours"}
            for v, xs in values.items() for s, x in enumerate(xs) if x is not None
        ]
    )  # fmt: skip


def verdict(claim, table):
    (line,) = ledger(table, [claim]).to_dict("records")
    return line


CLEAR = {"a": [3.0, 3.1, 2.9, 3.0], "b": [2.0, 2.1, 2.0, 1.9], "c": [2.9, 3.2, 2.8, 3.2]}


@pytest.mark.parametrize(
    ("above", "below", "smaller", "word"),
    [(("a",), ("b",), False, "held"), (("b",), ("a",), False, "contradicted"), (("a",), ("c",), False, "undecided"),
     (("a",), ("b", "c"), False, "undecided"), (("b",), ("a", "c"), False, "contradicted"),
     (("c", "a"), ("b",), False, "held"),
     (("b",), ("a",), True, "held"), (("a",), (), False, "held"), (("a",), (), True, "contradicted")],
)  # fmt: skip
def test_verdicts(above, below, smaller, word):
    assert verdict(Claim("x", "s", "t", above, below, smaller=smaller), rows(CLEAR))["verdict"] == word


def test_the_interval_is_student_s_over_paired_seeds():
    line = verdict(Claim("x", "s", "t", ("a",), ("b",)), rows(CLEAR))
    d = 100 * (np.array(CLEAR["a"]) - np.array(CLEAR["b"]))
    half = student.ppf(0.975, 3) * d.std(ddof=1) / 2
    assert (line["effect"], line["low"], line["high"]) == pytest.approx((d.mean(), d.mean() - half, d.mean() + half))
    assert line["seeds"] == 4 and line["corpus"] == "scenes (study)" and line["p"] < 0.001


def test_only_common_seeds_count_and_fewer_than_three_decide_nothing():
    table = rows({"a": [3.0, 3.1, None, 2.9], "b": [2.0, None, 1.0, 2.0]})
    line = verdict(Claim("x", "s", "t", ("a",), ("b",)), table)
    assert (line["seeds"], line["verdict"]) == (2, "undecided")


def test_the_rule_of_means_compares_groups():
    claim = Claim("x", "s", "t", ("a", "c"), ("b", "d"), rule="means")
    table = rows({**CLEAR, "d": [2.2, 2.0, 2.1, 2.3]})
    line = verdict(claim, table)
    expected = 100 * np.mean(
        [(CLEAR["a"][s] + CLEAR["c"][s]) / 2 - (CLEAR["b"][s] + [2.2, 2.0, 2.1, 2.3][s]) / 2 for s in range(4)]
    )
    assert line["effect"] == pytest.approx(expected) and line["verdict"] == "held"
    assert "the mean of a, c above the mean of b, d" in line["measure"]


def test_each_corpus_has_its_own_verdict_and_none_is_said():
    table = pd.concat([rows(CLEAR), rows({"a": CLEAR["b"], "b": CLEAR["a"]}, dataset="flickr8k", size="")])
    claims = [Claim("x", "s", "t", ("a",), ("b",)), Claim("y", "s", "t", ("gone",), ("b",))]
    found = ledger(table, claims).set_index(["claim", "corpus"])["verdict"]
    assert found.to_dict() == {
        ("x", "scenes (study)"): "held",
        ("x", "flickr8k"): "contradicted",
        ("y", "–"): "not measured",
    }


def test_correction_counts_every_comparison_of_the_corpus_whatever_is_shown():
    claims = [
        Claim("x", "s", "t", ("a",), ("b",)),
        Claim("y", "s", "t", ("c",), ("b",)),
        Claim("z", "s", "t", ("a",), ("c",)),
    ]
    whole, part = ledger(rows(CLEAR), claims), ledger(rows(CLEAR), claims, ["x"])
    assert part["p Holm"].iloc[0] == whole["p Holm"].iloc[0] and len(part) == 1
    ordered = whole.sort_values("p")
    assert ordered["p Holm"].iloc[0] == pytest.approx(3 * ordered["p"].iloc[0])
    with pytest.raises(BadInput, match="unknown claim 'w'"):
        ledger(rows(CLEAR), claims, ["w"])


def test_other_measures_are_read_from_their_own_rows():
    measure = Measure("ρ", "annotated", "t2i", "spearman_uncertainty_r1")
    table = pd.concat(
        [rows(CLEAR), rows({"a": [-0.2, -0.3, -0.25]}, metric="spearman_uncertainty_r1", direction="t2i")]
    )
    line = verdict(Claim("x", "s", "t", ("a",), (), measure, smaller=True), table)
    assert (line["verdict"], line["effect"]) == ("held", pytest.approx(0.25))


def test_a_run_made_again_counts_once():
    table = pd.concat([rows({"a": [0.0, 0.0, 0.0], "b": [0.0, 0.1, 0.0]}), rows(CLEAR)])
    assert verdict(Claim("x", "s", "t", ("a",), ("b",)), table)["effect"] == pytest.approx(100)


def test_verdicts_in_words():
    table = ledger(
        rows(CLEAR), [Claim("x", "s", "A beats b.", ("a",), ("b",)), Claim("y", "s", "Nobody ran this.", ("gone",))]
    )
    first, second = in_words(table).split(". “")
    assert first.startswith("“A beats b”: held on scenes (study), +100.0 [") and first.endswith("with 4 seeds")
    assert second == "Nobody ran this”: not measured yet."


def test_claims_have_different_ids_a_source_and_a_rule():
    assert len({c.id for c in CLAIMS}) == len(CLAIMS) > 25
    assert all(
        c.source and c.sentence.endswith(".") and (" above " in c.rule_text() or " below " in c.rule_text())
        for c in CLAIMS
    )
    with pytest.raises(BadInput, match="unknown rule of a claim"):
        Claim("x", "s", "t", ("a",), rule="median")
    with pytest.raises(BadInput, match="about no variant"):
        Claim("x", "s", "t", ())
