"""The tables, figures and sentences of the study, from small tables that are made up here: with no rows of the
protocol, with some, and with all."""

import argparse
import math
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress, norm
from scipy.stats import t as student

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import run_study  # noqa: E402

from xmr_core.base.errors import BadInput  # noqa: E402
from xmr_core.study import ambiguity_results as ambiguity  # noqa: E402
from xmr_core.study import claims, decision_rows, ensembles, findings, jobs, progress, results, rules  # noqa: E402
from xmr_core.study.again import later_rows, trained_again  # noqa: E402
from xmr_core.study.ambiguity_jobs import AMBIGUITIES, ambiguity_label  # noqa: E402
from xmr_core.study.ambiguity_trends import ambiguity_trends, trend_sentences  # noqa: E402
from xmr_core.study.budgets import deciding_and_budgets  # noqa: E402
from xmr_core.study.changed_verdicts import changed_verdicts  # noqa: E402
from xmr_core.study.claims_data.claim import Claim  # noqa: E402
from xmr_core.study.decision_rows import deciding, protocol_rows  # noqa: E402
from xmr_core.study.method_results import (  # noqa: E402
    at_equal_time,
    budget_points,
    dominated,
    mean_interval,
    method_results,
    protocol_results,
)
from xmr_core.study.protocol import labels  # noqa: E402
from xmr_core.study.seeds_apart import apart_sentence, seeds_apart  # noqa: E402
from xmr_core.study.sensitivity import sensitivity  # noqa: E402
from xmr_core.study.swept_settings import beside_control, swept, swept_sentence  # noqa: E402
from xmr_core.ui import plots  # noqa: E402

NONE = pd.DataFrame(columns=list(results.COLUMNS))
NO_CURVES = pd.DataFrame(columns=["run_id", "epoch", "value"])
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
    return pd.DataFrame(lines).reindex(columns=list(results.COLUMNS))


def tuned(best: int = 2) -> pd.DataFrame:
    """A row of validation for every trial; trial `best` wins everywhere."""
    lines = [
        {"variant": f"{label}, tuning {n}", "metric": "val_rsum", "value": 3.0 + (n == best), "seed": 0, "world": 0,
         "run_id": f"{label}{n}", "dataset": "scenes", "epochs": 24, "best_epoch": 20, "train_seconds": 36.0,
         "relevance": "annotated", "direction": "both", "k": 0, "origin": "ours", "started_utc": LATER,
         "parameters": 1000, "size": "quick", "n_queries": 1}
        for label in labels() for n in range(1, 8)
    ]  # fmt: skip
    return pd.DataFrame(lines).reindex(columns=list(results.COLUMNS))


VALUES = {"VSE∞": [450, 452, 448, 450, 450], "DivE": [470, 468, 472, 471, 469], "SAF": [520, 522, 518, 520, 520]}


def compared() -> pd.DataFrame:
    seconds = {"VSE∞": 100.0, "DivE": 300.0, "SAF": 900.0}
    parts = [rows(name, values, train_seconds=seconds[name]) for name, values in VALUES.items()]
    for name, values in VALUES.items():
        for n in (8, 24):
            less = [v - 500 / n for v in values[:2]]
            parts.append(rows(f"{name}, {n} epochs", less, epochs=n, train_seconds=seconds[name] * n / 72))
    return pd.concat([tuned(), *parts], ignore_index=True)


def stored(folder: Path, table: pd.DataFrame) -> Path:
    results.append(table.assign(git_dirty=False), folder / "results.csv")
    scoring = pd.DataFrame({"label": ["VSE∞", "DivE", "SAF"], "ms": [5.0, 250.0, 9000.0]})
    scoring.to_csv(folder / "scoring.csv", index=False)
    return folder


# tables


def test_the_interval_of_a_method_carries_seeds_and_images_of_its_worlds():
    values = pd.DataFrame({"value": [450.0, 452.0, 448.0], "error": 2.0, "world": [1, 2, 1]})
    mean, low, high = mean_interval(values)
    half = 4.302653 * math.sqrt(4 / 3 + 4 / 2)  # Student's 97.5 % with 2 degrees of freedom
    assert (mean, low, high) == pytest.approx((450, 450 - half, 450 + half))
    one = mean_interval(values.iloc[:1])
    assert one[2] - one[0] == pytest.approx(1.959964 * 2), "one seed: images alone"
    assert mean_interval(values.iloc[:1].assign(error=float("nan")))[1] != mean_interval(values)[1]


