"""The tables of the study, from small tables that are made up here: with no rows of the protocol, with some, and with
all."""


import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import xmr_study as study
from xmr_core.base.errors import BadInput
from xmr_study import protocol, records, tidy
from xmr_study.claims import CLAIMS
from xmr_study.claims.claim import VARIANCE, Claim, Measure
from xmr_study.claims.own import CAPACITY
from xmr_study.ledger import DECIDED, unlike_study
from xmr_study.protocol_results import budget_points

NONE = pd.DataFrame(columns=list(tidy.COLUMNS))
NO_RUNS = pd.DataFrame(columns=["label", "dataset", "ambiguity", "world", "seed", "processor", "annotated both rsum"])
LATER = "2100-01-01T00:00:00+00:00"


def rows(name: str, values: list[float], **more) -> pd.DataFrame:
    """Rows of RSUM (percent) of seeds 0, 1, … on worlds 1 and 2, annotated and, ten points higher, exhaustive; with the
    error of the images, two points."""
    fixed = {
        "method": "m", "form": "matched", "dataset": "scenes", "size": "quick", "split": "test", "direction": "both",
        "k": 0, "origin": "ours", "epochs": 72, "best_epoch": 59, "train_seconds": 100.0, "parameters": 1000,
        "started_utc": LATER, "protocol": "full", "n_queries": 10, "variant": name,
    } | more  # fmt: skip
    lines = []
    for seed, value in enumerate(values):
        line = {"run_id": f"{name}-{fixed['epochs']}-{seed}-{fixed['dataset']}", "seed": seed, "world": 1 + seed % 2}
        for kind, extra in (("annotated", 0.0), ("exhaustive", 10.0)):
            line |= {"relevance": kind}
            lines.append(line | {"metric": "rsum", "value": (value + extra) / 100} | fixed)
            lines.append(line | {"metric": "rsum_error", "value": 0.02} | fixed)
    return pd.DataFrame(lines).reindex(columns=list(tidy.COLUMNS))


VALUES = {"VSE∞": [450, 452, 448, 450, 450], "DivE": [470, 468, 472, 471, 469], "SAF": [520, 522, 518, 520, 520]}


def compared() -> pd.DataFrame:
    seconds = {"VSE∞": 100.0, "DivE": 300.0, "SAF": 900.0}
    parts = [rows(name, values, train_seconds=seconds[name]) for name, values in VALUES.items()]
    for name, values in VALUES.items():
        for n in (8, 24):
            less = [v - 500 / n for v in values[:2]]
            parts.append(rows(name, less, epochs=n, train_seconds=seconds[name] * n / 72))
    return pd.concat(parts, ignore_index=True)


# verdicts


def test_the_ledger_holds_every_claim_and_the_verdicts_of_today():
    table = study.ledger()
    decided = table[table["verdict"].isin(DECIDED)]
    assert decided["verdict"].value_counts().to_dict() == {
        "undecided": 30, "held": 32, "contradicted": 22, "equivalent": 4,
    }  # fmt: skip
    sure = decided[decided["corpus"].str.contains("today") & ~decided["verdict"].eq("undecided")]
    assert (sure["p"] <= 0.025).all() and sure["verdict"].nunique() > 1, "of the word that is said"
    assert dict(zip(table["claim"], table["measure"], strict=True)) == {
        c.id: c.rule_text() for c in (*CLAIMS, *CAPACITY)
    }
    assert (decided["low"] <= decided["effect"]).all() and (decided["effect"] <= decided["high"]).all()
    assert (decided["seeds"] >= decided["needs"]).all()
    assert set(study.ledger("dive-k", "dive-sets")["claim"]) == {"dive-k-4", "dive-k-large", "dive-k-one", "dive-sets"}
    with pytest.raises(BadInput, match="dive-k"):
        study.ledger("dive-k-")


def claim(**more) -> Claim:
    return Claim(**({"id": "c", "source": "ours", "sentence": "A.", "above": ("DivE",), "below": ("VSE∞",)} | more))


@pytest.mark.parametrize(
    ("asked", "effect", "word"),
    [
        (claim(), 20.0, "held"),
        (claim(smaller=True), 20.0, "contradicted"),
        (claim(bound=25.0), 20.0, "contradicted"),
        (claim(bound=20.0), 20.0, "undecided"),
        (claim(smaller=True, bound=-25.0), 20.0, "held"),
        (claim(rule="means", above=("DivE", "SAF")), 45.0, "held"),
        (claim(above=("SAF",), below=()), 520.0, "held"),
        (claim(measure=Measure("m", "annotated", "i2t", "recall", 1)), None, None),
    ],
)
def test_a_claim_of_ones_own_is_compared_by_seeds(asked, effect, word):
    table = pd.concat([rows(name, values) for name, values in VALUES.items()])
    lines = study.compared(table, [asked])
    assert lines["verdict"].tolist() == ([word] if word else [])
    if word:
        assert lines["effect"].item() == pytest.approx(effect) and lines["seeds"].item() == 5


