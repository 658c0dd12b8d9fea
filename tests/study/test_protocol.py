"""The protocol's runs are those of docs/protocol.md, and the script makes each once."""

import sys
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from tiny import tiny_config

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import run_study  # noqa: E402

from xmr_core.methods.registry import method_spec  # noqa: E402
from xmr_study import jobs, protocol, protocol_results, results  # noqa: E402
from xmr_study.ambiguity import ambiguity, ambiguity_label, chosen_rates  # noqa: E402
from xmr_study.claims import CLAIMS  # noqa: E402
from xmr_study.protocol import Job  # noqa: E402
from xmr_study.protocol_results import deciding, protocol_curves, protocol_rows  # noqa: E402

NONE = pd.DataFrame(columns=list(results.COLUMNS))
UNSEEN = pd.DataFrame(columns=["run_id", "epoch", "value"])  # no validation curve yet


def made(chosen: dict[str, int], part: str = "", rows: pd.DataFrame = NONE, curves: pd.DataFrame = UNSEEN) -> list[Job]:
    """The runs of a part (of all when '') when tuning has chosen these trials."""
    unseen = rows is NONE and curves is UNSEEN
    every = _first(frozenset(chosen.items())) if unseen else _every(chosen, rows, curves)
    return [job for job in every if part in ("", job.part)]


def _every(chosen, rows, curves) -> list[Job]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "chosen_trials", lambda rows: dict(chosen))
        return jobs.jobs(rows, curves, "photographs")


@cache
def _first(chosen: frozenset) -> list[Job]:
    """Before any run has rows: a second to make, and most tests ask for it."""
    return _every(chosen, NONE, UNSEEN)


def tuned(values: dict[str, list[float]], **more) -> pd.DataFrame:
    """Rows of tuning: label → RSUM of its trials on the validation split."""
    lines = [
        {"variant": f"{label}, tuning {n}", "metric": "val_rsum", "value": value, "seed": 0, "run_id": f"{label}{n}"}
        for label, trials in values.items()
        for n, value in enumerate(trials, 1)
    ]
    table = pd.DataFrame(lines).assign(train_seconds=10.0, epochs=24, dataset="scenes", **more)
    return table.reindex(columns=list(results.COLUMNS))


def test_the_earlier_of_equal_trials_is_chosen_and_only_when_all_are_there():
    rows = tuned({"DivE": [1, 3, 2, 3, 1, 1, 1], "PVSE": [1, 2, 3]})
    assert protocol.chosen_trials(rows) == {"DivE": 2}


CHOSEN = dict.fromkeys(protocol.labels(), 1)


def test_one_control_has_one_label():
    first = protocol.canonical()
    assert {first[n] for n in ("α=16", "K=4", "T=4", "slots as in the paper", "DivE")} == {"DivE"}
    assert first["PCME++, own loss"] == "PCME++, own loss", "what only some trial tells apart are two"
    names = [job.label for job in made(CHOSEN, "ablations")]
    assert len(names) == 5 * len(set(names)) and not {"α=16", "K=4", *protocol.labels()} & set(names)
    assert {"α=1", "K=6", "T=1", "Chamfer, slots", "PCME, μ only"} <= set(names)


def test_every_label_of_a_claim_is_made_by_some_run():
    names = {job.label for job in made(CHOSEN)}
    named = {name for c in CLAIMS for name in (*c.above, *c.below) if " + " not in name}
    assert {protocol.canonical()[name] for name in named} <= names


def test_ablations_of_a_loss_that_tuning_put_away_keep_that_loss():
    """At trial 7 PCME++ is trained with InfoNCE, which reads nothing of what its ablations vary."""
    both = [{job.label: job.config for job in made({**CHOSEN, "PCME++": n}, "ablations")} for n in (1, 7)]
    ours = {label for label in both[1] if label.startswith("PCME++")}
    assert "PCME++, own loss" in ours and ours == {label for label in both[0] if label.startswith("PCME++")}
    other = {label for label in ours if both[1][label].options["objective"] != "matching"}
    assert other == {"PCME++, μ by InfoNCE"}


