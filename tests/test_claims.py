"""Verdicts follow the rules, from rows alone."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from xmr_core.base.errors import BadInput
from xmr_core.study import rules
from xmr_core.study.claims import CLAIMS, counts, in_words, ledger
from xmr_core.study.claims_data.claim import Claim, Measure
from xmr_core.study.comparisons import degrees_of_freedom


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

FIVE = {name: [*values, values[0] + 0.05] for name, values in CLEAR.items()}  # as many as the protocol plans


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


def on_worlds(errors):
    """Rows of five seeds on the worlds that decide, with errors of images; the parts of the effect's variance."""
    table = pd.concat([rows(FIVE), rows(errors, metric="rsum_error")]).assign(world=lambda t: 1 + t["seed"] % 2)
    d = 100 * (np.array(FIVE["a"]) - np.array(FIVE["b"]))
    images = np.mean([(100 * a) ** 2 + (100 * b) ** 2 for a, b in zip(errors["a"], errors["b"], strict=True)])
    return table, d, d.var(ddof=1) / 5, images / 2


ERRORS = {"a": [0.1, 0.2, 0.1, 0.2, 0.1], "b": [0.3, 0.3, 0.1, 0.1, 0.2]}


def test_the_interval_carries_images_and_worlds():
    table, d, of_seeds, of_images = on_worlds(ERRORS)
    line = verdict(Claim("x", "s", "t", ("a",), ("b",)), table)
    half = student.ppf(0.975, 4) * np.sqrt(of_seeds + of_images)
    assert (line["low"], line["high"]) == pytest.approx((d.mean() - half, d.mean() + half))
    assert line["corpus"] == "scenes (study, worlds 1 and 2)" and line["worlds"] == 2


@pytest.mark.parametrize("visible", [False, True])
def test_images_are_known_better_than_seeds_where_nobody_had_seen_the_comparison_before_the_rule(visible):
    table, d, of_seeds, of_images = on_worlds(ERRORS)
    later = table["variant"].eq("b") & ~(visible & table["seed"].eq(0))  # one run of b before makes it visible
    table["started_utc"] = np.where(later, "2026-11-24T10:00:00+00:00", "2026-11-22T10:00:00+00:00")
    line = verdict(Claim("x", "s", "t", ("a",), ("b",)), table)
    degrees = 4 if visible else 4 * (1 + of_images / of_seeds / 2)
    half = student.ppf(0.975, degrees) * np.sqrt(of_seeds + of_images)
    assert (line["low"], line["high"]) == pytest.approx((d.mean() - half, d.mean() + half))


def test_no_verdict_before_the_seeds_that_are_planned():
    table, claim = on_worlds(ERRORS)[0], Claim("x", "s", "t", ("a",), ("b",))
    assert verdict(claim, table)["verdict"] == "held"
    line = verdict(claim, table[table["seed"] < 4])
    assert line["verdict"] == "no verdict yet" and np.isnan(line["low"]), "four of five: no interval, and not counted"
    photographs = table.assign(dataset="flickr8k", world=0, size="")
    three = photographs[photographs["seed"] < 3]
    line = verdict(claim, three)
    assert (line["verdict"], line["needs"]) == ("no verdict yet", 5), "five are planned of what compares no pairs"
    assert verdict(claim, photographs)["verdict"] == "held"
    named = three.assign(variant=three["variant"].replace({"a": "SAF", "b": "VSE++"}))
    line = verdict(Claim("x", "s", "t", ("SAF",), ("VSE++",)), named)
    assert line["needs"] == 3 and np.isfinite(line["low"]), "three are planned of what compares pairs"


def test_no_p_where_all_seeds_are_equal():
    line = verdict(Claim("x", "s", "t", ("a",), ()), rows({"a": [4.22] * 5}))
    assert line["verdict"] == "held" and np.isnan(line["p"]) and np.isnan(line["p Holm"])


