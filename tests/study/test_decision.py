"""The protocol's decisions against loops that are written from its page."""

import dataclasses
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats

from xmr_core.base.errors import BadInput
from xmr_study import decision, protocol
from xmr_study.claims import CLAIMS
from xmr_study.claims.claim import RSUM, Claim, Measure
from xmr_study.claims.pcme import PRECISION
from xmr_study.decision import Comparison, compare, moderated, prior, verdicts

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from simulate_power import power

MAP = Measure("mAP@R", "exhaustive", "i2t", "map_at_r", factor=100)


def rows(values: dict[str, list[list[float]]], name: str = "annotated both rsum", processor: str = "A") -> pd.DataFrame:
    """label → percent by world (from 1) and seed."""
    lines = [
        {
            "label": label,
            "world": world,
            "seed": seed,
            "processor": processor,
            "ambiguity": 0.05,
            "dataset": "scenes",
            "failure": None,
            name: value / 100,
        }
        for label, worlds in values.items()
        for world, seeds in enumerate(worlds, 1)
        for seed, value in enumerate(seeds)
    ]
    return pd.DataFrame(lines)


def claim(**more) -> Claim:
    return Claim(**({"id": "c", "source": "P, Table 1", "sentence": "A.", "above": ("a",), "below": ("b",)} | more))


def drawn(mean: float, sd: float, seed: int, worlds: int = 4, seeds: int = 3) -> list[list[float]]:
    return np.random.default_rng(seed).normal(mean, sd, (worlds, seeds)).tolist()


def test_runs_are_paired_by_world_seed_and_processor():
    table = rows({"a": [[10.0, 20.0], [30.0, 40.0]], "b": [[1.0, 2.0], [3.0, 4.0]]})
    (own,) = compare(table, claim(bound=2.0))
    assert own.name == "a against b" and own.differences.round(6).tolist() == [7.0, 16.0, 25.0, 34.0]
    (turned,) = compare(table, claim(smaller=True, bound=-2.0))
    assert turned.differences.round(6).tolist() == [-7.0, -16.0, -25.0, -34.0]
    other = pd.concat([table[table["label"] == "a"], rows({"b": [[0.0, 0.0], [0.0, 0.0]]}, processor="B")])
    assert not len(compare(other, claim())[0].differences), "no pair of one processor"
    both = compare(pd.concat([table, rows({"c": [[0.0, 0.0], [0.0, 0.0]]})]), claim(below=("b", "c")))
    assert [c.name for c in both] == ["a against b", "a against c"] and both[1].differences.iloc[0] == pytest.approx(10)
    asked = table.assign(**{"exhaustive i2t map_at_r": [0.1] * 4 + [np.nan] * 4})  # of b nobody asked it
    assert compare(asked, claim(measure=MAP)) == [] and len(compare(asked, claim(measure=MAP, below=()))) == 1
    (mean,) = compare(table, claim(rule="means", above=("a", "b"), below=()))
    assert mean.differences.iloc[0] == pytest.approx(5.5)
    assert not compare(table, claim(below=("nobody",))) and not compare(table, claim(measure=MAP))


def test_a_measure_of_both_directions_is_the_mean_of_their_columns():
    table = rows({"a": shifted(430.0), "b": [[400.0] * 3] * 4})
    table["exhaustive i2t r_precision"] = table["annotated both rsum"] / 10
    table["exhaustive t2i r_precision"] = table["annotated both rsum"] / 30
    of_both = decision.paired(table, PRECISION, ("a",), ("b",))
    assert of_both.tolist() == pytest.approx((decision.paired(table, RSUM, ("a",), ("b",)) / 15).tolist())
    without = table.drop(columns="exhaustive t2i r_precision")
    assert not compare(without, claim(measure=PRECISION)), "one direction is no mean of both"