def test_seeds_are_paired_and_their_interval_is_students():
    table = pd.concat([rows("DivE", [470.0, 480, 490]), rows("VSE∞", [450.0, 461, 469])])
    (line,) = study.compared(table, [claim()]).to_dict("records")
    differences = np.array([20.0, 19.0, 21.0])
    half = student.ppf(0.975, 2) * differences.std(ddof=1) / 3**0.5
    assert (line["effect"], line["low"], line["high"]) == pytest.approx((20.0, 20 - half, 20 + half))
    few = study.compared(table[table["seed"] < 2], [claim()])
    assert few["verdict"].tolist() == ["undecided"], "two seeds decide nothing"
    both = study.compared(pd.concat([table, rows("PVSE", [1.0] * 3)]), [claim(below=("VSE∞", "PVSE"))])
    assert both["below"].tolist() == ["VSE∞", "PVSE"], "a line for each comparison"


VERDICT = {"claim": "vse-infty-vsepp", "corpus": "scenes (quick)", "verdict": "held", "effect": 69.888}


@pytest.mark.parametrize(
    ("changed", "vse", "says", "differs"),
    [
        ({}, 470.0, {"vse-infty-vsepp": "held"}, False),
        ({}, 430.0, {"vse-infty-vsepp": "contradicted"}, True),
        ({"verdict": "contradicted"}, 470.0, {"vse-infty-vsepp": "held"}, True),
        ({"verdict": "undecided"}, 430.0, {}, False),
        ({"corpus": "flickr8k"}, 430.0, {}, False),
        ({"claim": "dive-pvse"}, 430.0, {}, False),
    ],
)
def test_a_run_that_lies_elsewhere_than_a_verdict_is_told(changed, vse, says, differs):
    """vse-infty-vsepp compares VSE∞ with VSE++; dive-pvse needs PCME too, which the rows lack."""
    made = pd.concat([rows("VSE∞", [vse]), rows("DivE", [vse]), rows("VSE++", [450.0]), rows("PVSE", [450.0])])
    text, said = unlike_study(made, pd.DataFrame([VERDICT | changed]))
    assert said == says and bool(text) is differs
    assert not differs or f"{vse - 450:+.3g} here" in text


def test_a_table_of_a_paper_stands_beside_what_the_study_reached(monkeypatch):
    of = {"metric": "rsum", "relevance": "annotated", "direction": "both", "k": 0}
    values = ((0, "b", 4.0), (1, "b", 4.2), (0, "c", 4.2), (0, "d", 4.4), (1, "d", 4.7))
    lines = [of | {"seed": seed, "variant": name, "value": v} for seed, name, v in values]
    others = [lines[0] | {"relevance": "exhaustive"}]
    monkeypatch.setattr(tidy, "latest", lambda rows: pd.DataFrame(lines + others))
    table = study.beside(pd.DataFrame({"variant": ["a", "b", "c", "d"], "sum": [300.0, 310.0, 305.0, 300.0]}))
    assert table["paper, difference"].tolist() == [-10.0, 0.0, -5.0, -10.0], "from the first line that both have"
    assert table["study, difference"].tolist()[2:] == pytest.approx([20, 45]), "at equal seeds"
    assert table["runs"].tolist() == [0, 2, 1, 2]
    half = 12.706205 * 5  # Student's 97.5 % with 1 degree of freedom, and 40 and 50 at equal seeds
    assert table.loc["d", ["low", "high"]].tolist() == pytest.approx([45 - half, 45 + half], rel=1e-5)
    assert table.loc[["a", "c"], "low"].isna().all(), "no rows, one run"