@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize("ratio", [0.0, 0.05, 0.3, 1.0, 3.0, 10.0])
def test_the_degrees_of_freedom_keep_the_level(n, ratio):
    """Seeds of variance 1 on two worlds whose images add `ratio` times the seeds' part to the variance of the mean."""
    rng = np.random.default_rng(int(100 * ratio) + n)
    of_worlds = rng.normal(size=(100_000, 2)) * np.sqrt(2 * ratio / n)
    d = rng.normal(size=(100_000, n)) + of_worlds[:, np.arange(n) % 2]
    of_seeds = d.var(axis=1, ddof=1) / n
    degrees = [degrees_of_freedom(a, ratio / n, n) for a in of_seeds]
    p = 2 * student.sf(np.abs(d.mean(axis=1)) / np.sqrt(of_seeds + ratio / n), degrees)
    for level, most in ((0.05, 1.05), (0.005, 1.25), (0.001, 1.6)):  # five standard errors of 100,000 draws
        assert (p < level).mean() <= most * level


@pytest.mark.parametrize(
    ("difference", "bound", "word"),
    [(0.00, 0.0, "equivalent"), (0.04, 0.0, "held"), (0.049, 0.03, "held"), (-0.02, -0.05, "held"),
     (-0.08, -0.05, "contradicted"), (0.2, 0.3, "contradicted"), (-0.03, 0.0, "contradicted")],
)  # fmt: skip
def test_bounds_and_equivalence(difference, bound, word):
    noise = np.array([0.0, 0.003, -0.003, 0.0])
    table = rows({"a": list(2.0 + difference + noise), "b": [2.0] * 4})
    for smaller in (False, True):
        above, below = (("b",), ("a",)) if smaller else (("a",), ("b",))
        claim = Claim("x", "s", "t", above, below, smaller=smaller, bound=100 * bound)
        assert verdict(claim, table)["verdict"] == word


def test_the_shown_comparison_is_the_one_that_decides():
    table = rows({"a": [3.0, 3.1, 2.9], "b": [2.0, 2.1, 2.0], "c": [4.0, 4.2, 3.8], "d": [3.5, 3.6, 3.2]})
    line = verdict(Claim("x", "s", "t", ("a",), ("b", "c", "d")), table)
    assert line["verdict"] == "contradicted" and line["effect"] == pytest.approx(-100)
    alone = verdict(Claim("x", "s", "t", ("a",), ("c",)), table)
    assert line["p"] == pytest.approx(alone["p"]), "the p of the contradicted comparison"


def test_only_registered_rules_and_fresh_worlds_confirm(monkeypatch):
    claim, later = Claim("x", "s", "t", ("a",), ("b",)), "2026-11-23T00:00:00+00:00"
    table = rows(CLEAR).assign(started_utc=later, world=1)
    registers = {
        "confirmatory": {("x", rules.rule_hash(claim)): "2026-11-22T00:00:00+00:00"},
        "exploratory": {("x", rules.rule_hash(claim)): "2026-11-24T00:00:00+00:00"},
    }
    for kind, register in registers.items():
        monkeypatch.setattr("xmr_core.study.claims.fixed", lambda register=register: register)
        assert verdict(claim, table)["kind"] == kind
    monkeypatch.setattr("xmr_core.study.claims.fixed", lambda: registers["confirmatory"])
    assert verdict(claim, table.assign(world=0))["kind"] == "exploratory", "a world of choices"
    assert verdict(Claim("x", "s", "t", ("b",), ("a",)), table)["kind"] == "exploratory", "another rule"


def test_the_register_only_grows_and_holds_each_rule_once(tmp_path):
    claim, path = Claim("x", "s", "t", ("a",), ("b",)), tmp_path / "rules.csv"
    assert rules.register([claim], path) == 1 and rules.register([claim], path) == 0
    first = path.read_text()
    assert rules.register([claim, Claim("x", "s", "t", ("a",), ("b",), bound=5.0)], path) == 1
    assert path.read_text().startswith(first) and len(rules.fixed(path)) == 2