def test_differences_are_described_at_every_ambiguity():
    table = rows({"a": shifted(420.0)[:2], "b": [[400.0] * 3] * 2, "c": shifted(410.0)[:2]})
    vague = table[table["label"] != "c"].assign(ambiguity=0.5)
    vague.loc[vague["label"] == "a", "annotated both rsum"] -= 0.5
    lone = table.assign(ambiguity=0.9)[table["seed"] == 0]
    out = decision.effects(pd.concat([table, vague, lone]), [("a", "b"), ("c", "b")], [decision.RSUM])
    assert out[["ambiguity", "above", "runs"]].values.tolist() == [[0.05, "a", 6], [0.05, "c", 6], [0.5, "a", 6]]
    assert out["effect"].tolist() == pytest.approx([20, 10, -30]) and (out["low"] < out["effect"]).all()
    assert out["by world"].iloc[2] == "1: -30.0 2: -30.0" and (out["high"] > out["effect"]).all()


def by_hand(comparisons: list[list[list[float]]]) -> list[tuple[float, float, float]]:
    """(mean, error, degrees of freedom) of comparisons given by world and seed, from the equations of the page."""
    variances, freedoms = [], []
    for worlds in comparisons:
        squares = sum(sum((v - sum(own) / len(own)) ** 2 for v in own) for own in worlds)
        freedoms.append(sum(len(own) - 1 for own in worlds))
        variances.append(squares / freedoms[-1])
    e = [
        math.log(s) - float(special.digamma(f / 2)) + math.log(f / 2) for s, f in zip(variances, freedoms, strict=True)
    ]
    centre = sum(e) / len(e)
    more = sum((x - centre) ** 2 for x in e) / (len(e) - 1)
    more -= sum(float(special.polygamma(1, f / 2)) for f in freedoms) / len(freedoms)
    if more > 0:
        half = optimize.brentq(lambda x: special.polygamma(1, x) - more, 1e-6, 1e7)
        common, lent = math.exp(centre + float(special.digamma(half)) - math.log(half)), min(2 * half, 4.0)
    else:
        common, lent = math.exp(centre), 4.0
    out = []
    for worlds, s, f in zip(comparisons, variances, freedoms, strict=True):
        pooled = (lent * common + f * s) / (lent + f)
        error = math.sqrt(pooled * sum(1 / len(own) for own in worlds)) / len(worlds)
        mean = sum(sum(own) / len(own) for own in worlds) / len(worlds)
        out.append((mean, error, min(lent + f, sum(freedoms))))
    return out


@pytest.mark.parametrize("sds", [(9.0, 9.5, 10.0, 9.2), (2.0, 9.0, 40.0, 5.0), (3.0, 3.0)])
def test_the_moderated_t_is_that_of_the_page(sds):
    values = [drawn(5.0, sd, n) for n, sd in enumerate(sds)]
    values[0][1] = values[0][1][:2]  # a seed is missing
    own = [
        Comparison("", pd.Series({(w, s): v for w, of in enumerate(worlds) for s, v in enumerate(of)}))
        for worlds in values
    ]
    own = [c._replace(differences=c.differences.rename_axis(["world", "seed"])) for c in own]
    for made, wanted in zip(moderated(own), by_hand(values), strict=True):
        assert tuple(made) == pytest.approx(wanted, rel=1e-6)
        assert made.above(0) == pytest.approx(1 - stats.t.cdf(made.mean / made.error, made.freedom), abs=1e-12)
        assert made.above(3) == pytest.approx(1 - made.below(3)) and made.interval()[0] < made.mean