def test_the_table_has_quality_epochs_trial_and_cost(tmp_path):
    table = protocol_results(folder=stored(tmp_path, compared()))
    assert table["label"].tolist() == ["SAF", "DivE", "VSE∞"], "the best first"
    line = table.set_index("label").loc["DivE"]
    assert (line["rsum"], line["rsum exhaustive"], line["seeds"]) == pytest.approx((470, 480, 5))
    assert (line["trial"], line["best epoch"], line["train seconds"], line["scoring ms"]) == (2, 60, 300, 250)
    assert line["rsum low"] < 470 < line["rsum high"]
    assert protocol_results(folder=tmp_path / "none").empty and protocol_results("flickr8k", tmp_path).empty


def test_some_methods_without_scoring_times_are_shown_all_the_same(tmp_path):
    table = method_results(
        rows("DivE", [470.0]), ["DivE", "SAF"], scoring=pd.DataFrame({"label": ["SAF"], "ms": [1.0]})
    )
    assert table["label"].tolist() == ["DivE"] and table["scoring ms"].isna().all()
    assert len(plots.pareto(table).axes) == 1, "no panel for a cost that nobody has"


def test_a_seed_that_ends_far_from_the_others_is_named_and_counts():
    near = [470.0, 472.0, 468.0, 471.0, 474.0]
    table = seeds_apart(pd.concat([rows("VSE∞", [*near, 361.5]), rows("DivE", [*near, 455.0])]), labels())
    assert table[["label", "seeds", "seed"]].values.tolist() == [["VSE∞", 6, 5]], "455 is within what the others spread"
    assert table["others"].tolist() == pytest.approx([471.0]) and table["median"].tolist() == pytest.approx([470.5])
    assert seeds_apart(rows("VSE∞", [470.0, 471.0, 361.5]), labels()).empty, "three seeds are too few to tell"
    alike = [470.0, 470.0, 470.0, 470.1, 481.0]
    assert seeds_apart(rows("VSE∞", alike), labels()).empty, "the images alone move a value by two points"
    assert apart_sentence(table).startswith("One of 6 seeds of VSE∞ ended at 361.5 (") and not apart_sentence(table[:0])
    two = seeds_apart(rows("VSE∞", [*near, *near, 361.5, 360.0]), labels())
    assert apart_sentence(two).startswith("2 of 12 seeds of VSE∞ ended at 361.5, 360.0 (median")


def test_who_is_dominated():
    table = pd.DataFrame({"rsum": [9.0, 8.0, 8.0, 7.0, 9.5], "ms": [5.0, 1.0, 1.0, float("nan"), 5.0]})
    assert dominated(table, "ms").tolist() == [True, False, False, False, False], "equals do not beat each other"


def test_budget_curves_take_common_seeds_and_time_is_interpolated(tmp_path):
    points = budget_points(deciding_and_budgets(compared()), list(VALUES))
    assert set(points["seeds"]) == {2} and len(points) == 9
    last = points[(points["label"] == "DivE") & (points["epochs"] == 72)].iloc[0]
    assert last["rsum"] == pytest.approx((470 + 468) / 2), "the two seeds that the curve has"
    own = compared()
    alone = own[~own["variant"].str.startswith("DivE, ")]
    assert set(budget_points(deciding_and_budgets(alone), list(VALUES))["label"]) == {*VALUES} - {"DivE"}, "no curve"
    more = own[own["variant"] == "DivE"].assign(variant="DivE, 144 epochs", epochs=144)
    longer = budget_points(
        deciding_and_budgets(pd.concat([own, more.assign(run_id="l" + more["run_id"])])), list(VALUES)
    )
    assert sorted(longer.loc[longer["label"] == "DivE", "epochs"]) == [8, 24, 72, 144], "72 epochs are a point, too"
    equal = at_equal_time(points).set_index("label")
    assert equal.loc["DivE", "epochs"] == pytest.approx(24) and equal.loc["DivE", "rsum"] == pytest.approx(
        469 - 500 / 24
    )
    assert equal.loc["SAF", "epochs"] == pytest.approx(8)
    slow = points.assign(seconds=points["seconds"] * (1 + 9 * (points["label"] == "SAF")))
    late = at_equal_time(slow).set_index("label")
    assert math.isnan(late.loc["SAF", "rsum"]) and "shortest run so far takes 1000 s" in late.loc["SAF", "note"]
    assert at_equal_time(points[points["label"] != "VSE∞"]).empty
    figure = plots.budget_curves(points, labels())
    colours = {line.get_label(): line.lines[0].get_color() for line in figure.axes[0].containers}
    figure = plots.pareto(points[points["epochs"] == 72].assign(**{"rsum low": 1, "rsum high": 2, "train seconds": 3}),
                          labels())  # fmt: skip
    assert {line.get_label(): line.lines[0].get_color() for line in figure.axes[0].containers} == colours
    assert len(set(colours.values())) == 3