def test_only_common_seeds_count_and_fewer_than_three_decide_nothing():
    table = rows({"a": [3.0, 3.1, None, 2.9], "b": [2.0, None, 1.0, 2.0]})
    line = verdict(Claim("x", "s", "t", ("a",), ("b",)), table)
    assert (line["seeds"], line["verdict"]) == (2, "no verdict yet")


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
    table = pd.concat([rows(CLEAR), rows({"a": CLEAR["b"], "b": CLEAR["a"]}, dataset="coco", size="")])
    claims = [Claim("x", "s", "t", ("a",), ("b",)), Claim("y", "s", "t", ("SAF",), ("b",))]
    found = ledger(table, claims).set_index(["claim", "corpus"])["verdict"]
    assert found.to_dict() == {
        ("x", "scenes (study)"): "held",
        ("x", "coco"): "contradicted",
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
    assert counts(whole) == {"held": 2, "undecided": 1}
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
    assert (line["verdict"], line["effect"]) == ("held", pytest.approx(-0.25)), "the sign is that of the measure"


def test_a_run_made_again_counts_once():
    table = pd.concat([rows({"a": [0.0, 0.0, 0.0], "b": [0.0, 0.1, 0.0]}), rows(CLEAR)])
    assert verdict(Claim("x", "s", "t", ("a",), ("b",)), table)["effect"] == pytest.approx(100)


def test_verdicts_in_words():
    claims = [
        Claim("x", "s", "A beats b.", ("a",), ("b",)),
        Claim("y", "s", "Nobody ran this.", ("SAF",)),
        Claim("z", "s", "Nor this.", ("SAF",)),
    ]
    table = ledger(rows(CLEAR), claims)
    elsewhere = table[table["claim"] == "x"].assign(
        corpus="flickr8k", verdict="no verdict yet", effect=0.5, low=np.nan, seeds=1
    )
    sentence, absent = in_words(pd.concat([table, elsewhere])).split("\n")
    first, second = sentence.split("; ")
    assert first.startswith("- “A beats b”: **held** on scenes (study), +100.0 [")
    assert first.endswith("] (4 seeds, exploratory)")
    assert second == "**no verdict yet** on flickr8k, +0.5 (1 of at least 3 seeds, exploratory)."
    assert absent == "- Not measured yet: “Nobody ran this”, “Nor this”."


def test_claims_have_different_ids_a_source_and_a_rule():
    assert len({c.id for c in CLAIMS}) == len(CLAIMS) > 25
    assert all(
        c.source and c.sentence.endswith(".") and (" above " in c.rule_text() or " below " in c.rule_text())
        for c in CLAIMS
    )
    with pytest.raises(BadInput, match="unknown rule of a claim"):
        Claim("x", "s", "t", ("a",), rule="median")
    with pytest.raises(BadInput, match="list labels"):
        Claim("x", "s", "t", ())


def test_a_claim_that_compares_nothing_is_refused():
    for claim, message in (
        ({"above": "DivE"}, "list labels"),
        ({"below": "VSE++"}, "list labels"),
        ({"below": ("PVSE", "DivE")}, "DivE with itself"),
    ):
        with pytest.raises(BadInput, match=message):
            Claim(**{"id": "x", "source": "s", "sentence": "t", "above": ("DivE",), **claim})


def test_a_label_that_nobody_runs_and_two_claims_of_one_id_are_refused():
    nobody = Claim("x", "s", "t", ("Dive",))
    with pytest.raises(BadInput, match="no method puts the label 'Dive' on its runs; near it are 'DivE'"):
        ledger(rows(CLEAR), [nobody])
    assert ledger(rows({"Dive": CLEAR["a"]}), [nobody])["seeds"].tolist() == [4], "rows of one's own have any label"
    with pytest.raises(BadInput, match="two claims have the id 'x'"):
        ledger(rows(CLEAR), [nobody, nobody])