def test_what_vague_captions_cost_is_read_from_the_runs_on_common_images():
    level = {"VSE∞, InfoNCE, annotated": 400.0, "DivE, InfoNCE, annotated": 410.0, "VSE∞, InfoNCE, true": 320.0,
             "VSE∞, InfoNCE, left out": 390.0, "VSE∞, hinge, annotated": 380.0}  # fmt: skip
    table = rows({label: [[v, v + 1], [v + 2, v + 3]] for label, v in level.items()}).assign(
        part="ambiguity", ambiguity=0.1
    )
    for name, by in (("exhaustive both rsum", 2), ("exhaustive i2t map_at_r", 3), ("exhaustive t2i map_at_r", 4)):
        table[name] = by * table["annotated both rsum"]
    elsewhere = table.assign(part="comparison", **{"annotated both rsum": 0.0})
    both = pd.concat([elsewhere, table])
    oracles = decision.false_negatives(both).set_index(["above", "measure"])["effect"]
    expected = {"VSE∞, InfoNCE, left out": -10.0, "VSE∞, InfoNCE, true": -80.0}
    assert oracles.xs("RSUM annotated", level=1).to_dict() == pytest.approx(expected)
    assert oracles["VSE∞, InfoNCE, true"].tolist() == pytest.approx([-80, -160, -240, -320])
    pays = decision.paying(both).set_index(["above", "measure"])["effect"]
    assert pays.xs("RSUM, all true answers", level=1).to_dict() == pytest.approx(
        {"DivE, InfoNCE, annotated": 20.0, "VSE∞, hinge, annotated": -40.0}
    )


def test_no_comparison_has_more_degrees_than_all_together():
    index = pd.MultiIndex.from_tuples([(1, 0), (1, 1)], names=["world", "seed"])
    own = [Comparison("", pd.Series(values, index)) for values in ([1.0, 3.0], [1.0, 3.2], [1.0, 3.4])]
    assert {estimate.freedom for estimate in moderated(own[:2])} == {2} and prior([2.0, 2.42], [1, 1])[1] > 2
    assert {estimate.freedom for estimate in moderated(own)} == {3}


def test_claims_of_one_number_lend_whatever_they_call_it():
    table = rows({"a": drawn(9.0, 9.0, 0), "b": drawn(0.0, 1.0, 1), "c": drawn(0.0, 30.0, 2)})
    alone, together, renamed = (
        verdicts(table, [claim(), *(claim(id="d", above=("c",), measure=m) for m in more)]).loc[0, "high"]
        for more in ((), (RSUM,), (dataclasses.replace(RSUM, name="another name"),))
    )
    assert together == renamed != alone


def test_a_comparison_that_is_named_twice_lends_itself_nothing():
    own = drawn(5.0, 9.0, 0)
    series = pd.Series({(w, s): v for w, of in enumerate(own) for s, v in enumerate(of)}).rename_axis(["world", "seed"])
    for others in ([series], [-series + 3.0]):
        made = moderated([Comparison("", own) for own in (series, *others)])
        assert {estimate.freedom for estimate in made} == {8}
    constant = moderated([Comparison("", series * 0 + 2.0), Comparison("", series)])
    assert constant[0].mean == pytest.approx(2) and constant[0].above(0) < 1e-6, "no spread of its own"


def test_a_run_that_failed_leaves_its_pair_out_and_the_verdict_stands():
    table = rows({"a": shifted(420.0), "b": shifted(400.0)})
    table.loc[0, ["annotated both rsum", "failure"]] = np.nan, "TrainingFailed: it diverged"
    line = verdicts(table, [claim()]).iloc[0]
    assert line["verdict"] == "held" and abs(line["effect"] - 20) < 1 and line["runs"] == 12
    assert compare(table, claim())[0].differences.size == 11


def test_labels_of_one_run_are_one():
    table = rows({"DivE": shifted(420.0), "VSE++": shifted(400.0)})
    asked = claim(above=("smooth-Chamfer, slots",), below=("single vector",))
    assert verdicts(table, [asked])["verdict"].item() == "held" and decision.needed(asked) == 12


def test_of_two_processors_the_first_one_counts():
    second = rows({"a": shifted(500.0), "b": shifted(400.0)}, processor="B")
    first = rows({"a": shifted(420.0), "b": shifted(400.0)}, processor="Z")
    (own,) = compare(pd.concat([first, second]), claim())
    assert own.differences.round(6).unique().tolist() == [20.0] and len(own.differences) == 12