def ambiguous() -> pd.DataFrame:
    """DivE gains 20, 10, 0, −10 and −20 points on VSE∞; the hinge costs VSE∞ 30 points. The higher learning rate
    validates better everywhere, and the lower one has another RSUM."""
    parts = []
    for step, value in enumerate(AMBIGUITIES):
        base = [400.0, 402.0, 398.0]
        gains = {("VSE∞", "InfoNCE"): 0, ("DivE", "InfoNCE"): 20 - 10 * step, ("VSE∞", "hinge"): -30}
        for (label, name), gain in gains.items():
            noise = [0.0, 0.5, -0.5] if gain else [0.0] * 3
            shifted = [v + gain + e for v, e in zip(base, noise, strict=True)]
            for rate, values, reached in ((2e-3, [100.0], 3.0), (4e-3, shifted, 3.5)):
                part = rows(ambiguity_label(label, name, value, rate), values)
                validated = part[:1].assign(metric="val_rsum", value=reached)
                parts += [part, validated]
    return pd.concat(parts)


def test_ambiguity_says_where_a_choice_pays():
    gains = ambiguity.ambiguity_gains(ambiguity.ambiguity_points(ambiguous()))
    sets = gains[gains["what"] == "sets"].set_index("ambiguity")["gain"]
    assert sets.round(6).tolist() == [20, 10, 0, -10, -20]
    first, second = ambiguity.ambiguity_sentences(gains)
    assert first.startswith("DivE (sets) gains on VSE∞ at ambiguity 0.02 and loses to VSE∞ at ambiguity 0.5:")
    assert "+20.0 [+7.8, +32.2]" in first and "-20.0 [-32.2, -7.8]" in first
    assert second.startswith("VSE∞ (hard negatives) loses to InfoNCE at ambiguity 0.02, 0.05, 0.1, 0.25 and 0.5")
    assert len(plots.ambiguity_curves(gains).axes) == 2
    assert ambiguity.ambiguity_sentences(ambiguity.ambiguity_gains(ambiguity.ambiguity_points(NONE))) == []
    one = ambiguity.ambiguity_gains(ambiguity.ambiguity_points(ambiguous()[lambda t: t["seed"] == 0]))
    assert ambiguity.ambiguity_sentences(one) == [], "one seed decides nothing"
    assert one[["low", "high"]].isna().all(axis=None), "that of the images alone would look surer than two seeds"


def test_a_gain_carries_seeds_and_images():
    line = ambiguity.ambiguity_gains(ambiguity.ambiguity_points(ambiguous())).iloc[0]
    seeds = [20.0, 20.5, 19.5]
    images = 2.0**2 + 2.0**2
    half = student.ppf(0.975, 2) * np.sqrt(np.var(seeds, ddof=1) / 3 + images)
    assert (line["gain"], line["low"], line["high"]) == pytest.approx((20.0, 20.0 - half, 20.0 + half))


def test_the_trend_of_a_gain_is_the_line_through_its_worlds():
    gains = ambiguity.ambiguity_gains(ambiguity.ambiguity_points(ambiguous()))
    gains.loc[gains["what"] == "sets", "gain"] += [3.0, -1.0, 2.0, -5.0, 1.0]
    trends = ambiguity_trends(gains).set_index("what")
    own = gains[gains["what"] == "sets"]
    fit = linregress(np.log10(own["ambiguity"].astype(float)), own["gain"])
    of_slope = student.ppf(0.975, 3) * fit.stderr
    assert trends.loc["sets", ["slope", "slope low", "slope high"]].tolist() == pytest.approx(
        [fit.slope, fit.slope - of_slope, fit.slope + of_slope]
    )
    at_mean = own["gain"].mean()
    left_over = own["gain"] - fit.intercept - fit.slope * np.log10(own["ambiguity"].astype(float))
    half = student.ppf(0.975, 3) * np.sqrt((left_over**2).sum() / 3 / 5)
    assert trends.loc["sets", ["mean", "mean low", "mean high"]].tolist() == pytest.approx(
        [at_mean, at_mean - half, at_mean + half]
    )
    first, second = trend_sentences(trends.reset_index())
    assert first.startswith(
        "Over 5 ambiguities (3 seeds, exploratory, uncorrected), gains in RSUM by all true answers: "
        "against VSE∞, DivE (sets)"
    )
    assert (
        second.startswith(f"With tenfold ambiguity the gain of DivE (sets) falls by {-fit.slope:.1f} [")
        and "hard" not in second
    )
    assert ambiguity_trends(gains[gains["ambiguity"] < 0.1]).empty, "two worlds leave nothing over beside a line"
    level = trends.reset_index().assign(**{"slope low": -1.0, "slope high": 1.0})
    assert trend_sentences(level) == [first], "no interval of a slope lies beside 0"