def test_labels_of_the_protocol_are_different_runs_at_the_trials_that_were_chosen():
    """Else one of two arms of a claim would be the other under another name."""
    rows = protocol_rows()
    chosen = protocol.chosen_trials(rows)
    assert chosen["PCME++"] == 7  # what makes the trap
    every = [job for job in jobs.jobs(rows, UNSEEN) if job.part in ("comparison", "ablations")]
    configs = [
        replace(run, options=method_spec(run.method).full_options("matched", run.options))
        for run in {job.label: job.config for job in every if job.config.train.seed == 0}.values()
    ]
    assert len(configs) > 90 and not any(a == b for a, b in combinations(configs, 2))


def test_ambiguity_tries_two_rates_and_goes_on_with_the_one_that_validates_better():
    key = ("DivE", "hinge", 0.1)
    first = [(job.config.train.seed, job.config.train.lr) for job in ambiguity(NONE, CHOSEN) if key_of(job) == key]
    assert first == [(0, 2e-3), (0, 4e-3), (1, 2e-3), (2, 2e-3)]
    tried = {2e-3: 3.1, 4e-3: 3.4}
    rows = pd.DataFrame(
        {"variant": [ambiguity_label(*key, rate) for rate in tried], "metric": "val_rsum", "seed": 0,
         "value": list(tried.values())}
    )  # fmt: skip
    assert chosen_rates(rows) == {key: 4e-3} and chosen_rates(rows[:1]) == {}
    then = [job.config for job in ambiguity(rows, CHOSEN) if key_of(job) == key]
    assert [(c.train.seed, c.train.lr) for c in then] == [(0, 2e-3), (0, 4e-3), (1, 4e-3), (2, 4e-3)]
    assert {c.options["warmup_epochs"] for c in then} == {24}
    others = [job for job in ambiguity(rows, CHOSEN) if key_of(job) != key]
    assert all(job.config.train.lr == 2e-3 for job in others if job.config.train.seed)


def key_of(job: Job) -> tuple[str, str, float]:
    return job.variant, job.label.split(", ")[1].split(" at ")[0], job.config.data.ambiguity


def curve(values: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"run_id": "r", "epoch": range(len(values)), "value": values})


@pytest.mark.parametrize(
    ("values", "best", "converged"),
    [([0, 3, 4, 4, 4, 4, 4.01, 4], 6, True), ([0, 3, 4, 4, 4, 4, 4.03, 4], 6, False),
     ([0, 1, 2, 3, 4, 4, 4, 4], 7, False)],
)  # fmt: skip
def test_a_method_counts_as_converged_by_gain_and_best_epoch(values, best, converged):
    rows = pd.DataFrame({"run_id": ["r"], "variant": "DivE", "epochs": 8, "best_epoch": best})
    table = protocol_results.convergence(rows, curve(values), ["DivE", "PVSE"], 8)
    assert table["converged"].tolist() == [converged]
    assert protocol_results.unconverged(rows, curve(values), ["DivE"], 8) == ([] if converged else ["DivE"])


def test_what_is_not_converged_runs_longer_and_only_those_rows_count():
    rows = pd.DataFrame({"run_id": ["r"], "variant": "DivE", "epochs": 72, "best_epoch": 71, "dataset": "scenes"})
    rows = rows.assign(train_seconds=200.0)
    rows, rising = rows.assign(metric="rsum", seed=0, value=4.0), curve([float(n) for n in range(72)])
    every = made(CHOSEN, "", rows, rising)
    own = [job for job in every if job.variant == "DivE"]
    seeds = {part: [job.config.train.seed for job in own if job.part == part] for part in ("comparison", "longer")}
    assert seeds == {"comparison": [*range(5)], "longer": [*range(10)]}, "72 epochs decide nothing any more"
    assert {(job.label, job.config.train.epochs) for job in own if job.part == "longer"} == {("DivE, 144 epochs", 144)}
    epochs = {job.label: job.config.train.epochs for job in every if job.part == "ablations"}
    assert (epochs["α=1"], epochs["Chamfer, slots"], epochs["PCME, μ only"]) == (144, 144, 72), "as their control"
    table = pd.DataFrame(
        [("DivE", 1, 72), ("DivE, 144 epochs", 1, 144), ("DivE, 8 epochs", 1, 8), ("DivE, tuning 1", 0, 24),
         ("PVSE", 2, 72)],
        columns=["variant", "world", "epochs"],
    ).assign(dataset="scenes").reindex(columns=list(results.COLUMNS))  # fmt: skip
    decided = deciding(table)
    assert set(decided.loc[decided["variant"] == "DivE", "epochs"]) == {144}
    assert {"α=16", "K=4", "PVSE", "DivE"} <= set(decided["variant"]) and not (decided["epochs"] < 72).any()