def test_one_run_a_world_has_no_spread_and_is_refused():
    single = pd.Series([1.0, 2.0], pd.MultiIndex.from_tuples([(1, 0), (2, 0)], names=["world", "seed"]))
    with pytest.raises(BadInput, match="two seeds"):
        moderated([Comparison("", single)])


@given(st.lists(st.floats(0.01, 1e4), min_size=2, max_size=20), st.integers(1, 30))
def test_a_prior_lies_among_the_variances(variances, freedom):
    common, lent = prior(variances, [freedom] * len(variances))
    assert common > 0 and lent > 0
    scaled = prior([7 * v for v in variances], [freedom] * len(variances))
    assert scaled[0] == pytest.approx(7 * common, rel=1e-4), "of another unit"
    assert scaled[1] == lent or scaled[1] == pytest.approx(lent, rel=1e-3)


def test_a_single_comparison_is_students():
    own = drawn(5.0, 3.0, 0)
    series = pd.Series({(w, s): v for w, of in enumerate(own) for s, v in enumerate(of)}).rename_axis(["world", "seed"])
    (made,) = moderated([Comparison("", series)])
    assert made.freedom == 8 and made.error == pytest.approx(np.sqrt(np.var(own, axis=1, ddof=1).mean() / 12))


NOISE = [[0.0, 1.0, -1.0]] * 4


def shifted(by: float) -> list[list[float]]:
    return [[v + by for v in of] for of in NOISE]


@pytest.mark.parametrize(
    ("effects", "word"),
    [((20.0,), "held"), ((-20.0,), "contradicted"), ((20.0, 20.0), "held"), ((20.0, -20.0), "contradicted"),
     ((20.0, 0.0), "undecided"), ((0.5, -0.5), "equivalent"), ((20.0, 0.5), "undecided")],
)  # fmt: skip
def test_a_claim_needs_all_its_comparisons_and_falls_by_one(effects, word):
    names = [f"b{n}" for n in range(len(effects))]
    noise = {"wide": drawn(0.0, 4.0, 1), "narrow": [[0.0] * 3] * 4}["wide" if 0.0 in effects else "narrow"]
    table = rows(
        {"a": shifted(400.0)}
        | {name: [[400.0 - e + x for x in of] for of in noise] for name, e in zip(names, effects, strict=True)}
    )
    line = verdicts(table, [claim(below=tuple(names))]).iloc[0]
    assert line["verdict"] == word
    worst = min(effects)
    assert abs(line["effect"] - worst) < 4 and line["low"] < line["effect"] < line["high"]
    assert line["runs"] == 12 and line["worlds"] == 4 and line["by world"].startswith("1: ")


@pytest.mark.parametrize(
    ("measure", "by", "word"),
    [
        (MAP, 0.1, "equivalent"),
        (MAP, 0.6, "undecided"),
        (MAP, 2.0, "held"),
        (Measure("ρ", "", "i2t", "rho"), 0.1, "undecided"),
    ],
)
def test_single_metrics_are_equal_within_a_point_and_what_has_no_points_never(measure, by, word):
    table = rows(
        {"a": shifted(by), "b": [[0.0] * 3] * 4}, name := decision.column(measure.relevance, "i2t", measure.metric)
    )
    table[name] *= 100 / measure.factor
    assert verdicts(table, [claim(measure=measure)])["verdict"].item() == word