def test_a_changed_verdict_is_listed_with_both_effects_and_epochs():
    claim = Claim("c", "DivE, Table 1", "Sets beat one vector.", ("DivE",), ("VSE∞",))
    before = pd.concat([rows("DivE", [300, 302, 298]), rows("VSE∞", [350, 351, 349])]).assign(world=0, epochs=8)
    after = compared()
    (line,) = changed_verdicts(pd.concat([before, decision_rows.deciding(after)]), [claim]).to_dict("records")
    assert (line["before"], line["after"], line["changed"]) == ("contradicted", "held", True)
    assert (line["effect before"], line["effect after"]) == pytest.approx((-50, 20))
    assert (line["epochs before"], line["epochs after"]) == ("8", "72")
    assert line["moved"] and line["high before"] < 20
    wide = pd.concat([rows("DivE", [200, 420, 500]), rows("VSE∞", [350, 351, 349])]).assign(world=0, epochs=8)
    (line,) = changed_verdicts(pd.concat([wide, decision_rows.deciding(after)]), [claim]).to_dict("records")
    assert (line["before"], line["changed"], line["moved"]) == ("undecided", True, False), "only more runs"
    assert changed_verdicts(before, [claim]).empty
    early = after[after["seed"].astype(int) < 4]
    assert changed_verdicts(pd.concat([before, decision_rows.deciding(early)]), [claim]).empty, "four seeds are none"


def test_photographs_have_decisions_of_their_own_and_no_part_in_the_budgets():
    """A method that was run longer on scenes keeps its rows on photographs, where no run is longer."""
    longer = rows("DivE, 144 epochs", [480, 481, 479], epochs=144)
    photographs = rows("DivE", [200, 201, 199], dataset="flickr8k", size="", epochs=20).assign(world=0)
    table = pd.concat([rows("DivE", [470, 471, 469]), longer, photographs])
    decided = decision_rows.deciding(table)
    own = decided[(decided["variant"] == "DivE") & (decided["metric"] == "rsum")]
    assert own.groupby("dataset")["epochs"].unique().map(list).to_dict() == {"flickr8k": [20], "scenes": [144]}
    assert set(deciding_and_budgets(table)["dataset"]) == {"scenes"}
    slow = rows("DivE", [470.0] * 5, train_seconds=100.0)
    quick = rows("DivE", [470.0] * 9, train_seconds=900.0, dataset="flickr8k")
    assert jobs.n_seeds("DivE", pd.concat([slow, quick])) == 10, "times of photographs say nothing of scenes"


def test_photographs_of_before_are_a_corpus_of_their_own(monkeypatch, tmp_path):
    """They were described by other networks: a method of before must not be compared with one of the protocol."""
    photographs = {"dataset": "flickr8k", "size": ""}
    before = pd.concat([rows(name, [100, 101, 99], **photographs) for name in ("DivE", "VSE∞")])
    results.write(before.assign(world=0, run_id="b-" + before["run_id"]), tmp_path / "reports" / "results.csv")
    after = rows("VSE∞", [200, 201, 199], **photographs).assign(world=0)
    results.write(after, tmp_path / "reports" / "protocol" / "results.csv")
    monkeypatch.setattr(results, "__file__", str(tmp_path / "xmr_core" / "study" / "results.py"))
    claim = Claim("c", "DivE, Table 1", "Sets beat one vector.", ("DivE",), ("VSE∞",))
    table = claims.ledger(results.study_rows(), [claim])
    assert table["corpus"].tolist() == ["flickr8k (before the protocol)"] and table["effect"].tolist() == [0.0]
    assert claims.ledger(results.study_rows(before=False), [claim])["verdict"].tolist() == ["not measured"]


