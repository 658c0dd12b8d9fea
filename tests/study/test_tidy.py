"""Rows: tidy, with provenance, written whole; studies: tables and verdicts from runs."""

import numpy as np
import pandas as pd
import pytest
from tiny import tiny_config

import xmr_study as study
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.evaluation.evaluate import rsum_interval
from xmr_core.training.runs import train_or_load_all
from xmr_core.training.runs.folder import TrainedRun
from xmr_study import tidy


@pytest.fixture(scope="module")
def runs(shared_home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(shared_home))
        yield train_or_load_all([tiny_config(epochs=1, seed=s) for s in (0, 1, 2)], workers=1, progress=False)


def test_rows_are_tidy_fractions_with_their_origin(runs):
    table = tidy.rows(runs, ["a", "a", "b"])
    assert list(table) == list(tidy.COLUMNS)
    fractions = table[table["metric"].isin(["recall", "r_precision", "map_at_r"])]
    assert fractions["value"].between(0, 1).all() and set(table["relevance"]) == {"annotated", "exhaustive", ""}
    assert (table["origin"] == "ours").all() and table["numerics"].str.fullmatch("[0-9a-f]{12}").all()
    own = table[(table["run_id"] == runs[0].id) & (table["relevance"] == "annotated")].groupby("metric")["value"]
    assert own.size()["recall"] == 6 and np.isclose(own.sum()["recall"], own.sum()["rsum"])


def test_a_commit_of_digits_comes_back_as_it_was(runs, tmp_path):
    for commit in ("000123456789", "12e456789012"):
        tidy.write(tidy.rows(runs).assign(git_commit=commit, numerics=commit), tmp_path / "rows.csv")
        back = tidy.read(tmp_path / "rows.csv")
        assert set(back["git_commit"]) == set(back["numerics"]) == {commit}


def test_rows_are_written_whole_and_read_back(runs, tmp_path):
    table, path = tidy.rows(runs), tmp_path / "rows.csv"
    tidy.write(table, path)
    back = tidy.read(path)
    assert np.allclose(back["value"], table["value"].to_numpy(), rtol=1e-8, atol=0)
    others = [c for c in tidy.COLUMNS if c not in ("value", "n_queries")]
    differing = [c for c in others if (back[c].astype(str).to_numpy() != table[c].astype(str).to_numpy()).any()]
    assert not differing, "provenance comes back with every number"
    tidy.write(table[table["seed"] == 0], path)
    assert set(tidy.read(path)["seed"]) == {0}, "write replaces what an older execution left"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DamagedFile):
        tidy.read(path)


def test_rows_of_the_protocol_before_lie_beside_their_runs(runs, tmp_path):
    table, path = tidy.rows(runs).assign(git_dirty=False), tmp_path / "results.csv"
    of_runs = [
        "run_id", "method", "form", "dataset", "size", "seed", "origin", "epochs", "best_epoch", "train_seconds",
        "parameters", "git_commit", "git_dirty", "numerics", "torch", "device", "started_utc", "world",
    ]  # fmt: skip
    own = table[of_runs].drop_duplicates("run_id")
    table.drop(columns=of_runs[1:]).to_csv(path, index=False)
    own.to_csv(tmp_path / "runs.csv", index=False)
    assert tidy.read(path)["seed"].tolist() == table["seed"].tolist()
    own[:-1].to_csv(tmp_path / "runs.csv", index=False)
    with pytest.raises(DamagedFile, match="lacks runs"):
        tidy.read(path)


def test_per_run_agrees_with_the_rows(runs):
    table = study.run_table(runs, ["x"] * 3)
    rsum = tidy.rows(runs).query("metric == 'rsum' and relevance == 'exhaustive'")["value"].to_numpy()
    assert np.allclose(table["rsum exhaustive"], 100 * rsum)
    assert table["rsum exhaustive"].between(table["rsum exhaustive low"], table["rsum exhaustive high"]).all()
    assert (table["log variance"] < 0).all() and list(table["seed"]) == [0, 1, 2]


def test_over_seeds_uses_students_interval():
    lines = {"label": list("aaab"), "seed": [0, 1, 2, 0], "m": [1.0, 2.0, 3.0, 5.0], "m low": 4.0, "m high": 6.0}
    table = pd.DataFrame(lines)
    out = study.seed_means(table, ["m"]).set_index("label")
    assert out.loc["a", "m"] == 2 and np.isclose(out.loc["a", "m high"] - 2, 4.302652729 / np.sqrt(3))
    assert (out.loc["b", "m low"], out.loc["b", "m high"]) == (4.0, 6.0)