def test_what_labels_reach_is_of_the_batches_that_have_them_all(monkeypatch):
    """DivE and K=1 on one processor; on another DivE alone, which has 100 points more there."""
    same = {"dataset": "scenes", "ambiguity": 0.05, "collapsed": False, "failure": None}
    one = protocol.canonical()["K=1"]
    made = (("DivE", "a", 5.0, (1, 2, 3, 4)), ("DivE", "b", 4.0, (1, 2)), (one, "b", 3.0, (1, 2)))
    lines = [
        same | {"label": label, "processor": name, "world": world, "seed": seed, "annotated both rsum": value + seed}
        for label, name, value, worlds in made for world in worlds for seed in range(2)
    ]  # fmt: skip
    monkeypatch.setattr(records, "results", lambda: pd.DataFrame(lines))
    own = study.reached(["K=1", "α=16"])
    assert own["mean"].round(6).to_dict() == {"α=16": 450.0, "K=1": 350.0}, "α=16 is DivE, and seeds lie 100 apart"
    assert own["size"].tolist() == [4, 4] and own.index.tolist() == ["K=1", "α=16"]
    (apart,) = study.reached(["K=1", "α=16"], "α=16").to_dict("records")
    assert apart["mean"] == pytest.approx(-100.0) and apart["size"] == 4
    alone = study.reached(["DivE"])
    assert alone["size"].item() == 8, "a world and seed counts once"
    before = study.reached(["K=1", "K=2"])
    assert before["size"].tolist() == [5, 5], "of the protocol before, for today's has no K=2"
    assert study.reached(["DivE"], measure=VARIANCE["images"])["size"].item() == 5, "nor any variance here"


# tables


def test_budgets_have_common_seeds():
    own = compared()
    points = budget_points(own, list(VALUES))
    assert set(points["seeds"]) == {2} and len(points) == 9
    last = points[(points["label"] == "DivE") & (points["epochs"] == 72)].iloc[0]
    assert last["rsum"] == pytest.approx((470 + 468) / 2), "the two seeds that the curve has"
    more = own[(own["variant"] == "DivE") & (own["epochs"] == 72)].assign(epochs=144)
    longer = budget_points(pd.concat([own, more.assign(run_id="l" + more["run_id"])]), list(VALUES))
    assert sorted(longer.loc[longer["label"] == "DivE", "epochs"]) == [8, 24, 72, 144], "72 epochs are a point, too"


def test_a_swept_setting_has_the_runs_that_all_its_values_have(monkeypatch):
    of = {"metric": "rsum", "relevance": "annotated", "direction": "both", "k": 0}
    values = {"α=1": (4.0, 4.2), "α=16": (4.5, 4.6, 4.7), "α=64": (4.6, 4.9)}
    lines = [of | {"seed": n, "variant": name, "value": v} for name, own in values.items() for n, v in enumerate(own)]
    monkeypatch.setattr(tidy, "latest", lambda rows: pd.DataFrame(lines))
    monkeypatch.setattr(records, "results", lambda: NO_RUNS)
    curve = study.swept("α", (1, 2, 16, 64))
    assert curve[["setting", "seed"]].values.tolist() == [[x, n] for x in (1, 16, 64) for n in (0, 1)]
    assert curve["rsum"].tolist() == pytest.approx([400, 420, 450, 460, 460, 490])
    half = 12.706205 * 10  # Student's 97.5 % with 1 degree of freedom
    assert curve.loc[0, ["low", "high"]].tolist() == pytest.approx([410 - half, 410 + half], rel=1e-5)
    same = {"dataset": "scenes", "ambiguity": 0.05, "collapsed": False, "failure": None, "processor": "a"}
    today = [
        same | {"label": label, "world": world, "seed": seed, "annotated both rsum": value + seed / 100 + world / 10}
        for label, value in (("α=1", 4.0), ("DivE", 5.0), ("α=64", 5.5)) for world in (1, 2) for seed in (0, 1)
    ]  # fmt: skip
    monkeypatch.setattr(records, "results", lambda: pd.DataFrame(today))
    curve = study.swept("α", (1, 16, 64))
    assert curve.groupby("setting")["rsum"].apply(list)[16] == pytest.approx([510, 511, 520, 521]), "α=16 is DivE"
    assert curve.groupby("setting")["rsum"].mean().tolist() == pytest.approx([415.5, 515.5, 565.5])
    assert (curve["low"] < curve["high"]).all() and len(curve) == 12
    again = [line | {"processor": "b", "annotated both rsum": line["annotated both rsum"] - 1} for line in today]
    monkeypatch.setattr(records, "results", lambda: pd.DataFrame(again[:4] + today + again[4:]))
    means = [study.swept("α", (1, 16, 64)).groupby("setting")["rsum"].mean(), study.reached(["α=1", "α=16"])["mean"]]
    assert means[0].tolist() == pytest.approx([315.5, 415.5, 465.5]), "each world and seed of one processor alone"
    assert means[1].sort_values().tolist() == pytest.approx([315.5, 415.5])