def test_claims_of_a_paper_are_corrected_together_and_no_others():
    """p of .02 decides alone, and not among three claims."""
    alone = None
    for by in np.linspace(0.2, 1.5, 60):
        table = rows({"a": shifted(400 + by), "b": [[400.0] * 3] * 4, "c": shifted(400.0)})
        line = verdicts(table, [claim()]).iloc[0]
        if 0.01 < line["p held"] < 0.02:
            alone = table
            break
    assert alone is not None and verdicts(alone, [claim()])["verdict"].item() in ("held", "equivalent")
    others = [claim(id=f"o{n}", above=("c",)) for n in (1, 2)]
    same = verdicts(alone, [claim(), *others]).set_index("claim")
    p = same.loc["c", "p held"]
    assert p > 0.025 / 3 and same.loc["c", "verdict"] != "held"
    apart = verdicts(alone, [claim(), *(claim(id=o.id, above=("c",), source="Q, Table 2") for o in others)])
    assert apart.set_index("claim").loc["c", "p held"] == pytest.approx(p)
    assert apart.set_index("claim").loc["c", "verdict"] == "held"


def test_the_effect_of_a_claim_is_shown_as_it_is_and_not_as_it_was_turned():
    table = rows({"a": shifted(400.0), "b": shifted(430.0)})
    line = verdicts(table, [claim(smaller=True, bound=10.0)]).iloc[0]
    assert line["verdict"] == "held" and line["effect"] == pytest.approx(-30) and line["low"] < -30 < line["high"]
    assert line["by world"] == "1: -30.0 2: -30.0 3: -30.0 4: -30.0"


def test_a_bound_says_nothing_about_being_equal():
    table = rows({"a": shifted(400.0), "b": [[405.0] * 3] * 4})
    line = verdicts(table, [claim(bound=-5.0)]).iloc[0]
    assert line["verdict"] == "undecided" and line["p equivalent"] > 0.9, "5 points below is not equal"
    assert verdicts(rows({"a": [[0.0, 0.1, -0.1]] * 4}), [claim(below=())])["p equivalent"].item() == 1, "to nothing"


def test_there_is_no_verdict_before_all_planned_runs_and_none_from_the_world_that_chose():
    table = rows({"a": shifted(420.0)[:2], "b": shifted(400.0)[:2]})
    assert verdicts(table, [claim()])["verdict"].item() == "held"
    assert verdicts(table[1:], [claim()])["verdict"].item() == "no verdict yet"
    assert verdicts(table.assign(world=0), [claim()])["verdict"].item() == "not measured"
    light = table.assign(label=table["label"].map({"a": "DivE", "b": "PVSE"}))
    assert verdicts(light, [claim(above=("DivE",), below=("PVSE",))])["verdict"].item() == "no verdict yet", "of 12"


def test_a_claim_without_its_runs_counts_in_its_family():
    base = {"a": shifted(401.4), "b": [[400.0] * 3] * 4}
    alone = verdicts(rows(base), [claim()]).iloc[0]
    assert alone["verdict"] == "held" and alone["p held"] > 0.025 / 41
    lacking = [claim(id=f"l{n}", above=("c",)) for n in range(40)]
    both = verdicts(rows(base | {"c": shifted(500.0)[:1]}), [claim(), *lacking]).set_index("claim")
    assert both.loc["l0", "verdict"] == "no verdict yet" and both.loc["c", "verdict"] != "held"


def test_what_has_no_rows_is_not_measured():
    assert verdicts(rows({"a": NOISE}), [claim()])["verdict"].tolist() == ["not measured"]


def test_the_family_error_stays_below_its_level_with_unequal_variances():
    table = power([0.0], 4, 3, [6.0, 10.0, 35.0], claims=6, trials=600)
    assert table["family error"].item() < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)
    assert power([15.0], 4, 3, [9.0, 12.0], claims=6, trials=200)["held"].item() > 0.9