def test_rows_of_before_are_counted_and_decide_nothing_in_the_abstract():
    said = " ".join(findings.findings(parts=["claims"]))
    own, every = (claims.ledger(results.study_rows(before), claims.CLAIMS) for before in (False, True))
    measured = [set(table.loc[table["verdict"] != "not measured", "claim"]) for table in (own, every)]
    planned = own["needs"]
    assert set(planned[own["corpus"].str.startswith("scenes")]) == {5} and set(planned) == {3, 5}
    enough = own[own["seeds"] >= planned]
    by_us = enough["source"].str.startswith("ours")
    ours = sum(claim.source.startswith("ours") for claim in claims.CLAIMS)
    of_papers = f"On {enough['claim'][~by_us].nunique()} of {len(claims.CLAIMS) - ours} claims of papers: "
    held = [int((enough["verdict"][part] == "held").sum()) for part in (~by_us, by_us)]
    assert f"{len(enough)} verdicts, corrected within papers. {of_papers}{held[0]} held, " in said
    assert f"; on {enough['claim'][by_us].nunique()} of {ours} of our own: {held[1]} held, " in said and min(held) > 0
    few = int((own["verdict"] != "not measured").sum()) - len(enough)
    assert (f"{few} comparisons wait for more seeds" in said) == (few > 0)
    assert f"{len(measured[1] - measured[0])} more have rows from before the protocol only" in said
    assert f"({(enough['kind'] == 'confirmatory').sum()} confirmatory" in said


# sentences


def test_the_abstract_of_no_rows_says_that_nothing_is_decided_and_what_is_missing():
    said = findings.findings(ROOT / "reports" / "none")
    assert said[0].startswith("Nothing is decided yet") and "exploratory" in said[0]
    number = re.search(r"Of (\d+) runs of the protocol 0 are done, .*; missing, in such hours: tuning (\S+),", said[-1])
    assert int(number[1]) > len(jobs.tuning()) and float(number[2]) > 0


def test_the_abstract_of_some_rows_is_made_from_them(tmp_path):
    said = findings.findings(stored(tmp_path, pd.concat([compared(), ambiguous()])), ["quality", "missing"])
    assert said.pop(0).startswith("The comparison is not finished: 3 of ")
    assert said.pop(0).endswith(
        "methods took the largest learning rate), 3 of 3 train by InfoNCE, whatever their papers took."
    )
    assert (
        said[0].startswith(
            "SAF has the highest annotated RSUM (six recalls in percent, at most 600) of 3 methods, 520.0 ["
        )
        and "VSE∞, one vector for each item, has 450.0" in said[0]
    )
    assert "SAF trains 9.0 times as long, and its scores take about 1,800 times the time" in said[0]
    assert said[1].startswith(
        "In the training time of 72 epochs of VSE∞ (interpolated, 2 seeds), the annotated RSUM is: "
    )
    assert said[2].startswith(
        "Over 5 ambiguities (3 seeds, exploratory, uncorrected), gains in RSUM by all true answers: "
        "against VSE∞, DivE (sets)"
    )
    assert "are on the front" not in " ".join(said), "three methods may hide a fourth"
    assert "tuning" not in said[-1] and "comparison" in said[-1], "tuning is done, the comparison is not"


def test_progress_counts_runs_and_hours():
    none = progress.progress(NONE, NO_CURVES, NONE).set_index("part")
    assert none.loc["tuning", ["done", "runs", "hours"]].tolist() == [0, len(jobs.tuning()), len(jobs.tuning()) / 2]
    assert {"comparison", "budget", "flickr8k", "ambiguity"} <= set(none.index), "planned before tuning is done"
    done = progress.progress(tuned(), NO_CURVES, NONE).set_index("part")
    assert done.loc["tuning", ["done", "hours"]].tolist() == [len(jobs.tuning()), 0]
    assert done.loc["comparison", "hours"] == pytest.approx(none.loc["comparison", "runs"] * 72 * 1.5 / 3600)
    photographs = tuned().assign(dataset="flickr8k")
    assert (
        progress.progress(photographs, NO_CURVES, NONE).set_index("part").loc["comparison", "hours"]
        == none.loc["comparison", "hours"]
    ), "times of another corpus say nothing"
    assert "flickr8k" not in set(progress.progress(NONE, NO_CURVES, NONE, photographs="")["part"])


def test_what_one_seed_can_say(monkeypatch):
    from xmr_core.study.runs import Runs

    def said(seeds: int, low: float) -> str:
        line = {"seeds": seeds, "rsum annotated high": 410.0, "rsum annotated": 400.0, "rsum annotated low": 390.0}
        worse = line | {"label": "α=1", "rsum annotated": low, "rsum annotated high": low + 10}
        means = pd.DataFrame([line | {"label": "α=16"}, worse | {"rsum annotated low": low - 10}])
        monkeypatch.setattr(Runs, "means", lambda self, columns=(): means)
        return Runs((), ()).seeds_text()

    assert "they put α=16 above all others" in said(1, 360.0) and "cannot say how another seed" in said(1, 360.0)
    assert "they do not separate α=16 from α=1" in said(1, 385.0)
    assert said(5, 385.0) == "The intervals over 5 seeds (± 10 points of RSUM) do not separate α=16 from α=1."
    assert "5 seeds (± 10 points of RSUM) put α=16 above all others" in said(5, 360.0)