def test_the_runs_that_have_rows_are_those_of_the_protocol():
    """A changed list would train them anew under other names."""
    rows = protocol_rows()
    every = jobs.jobs(rows, protocol_curves(), "flickr8k")
    assert len(every) == 1276 and len(every) - len(jobs.unmeasured(every, rows)) == 597


# the script


@pytest.fixture
def two_jobs(own_home, tmp_path, monkeypatch):
    configs = {"DivE": tiny_config("dive", epochs=1), "DivE, 144 epochs": tiny_config("dive")}
    wanted = [Job("comparison", "DivE", label, config) for label, config in configs.items()]
    monkeypatch.setattr(run_study, "FOLDER", tmp_path / "protocol")
    monkeypatch.setattr(run_study, "jobs", lambda rows, curves, photographs: wanted)
    return wanted


def ask(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run_study.py", *words])
    return run_study.main()


@pytest.mark.slow
def test_what_is_missing_is_trained_and_its_rows_are_written_once(two_jobs, monkeypatch, capsys):
    assert ask(monkeypatch, "--list") == 0 and not run_study.FOLDER.exists()
    assert capsys.readouterr().out.splitlines() == ["comparison: DivE, seed 0", "comparison: DivE, 144 epochs, seed 0"]
    assert ask(monkeypatch, "--label", "144", "--workers", "1") == 0
    assert set(protocol_rows(run_study.FOLDER)["variant"]) == {"DivE, 144 epochs"}
    two_jobs.insert(0, Job("comparison", "DivE", "DivE, 8 epochs", tiny_config("dive", unit="classes")))  # fails
    assert ask(monkeypatch, "--workers", "1") == 1 and "BadInput" in capsys.readouterr().out
    first, rows = (run_study.FOLDER / "results.csv").read_bytes(), protocol_rows(run_study.FOLDER)
    assert set(rows["variant"]) == {"DivE", "DivE, 144 epochs"}, "a run that fails stops no other"
    assert len(pd.read_csv(run_study.FOLDER / "curves.csv")) == 3
    rsum = rows[(rows["relevance"] == "annotated") & (rows["variant"] == "DivE")].set_index("metric")["value"]
    interval = float(rsum["rsum_high"]) - float(rsum["rsum_low"])
    assert float(rsum["rsum_error"]) == pytest.approx(interval / 3.92, rel=0.25), "32 images: the bootstrap is coarse"
    assert run_study.train(two_jobs[1:], 1) == {}
    assert (run_study.FOLDER / "results.csv").read_bytes() == first


@pytest.mark.slow
def test_a_kill_between_two_files_loses_nothing(two_jobs, monkeypatch):
    real = run_study.results.storage.write_atomic
    for name in ("curves.csv", "runs.csv", "results.csv"):  # before each of the files in turn

        def until(path, text, name=name):
            if path.name == name:
                raise KeyboardInterrupt
            return real(path, text)

        with monkeypatch.context() as patch:
            patch.setattr(run_study.results.storage, "write_atomic", until)
            with pytest.raises(KeyboardInterrupt):
                run_study.train(two_jobs[:1], 1)
        assert "DivE" not in set(protocol_rows(run_study.FOLDER)["variant"]), f"done, without {name}"
    run_study.train(two_jobs[:1], 1)
    files = {path.name: pd.read_csv(path) for path in run_study.FOLDER.glob("*.csv")}
    assert len(files["runs.csv"]) == 1 and len(files["curves.csv"]) == 1


def test_photographs_without_the_word_vectors_of_the_rows_are_refused_and_not_mixed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    words = ("--list", "--part", "flickr8k", f"--flickr8k=~/{tmp_path.name}")
    for wrong in (words, ("--list", "--flickr8k", "/none")):
        with pytest.raises(SystemExit):
            ask(monkeypatch, *wrong)
        assert "--flickr8k" in (said := capsys.readouterr().err) or "no word vectors" in said
    (tmp_path / "glove").mkdir()
    (tmp_path / "glove" / "glove.6B.50d.txt").write_text("dog 0.1\n")
    assert ask(monkeypatch, *words) == 0