def test_what_a_paper_prints_stands_beside_what_can_be_seen():
    own = {c.id: decision.printed_effect(c) for c in CLAIMS}
    assert own["sgraf-graph"][0] == pytest.approx((75.2 + 96.6 + 56.2 + 86.5) - (62.4 + 92.6 + 46.0 + 83.1))
    assert own["sgraf-graph"][1] == (1, 10) and own["dive-k-large"][1] == (1, 5, 10)
    assert own["dive-k-large"][0] == pytest.approx((500.8 + 498.4 + 499.3) / 3 - (492.6 + 495.5 + 497.4) / 3)
    assert own["scan-vsepp"] is None and own["dive-ambiguous-wide-i2t"] is None, "nothing printed, or no RSUM"
    seen = {c.id: decision.can_be_seen(c) for c in CLAIMS}
    assert seen["dive-slots-global"] and seen["dive-vse-infty"] is False and seen["scan-vsepp"] is None
    assert seen["sgraf-saf-t2i"], "19.4 points of four recalls, where six need 20"


def test_levels_have_their_mean_with_and_without_collapsed_runs():
    values = {"a": [[10.0, 12.0, 200.0], [20.0, 22.0, 24.0]], "b": [[300.0, 310.0, 305.0], [290.0, 295.0, 300.0]]}
    table = rows(values).assign(collapsed=False)
    table.loc[(table["label"] == "a") & (table["world"] == 1) & (table["seed"] == 2), "collapsed"] = True
    out = decision.levels(table, ["a", "b", "nobody"])
    assert out["label"].tolist() == ["b", "a"] and out["runs"].tolist() == [6, 6]
    a = out.set_index("label").loc["a"]
    assert a["mean"] == pytest.approx((222 / 3 + 66 / 3) / 2) and a["collapsed"] == pytest.approx(100 / 6)
    assert a["mean without"] == pytest.approx((22 / 2 + 66 / 3) / 2) and a["by world"] == "1: 74.0 2: 22.0"
    estimate = moderated([Comparison("", s) for s in (decision.paired(table, decision.RSUM, (n,)) for n in "ab")])[0]
    assert (a["low"], a["high"]) == pytest.approx(estimate.interval())
    assert decision.levels(table[table["seed"] == 0], ["a"]).empty, "one seed has no spread"
    again = table.assign(processor="B", **{"annotated both rsum": table["annotated both rsum"] - 1})
    mixed = pd.concat([table[table["label"] == "a"], again, table[table["label"] == "b"]])
    assert decision.levels(mixed, ["a", "b"]).equals(out), "two processors that have both do not mix"


def test_methods_have_what_they_reach_and_what_it_costs():
    values = {"DivE": [[400.0, 410.0], [420.0, 430.0]], "PVSE": [[390.0, 380.0], [370.0, 360.0]], "SAF": [[500.0]]}
    more = {"collapsed": False, "epochs": 144, "lr": 2e-3, "parameters": 9, "exhaustive both rsum": 5.0}
    table = rows(values).assign(train_seconds=[10.0, 30.0, 20.0, 40.0, 1.0, 2.0, 3.0, 4.0, 5.0], **more)
    elsewhere = table[table["label"] == "DivE"].assign(processor="B", train_seconds=1000.0, seed=9)
    others = [table.assign(**{name: value}) for name, value in (("ambiguity", 0.5), ("world", 0), ("label", "α=8"))]
    scoring = pd.DataFrame({"label": ["SAF", "DivE"], "ms": [900.0, 8.0]})
    out = decision.methods(pd.concat([table, *others]), scoring).set_index("label")
    assert list(out.index) == ["SAF", "DivE", "PVSE"] and out["runs"].tolist() == [1, 4, 4]
    assert out["rsum"].tolist() == pytest.approx([500, 415, 375]) and out["rsum low"].isna().tolist() == [1, 0, 0]
    assert out.loc["DivE", "rsum low"] == decision.levels(table, ["DivE", "PVSE"])["low"][0]
    assert out["rsum exhaustive"].tolist() == pytest.approx([500] * 3) and out["epochs"].tolist() == [144] * 3
    assert out["train seconds"].tolist() == [5.0, 25.0, 2.5] and out["scoring ms"].tolist()[:2] == [900.0, 8.0]
    assert decision.methods(table[:0], scoring).empty
    again = table[table["label"] == "SAF"].assign(processor="B", **{"annotated both rsum": 1.0})
    assert decision.methods(pd.concat([table, again]), scoring).loc[0, ["runs", "rsum"]].tolist() == [1, 500.0]
    alone = table[table["label"] == "DivE"].assign(processor="B", **{"annotated both rsum": 1.0})
    kept = decision.methods(pd.concat([alone, table]), scoring).set_index("label")
    assert kept.loc["DivE", "rsum"] == pytest.approx(415), "the run that stands beside most methods counts"
    two = decision.methods(pd.concat([elsewhere, table]), scoring).set_index("label")
    assert two["train seconds"].tolist() == [5.0, 25.0, 2.5], "the processor that trained most of the methods"