# ensembles


def test_every_ensemble_of_a_claim_is_made_of_its_members_runs():
    named = ensembles.ensemble_labels(claims.all_claims())
    assert {"SAF + SGR", "SCAN t-i + SCAN i-t"} <= set(named)
    chosen = dict.fromkeys(labels(), 1)
    wanted = ensembles.ensembles(claims.all_claims(), NONE, NO_CURVES, chosen, "photographs")
    assert {e.label for e in wanted} == set(named) and {e.dataset for e in wanted} == {"scenes", "flickr8k"}
    trained = {
        (job.label, job.config.train.seed): job.config
        for job in jobs.comparisons(NONE, chosen)
        if job.part == "comparison"
    }
    for e in wanted:
        assert (
            len({job.config.train.seed for job in e.members}) == len({str(job.config.data) for job in e.members}) == 1
        )
        if e.dataset == "scenes":
            assert all(trained[job.label, e.seed] == job.config for job in e.members), "not a run of the comparison"
    assert not ensembles.ensembles(claims.all_claims(), NONE, NO_CURVES, {"SAF": 1}), "a member has no trial yet"


def test_a_label_that_was_run_longer_began_with_its_first_run():
    short = rows("SAF", [520.0, 521.0])
    short = short.assign(started_utc=short["seed"].map({0: "2026-11-23T17:00:00", 1: "2026-11-23T17:05:00"}))
    long = rows("SAF, 144 epochs", [530.0, 531.0]).assign(epochs=144, started_utc="2026-11-23T23:00:00")
    other = rows("SGR", [510.0]).assign(epochs=72, started_utc="2026-11-24T01:00:00")
    own = decision_rows.longest(pd.concat([short, long, other]))
    own = own[(own["metric"] == "rsum") & (own["relevance"] == "annotated")].set_index("variant")
    assert own.loc["SAF", "started_utc"].tolist() == ["2026-11-23T17:00:00", "2026-11-23T17:05:00"]
    assert own.loc["SAF", "value"].tolist() == pytest.approx([5.3, 5.31]) and len(own) == 3
    assert own.loc["SGR", "started_utc"] == "2026-11-24T01:00:00"


def test_equal_epochs_leave_out_an_ensemble_with_a_longer_member():
    own = pd.concat([rows("SAF", [520.0]), rows("SAF, 144 epochs", [530.0]).assign(epochs=144), rows("SGR", [510.0]),
                     rows("SAF + SGR", [540.0]), rows("SCAN t-i + SGR", [500.0])])  # fmt: skip
    own = own.assign(epochs=own["epochs"].where(own["epochs"] == 144, 72))
    assert set(decision_rows.equally_long(own)["variant"]) >= {"SAF", "SGR", "SCAN t-i + SGR"}
    assert "SAF + SGR" not in set(decision_rows.equally_long(own)["variant"])


def test_a_longer_member_replaces_the_shorter_one():
    table = rows("SAF", [520.0]).assign(run_id="r", best_epoch=71)
    curves = pd.DataFrame({"run_id": "r", "epoch": range(72), "value": range(72)})
    wanted = ensembles.ensembles(claims.all_claims(), table, curves, dict.fromkeys(labels(), 1))
    (members,) = {tuple(job.label for job in e.members) for e in wanted if e.label == "SAF + SGR"}
    assert members == ("SAF, 144 epochs", "SGR")


def test_an_ensemble_waits_for_its_members_and_is_computed_once():
    wanted = ensembles.ensembles(claims.all_claims(), NONE, NO_CURVES, {"SAF": 1, "SGR": 1})
    members = pd.concat([rows("SAF", [520.0, 521.0]), rows("SGR", [510.0])])
    (ready,) = ensembles.uncomputed(wanted, members)
    assert (ready.label, ready.seed) == ("SAF + SGR", 0)
    own = rows("SAF + SGR", [530.0]).assign(run_id=ensembles.ensemble_id(ready, members))
    assert ensembles.uncomputed(wanted, pd.concat([members, own])) == []
    assert set(decision_rows.deciding(own)["variant"]) == {"SAF + SGR"}
    assert decision_rows.deciding(own.assign(variant="SAF + nobody")).empty