@pytest.mark.parametrize("shift, wanted", [(5.0, "held"), (-5.0, "contradicted"), (0.0, "undecided")])
def test_verdicts_are_paired_over_seeds(shift, wanted):
    noise = [10.0, -30.0, 20.0]  # shared by both: pairing removes it
    worse = pd.DataFrame({"seed": [0, 1, 2], "m": noise})
    better = pd.DataFrame({"seed": [2, 1, 0], "m": [20.0 + shift + 1, -30.0 + shift, 10.0 + shift - 1]})
    assert study.verdict(better, worse, "m")[0] == wanted
    assert study.verdict(better[:2], worse, "m")[0] == "undecided"


def test_variants():
    base = tiny_config()
    names, table = ["single vector", "MIL, slots"], study.ablation("dive", "similarity")
    vectors, mil = study.variant_configs(base.replace(objective="triplet"), names, [3], table)
    assert vectors.method == "vse++" and vectors.options == {"d": 16, "dropout": 0.0, "objective": "triplet"}
    assert mil.options["similarity"] == "mil" and mil.options["iterations"] == 1 and mil.train.seed == 3
    assert study.seeds("study") == [0, 1, 2, 3, 4] and study.seeds("quick", 2, 3) == [2, 3, 4]
    for call in (
        lambda: study.variant_configs(base, ["MILL"], [0]),
        lambda: study.ablation("dive", "slotz"),
    ):
        with pytest.raises(BadInput):
            call()


def test_a_later_measurement_of_the_same_seed_takes_the_place_of_the_earlier():
    """Code that changes its numbers gives a run another id: the file then holds both, and tables must not count a seed
    twice.
    """
    run = {"method": "dive", "dataset": "scenes", "size": "study", "split": "test", "protocol": "full", "k": 0}
    number = {"relevance": "annotated", "direction": "both", "metric": "rsum"}
    lines = [
        {"run_id": "old", "variant": "α=4", "seed": 0, "value": 1.0, **number},
        {"run_id": "old", "variant": "α=4", "seed": 0, "value": 9.0, **number, "metric": "val_rsum"},
        {"run_id": "other", "variant": "α=4", "seed": 1, "value": 2.0, **number},
        {"run_id": "old", "variant": "K=4", "seed": 0, "value": 1.0, **number},
        {"run_id": "new", "variant": "α=4", "seed": 0, "value": 3.0, **number},
    ]
    kept = tidy.latest(pd.DataFrame([run | line for line in lines]).reindex(columns=list(tidy.COLUMNS)))
    assert kept[["variant", "metric", "value"]].to_numpy().tolist() == [
        ["α=4", "val_rsum", 9.0], ["α=4", "rsum", 2.0], ["K=4", "rsum", 1.0], ["α=4", "rsum", 3.0],
    ]  # fmt: skip


@pytest.mark.slow
def test_models_that_come_along_are_runs_with_the_numbers_of_their_cards(own_home):
    runs = study.run(
        {"preset": "trained", "dataset": "scenes", "seed": 0, "n_seeds": 1, "epochs": 0}, ["VSE++", "PCME"]
    )
    assert runs.labels == ("VSE++", "PCME") and not runs.unlearned()
    for run in runs:
        for line in run.model.about["results"]:
            assert rsum_interval(run.per_query, line["relevance"])[0] == pytest.approx(line["rsum"])
    assert runs.table()["train seconds"].isna().all(), "nobody trained them here"
    scored = runs.first("PCME").method().name, len(runs.first("PCME").prepared().splits["test"].image_rows)
    assert (
        scored == ("pcme", 500) and runs.first("VSE++").setting.epochs == 144 and runs.first().corpus.name == "scenes"
    )
    with pytest.raises(BadInput, match="comes along"):
        study.run({"preset": "trained"}, ["α=8"], among={"α=8": ("dive", {"alpha": 8.0})})
    own = study.run({"preset": "trained", "epochs": 1}, ["VSE++"], size="tiny", d=8)
    assert isinstance(own.first(), TrainedRun), "another number of epochs is trained"