def test_photographs_have_the_runs_of_the_rate_that_is_chosen_there():
    more = {"dataset": "flickr8k", "world": 0, "collapsed": False, "epochs": 40, "parameters": 9, "train_seconds": 1.0}
    tried = [
        rows({name: [[value, value + 2 * better]]}).assign(lr=rate, validation=400.0 + better, **more)
        for name, value in (("DivE", 280.0), ("PVSE", 270.0))
        for better, rate in enumerate(protocol.PHOTOGRAPH_RATES)
    ]
    pairs = rows({"CHAN": [[300.0]]}).assign(lr=protocol.PHOTOGRAPH_RATE, validation=1.0, **more)
    table = pd.concat([*tried[:-1], pairs], ignore_index=True).assign(**{"human both rsum": 3.0})
    out = decision.methods(table, pd.DataFrame({"label": [], "ms": []}), "flickr8k").set_index("label")
    assert list(out.index) == ["CHAN", "DivE"], "of PVSE not all rates have rows"
    assert out["lr"].tolist() == [protocol.PHOTOGRAPH_RATE, protocol.PHOTOGRAPH_RATES[-1]]
    assert out["rsum"].tolist() == pytest.approx([300.0, 283.0])
    assert out["rsum human"].tolist() == pytest.approx([300.0, 300.0]) and "rsum exhaustive" not in out


def test_agreement_is_kendalls_tau_of_each_whole_batch_of_one_processor():
    labels, x, y = ["a", "b", "c", "d"], [4.0, 1.0, 3.0, 2.0], [4.0, 2.0, 3.0, 1.0]
    whole = pd.DataFrame({"label": labels, "x": x, "y": y, "world": 1, "seed": 0, "processor": "A", "failure": None})
    broken = whole.assign(seed=1)[:3], whole.assign(seed=1, processor="B")[3:], whole.assign(world=0)
    taus = decision.agreement(pd.concat([whole, *broken, whole.assign(world=2, y=[-v for v in x])]), labels, "x", "y")
    alike = sum(math.copysign(1, (x[i] - x[j]) * (y[i] - y[j])) for i in range(4) for j in range(i))
    assert taus.to_dict() == {(1, 0): pytest.approx(alike / 6), (2, 0): pytest.approx(-1.0)}


def test_noise_is_what_seeds_and_common_images_leave():
    rng = np.random.default_rng(0)
    added = {name: rng.normal(size=(3, 20)) for name in "abc"}
    seeds = [sum((v - sum(own.mean(1)) / 3) ** 2 for v in own.mean(1)) / 2 for own in added.values()]
    images = []
    for first, second in ("ab", "ac", "bc"):
        d = [sum(added[first][s][i] - added[second][s][i] for s in range(3)) / 3 for i in range(20)]
        images.append(sum((v - sum(d) / 20) ** 2 for v in d) / 19 / 20)
    for runs in (1, 3):
        wanted = 1.96 * math.sqrt(2 * sum(seeds) / 3 / runs + sum(images) / 3)
        assert decision.noise(added, runs) == pytest.approx(wanted)