def test_no_training_job_depends_on_ensembles():
    made = jobs.jobs(tuned(), NO_CURVES, "photographs")
    assert not [job for job in made if ensembles.JOIN in job.label]


def test_the_committed_register_holds_every_rule_as_it_is():
    held = rules.fixed()
    if not held:
        pytest.skip("no register")
    assert {(c.id, rules.rule_hash(c)) for c in claims.CLAIMS} <= set(held)


@pytest.mark.slow
def test_a_run_that_cannot_be_measured_stops_no_other(tmp_path, monkeypatch, capsys):
    from tiny import tiny_config

    from xmr_core.study.protocol import Job

    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(run_study, "FOLDER", tmp_path / "protocol")
    jobs = [Job("comparison", n, n, tiny_config(m, epochs=1)) for n, m in (("PCME", "pcme"), ("VSE∞", "vse-infty"))]
    monkeypatch.setattr(run_study, "missing", lambda there, *_: [j for j in jobs if j.label not in set(there.variant)])
    real = run_study.measured

    def measured(run, *of):
        if run.config.method == "pcme":
            raise BadInput("σ is 0")
        return real(run, *of)

    monkeypatch.setattr(run_study, "measured", measured)
    monkeypatch.setattr(sys, "argv", ["run_study.py", "--workers", "1"])
    assert run_study.main() == 1
    assert set(run_study.rows()["variant"]) == {"VSE∞"}
    assert re.search(r"pcme-scenes-s0-\w+ has no rows: BadInput: σ is 0", capsys.readouterr().out)
    monkeypatch.setattr(run_study, "measured", real)
    assert run_study.main() == 0
    assert set(run_study.rows()["variant"]) == {"VSE∞", "PCME"}


@pytest.mark.slow
def test_rows_of_an_ensemble_are_written_from_its_members(tmp_path, monkeypatch):
    from tiny import tiny_config

    from xmr_core.study.protocol import Job

    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(run_study, "FOLDER", tmp_path / "protocol")
    pair = tuple(
        Job("comparison", n, n, tiny_config(m, epochs=1)) for n, m in (("VSE++", "vse++"), ("VSE∞", "vse-infty"))
    )
    everything = argparse.Namespace(part=None, variant=None, label=None, claim=None, seeds=None, flickr8k="")
    run_study.train(lambda: [] if len(run_study.rows()) else list(pair), 1)
    monkeypatch.setattr(
        run_study, "wanted_ensembles", lambda there, photographs: [ensembles.Ensemble("VSE++ + VSE∞", pair)]
    )
    run_study.compute(everything, 1.0)
    made = run_study.rows()
    own = made[made["variant"] == "VSE++ + VSE∞"]
    assert {"rsum", "rsum_error"} <= set(own["metric"]) and own["run_id"].nunique() == 1
    parts = made[made["variant"] != "VSE++ + VSE∞"].drop_duplicates("run_id")
    assert int(own["parameters"].iloc[0]) == parts["parameters"].astype(int).sum()
    first = (run_study.FOLDER / "results.csv").read_bytes()
    run_study.compute(everything, 1.0)
    assert (run_study.FOLDER / "results.csv").read_bytes() == first


def test_close_methods_are_those_whose_paired_difference_holds_zero():
    frame = pd.DataFrame({"value": [500.0, 510.0, 490.0, 505.0], "error": 0.0, "world": [1, 2, 1, 2]})
    frame = frame.assign(began="2026-11-24", deciding=True, runs=[(n,) for n in "abcd"])
    lower = frame.assign(value=frame["value"] - [5.0, 5.1, 4.9, 5.0])  # apart by little, but on every seed
    close = frame.assign(value=frame["value"] - [9.0, -9.0, 9.0, 1.0])
    values = {"best": frame, "lower": lower, "close": close}
    assert findings.close_methods("best", ["lower", "close"], values) == ["close"], (
        "marginal intervals overlap for both"
    )


def test_another_reading_is_shown_where_it_changes_a_verdict():
    """VSE∞ above VSE++ on ten seeds, of which the first five alone leave it undecided."""
    values = [12.0, -9.0, 14.0, -4.0, 9.0, *[20.0, 21.0, 19.5, 20.5, 22.0]]
    table = pd.concat([rows("VSE∞", [400 + v for v in values]), rows("VSE++", [400.0] * 10)])
    claim = Claim("c", "ours", "One beats another.", ("VSE∞",), ("VSE++",))
    (line,) = sensitivity(table, [claim]).to_dict("records")
    assert (line["verdict"], line["first seeds"], line["later seeds"]) == ("held", "undecided", "held")
    assert line["n − 1"] == line["later rule"] == "held"
    assert not len(
        sensitivity(
            pd.concat([rows("PVSE", [400 + v for v in values]), rows("VSE++", [400.0] * 10)]),
            [Claim("c", "ours", "One.", ("PVSE",), ("VSE++",))],
        )
    ), "ten seeds from the beginning"


def test_a_slow_machine_moves_no_point_of_a_budget_curve():
    table = compared()
    slow = table.assign(train_seconds=table["train_seconds"].mask(table["variant"].str.contains(" epochs"), 5000.0))
    assert budget_points(deciding_and_budgets(slow), list(VALUES)).equals(
        budget_points(deciding_and_budgets(table), list(VALUES))
    )


@pytest.mark.parametrize(("which", "reading"), [("again", "second training"), ("third", "third training")])
def test_a_later_training_is_a_reading_counted_as_the_first(tmp_path, which, reading):
    """VSE∞ above VSE++; trained once more, VSE++ comes out as high, and later."""
    above, below = rows("VSE∞", [400 + v for v in (30.0, 31, 29, 30, 32)]), rows("VSE++", [400.0] * 5)
    again = rows("VSE++", [430.0, 431, 429, 430, 431]).assign(started_utc="2027-01-01T00:00:00+00:00")
    folder = stored(tmp_path, pd.concat([above, below]))
    (folder / which).mkdir()
    results.append(again.assign(git_dirty=False), folder / which / "results.csv")
    second = later_rows(folder, which)
    own = second[(second["variant"] == "VSE++") & (second["metric"] == "rsum") & (second["relevance"] == "annotated")]
    assert own["value"].astype(float).tolist() == [4.30, 4.31, 4.29, 4.30, 4.31]
    assert set(own["started_utc"]) == {LATER}
    claim = Claim("c", "ours", "One beats another.", ("VSE∞",), ("VSE++",))
    (line,) = sensitivity(deciding(protocol_rows(folder)), [claim], {reading: second}).to_dict("records")
    assert (line["verdict"], line[reading]) == ("held", "equivalent")
    (table,) = trained_again(folder).to_dict("records")
    assert (table["label"], table["seeds"]) == ("VSE++", 5) and table["difference"] == pytest.approx(30.2)
    assert not len(sensitivity(deciding(protocol_rows(folder)), [claim])), "without it nothing differs"


def test_variants_of_dive_stand_beside_common_seeds_of_their_control():
    control = [484.0, 500.0, 490.0, 480.0, 486.0, 502.0, 470.0]
    table = pd.concat(
        [
            rows("DivE", [300.0] * 5), rows("DivE, 144 epochs", control, epochs=144),
            rows("α=1", [v - 50 for v in control[:5]], epochs=144), rows("α=2", control[:3], epochs=144),
            rows("α=64", [v + 4 for v in control[:5]], epochs=144), rows("VSE∞", [450.0] * 5),
        ],
        ignore_index=True,
    )  # fmt: skip
    lines = beside_control(table).set_index("label")
    assert [*lines.index] == ["α=64", "α=2", "α=1"] and lines.loc["α=1", "difference"] == pytest.approx(-50)
    assert lines["seeds"].tolist() == [5, 3, 5] and lines["epochs"].eq(144).all(), "the shorter control decides nothing"
    # the difference of every seed is the same, so what is left are the images: two points for either side, two worlds
    half = norm.ppf(0.975) * np.sqrt(2 * 2**2 / 2)
    assert lines.loc["α=1", "high"] - lines.loc["α=1", "difference"] == pytest.approx(half, rel=0.05)
    curve = swept(table, "α", (1, 2, 16, 64))
    assert curve.groupby("setting")["rsum"].mean().round(1).to_dict() == {1: 438.0, 16: 488.0, 64: 492.0}, (
        "two of three seeds are no point, and the control's further seeds are not in the curve"
    )
    width = student.ppf(0.975, 4) * np.sqrt(np.var(control[:5], ddof=1) / 5 + 2**2 / 2)
    assert curve[curve["setting"] == 16]["high"].iloc[0] == pytest.approx(488 + width), "of the five common seeds"
    assert swept_sentence(curve, "α", 16, "scale").endswith("438.0 at 1, 488.0 at 16 (the paper's), 492.0 at 64.")
    assert swept_sentence(curve, "α", 4, "scale") == "" == swept_sentence(curve[:0], "α", 16, "scale")
