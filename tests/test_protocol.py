"""The protocol's runs are those of docs/protocol.md, and the script makes each once."""

import contextlib
import re
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from tiny import tiny_config

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import run_study  # noqa: E402

from xmr_core.methods.registry import method_spec  # noqa: E402
from xmr_core.study import choices, convergence, jobs, progress, protocol, results  # noqa: E402
from xmr_core.study.again import trained_again  # noqa: E402
from xmr_core.study.ambiguity_jobs import (  # noqa: E402
    AMBIGUITIES,
    AMBIGUOUS,
    ambiguity,
    ambiguity_label,
    chosen_rates,
)
from xmr_core.study.claim_jobs import jobs_of_claims  # noqa: E402
from xmr_core.study.claims import CLAIMS  # noqa: E402
from xmr_core.study.decision_rows import deciding, longest, protocol_rows  # noqa: E402
from xmr_core.study.ensembles import Ensemble  # noqa: E402
from xmr_core.study.protocol import Job  # noqa: E402
from xmr_core.training.runs.produce import plan_run  # noqa: E402

PAGE = (ROOT / "docs" / "protocol.md").read_text()
NONE = pd.DataFrame(columns=list(results.COLUMNS))


def tuned(values: dict[str, list[float]], **more) -> pd.DataFrame:
    """Rows of tuning: label → RSUM of its trials on the validation split."""
    lines = [
        {"variant": f"{label}, tuning {n}", "metric": "val_rsum", "value": value, "seed": 0, "run_id": f"{label}{n}"}
        for label, trials in values.items()
        for n, value in enumerate(trials, 1)
    ]
    return (
        pd.DataFrame(lines)
        .assign(train_seconds=10.0, epochs=24, dataset="scenes", **more)
        .reindex(columns=list(results.COLUMNS))
    )


def test_the_page_has_the_trials_of_the_code():
    table = re.findall(r"^\| (\d) \| ([\d.]+) \| ([^|]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.M)
    assert [int(line[0]) for line in table] == list(range(1, len(protocol.TRIALS) + 1))
    names = {"InfoNCE": "infonce", "SigLIP": "siglip"}
    for (_, lr, loss, number, dropout), trial in zip(table, protocol.TRIALS, strict=True):
        config = protocol.in_common_form("VSE∞", **trial)
        options = {"objective": "infonce", "temperature": 0.05, "margin": 0.2, "dropout": 0.1} | config.options
        assert (config.train.lr, options["dropout"]) == (float(lr), float(dropout))
        assert options["objective"] == names.get(loss, "triplet")
        assert options["margin" if loss not in names else "temperature"] == float(number)


def test_the_page_has_the_numbers_of_the_code():
    said = " ".join(PAGE.split())
    for words in (
        f"A run has {protocol.EPOCHS} epochs", "world $1 + s \\bmod 2$", "seven trials on world 0, seed 0, 24 epochs",
        "8, 24 and 72 epochs with two seeds",
        "median of the first five runs of 72 epochs below two minutes of a core; five otherwise",
    ):  # fmt: skip
        assert words in said, words
    assert (protocol.TUNING_EPOCHS, protocol.SHORTER, protocol.WORLD, protocol.DECIDING) == (24, (8, 24), 0, (1, 2))
    assert (protocol.SEEDS, protocol.MORE_SEEDS, protocol.SHORT) == (5, 10, 120)


def test_all_methods_share_what_the_protocol_says_they_share():
    configs = [protocol.in_common_form(label) for label in protocol.labels()]
    assert len(configs) > 12 and len({str(config.replace(method="vse++", options={}).train) for config in configs}) == 1
    assert {(c.batch_images, c.captions_per_image, c.options.get("d")) for c in configs} == {(50, 2, 64)}
    assert all(c.options["text_local"] == "states" for c in configs if c.method in ("pvse", "pcme", "dive"))
    assert len(jobs.tuning()) == 7 * len(configs)


def test_the_earlier_of_equal_trials_is_chosen_and_only_when_all_are_there():
    rows = tuned({"DivE": [1, 3, 2, 3, 1, 1, 1], "PVSE": [1, 2, 3]})
    assert choices.chosen_trials(rows) == {"DivE": 2}


def test_seeds_alternate_between_the_worlds_that_decide():
    made = jobs.comparisons(NONE, {"DivE": 2})
    decided = [job.config for job in made if job.part == "comparison"]
    assert [(c.train.seed, c.data.world_seed) for c in decided] == [
        (0, 1),
        (1, 2),
        (2, 1),
        (3, 2),
        (4, 1),
        (5, 2),
        (6, 1),
        (7, 2),
        (8, 1),
        (9, 2),
    ]
    assert {(c.train.epochs, c.train.lr) for c in decided} == {(72, 1e-3)}, "the trial that was chosen"
    curve = [job.config for job in made if job.part == "budget"]
    assert sorted((c.train.epochs, c.train.seed, c.data.world_seed) for c in curve) == [
        (8, 0, 1), (8, 1, 2), (24, 0, 1), (24, 1, 2),
    ]  # fmt: skip


@pytest.mark.parametrize(("seconds", "seeds"), [(119.0, 10), (121.0, 5)])
def test_short_runs_have_more_seeds(seconds, seeds):
    five = pd.DataFrame({"variant": "CHAN", "run_id": list("abcde"), "seed": range(5), "train_seconds": seconds})
    rows = pd.concat([tuned({"CHAN": [1.0] * 7}), five.assign(epochs=72, metric="rsum", value=1.0, dataset="scenes")])
    assert sum(job.part == "comparison" for job in jobs.jobs(rows)) == seeds
    left = [job for job in jobs.missing(rows) if job.part == "comparison"]
    assert [job.config.train.seed for job in left] == list(range(5, seeds))


def test_hours_come_from_the_same_variant_of_whatever_part():
    rows = tuned({"DivE": [1.0], "DivE on GRU states": [1.0]})
    rows.loc[1, "train_seconds"] = 999.0
    job = Job("comparison", "DivE", "DivE", protocol.in_common_form("DivE", epochs=72))
    assert jobs.hours(job, rows) == pytest.approx(30 / 3600)
    assert jobs.hours(job, NONE) is None


def photographs(chosen: dict[str, int], rows: pd.DataFrame = NONE, curves: pd.DataFrame | None = None) -> list[Job]:
    return jobs.flickr8k("photographs", chosen, rows, UNSEEN if curves is None else curves)


CHOSEN = dict.fromkeys(protocol.labels(), 1)
UNSEEN = pd.DataFrame(columns=["run_id", "epoch", "value"])  # no validation curve yet


def test_one_control_has_one_label():
    first = protocol.canonical()
    assert {first[n] for n in ("α=16", "K=4", "T=4", "slots as in the paper", "smooth-Chamfer, slots", "DivE")} == {
        "DivE"
    }
    made = [job.label for job in jobs.ablations(NONE, UNSEEN, CHOSEN)]
    assert len(made) == 5 * len(set(made)) and not {"α=16", "K=4", *protocol.labels()} & set(made)
    assert {"α=1", "K=6", "T=1", "Chamfer, slots", "PCME, μ only"} <= set(made)


def test_every_label_of_a_claim_is_made_by_some_run():
    made = {job.label for job in [*jobs.comparisons(NONE, CHOSEN), *jobs.ablations(NONE, UNSEEN, CHOSEN)]}
    named = {name for c in CLAIMS for name in (*c.above, *c.below) if " + " not in name}
    assert {protocol.canonical()[name] for name in named} <= made


@pytest.mark.parametrize("number", range(1, 8))
def test_every_trial_makes_runs_of_every_part(number):
    chosen = dict.fromkeys(protocol.labels(), number)
    for made in (jobs.ablations(NONE, UNSEEN, chosen), ambiguity(NONE, chosen), photographs(chosen)):
        assert made and len({(job.label, job.config.train.seed) for job in made}) == len(made)


def test_an_ablation_takes_the_trial_of_what_it_varies():
    run = {job.label: job.config for job in jobs.ablations(NONE, UNSEEN, {**CHOSEN, "DivE": 2, "SAF": 3})}
    assert run["α=1"].train.lr == run["Chamfer, slots"].train.lr == 1e-3
    assert run["α=1"].options["alpha"] == 1 and run["PCME, μ only"].train.lr == 2e-3


def test_ablations_of_a_loss_that_tuning_put_away_keep_that_loss():
    """At trial 7 PCME++ is trained with InfoNCE, which reads nothing of what its ablations vary."""
    made = [{job.label: job.config for job in jobs.ablations(NONE, UNSEEN, {**CHOSEN, "PCME++": n})} for n in (1, 7)]
    ours = {label for label in made[1] if label.startswith("PCME++")}
    assert "PCME++, own loss" in ours and ours == {label for label in made[0] if label.startswith("PCME++")}
    other = {label for label in ours if made[1][label].options["objective"] != "matching"}
    assert other == {"PCME++, μ by InfoNCE"}


def test_ablations_take_the_best_of_the_trials_that_keep_the_loss():
    rows = tuned({"PCME++": [3.0, 2.0, 3.5, 1.0, 1.0, 1.0, 4.0]})
    chosen = choices.chosen_trials(rows)
    assert chosen == {"PCME++": 7}
    runs = {job.label: job.config for job in jobs.ablations(rows, UNSEEN, chosen)}
    assert runs["PCME++, own loss"].train.lr == runs["PCME++, no mixed samples"].train.lr == 4e-3


def test_an_ablation_that_names_no_loss_is_not_run_with_another():
    """VSE+2AD's parts are those of its adaptive objective; trial 6 is InfoNCE."""
    made = [{job.label for job in jobs.ablations(NONE, UNSEEN, {**CHOSEN, "VSE+2AD": n})} for n in (1, 6)]
    gone = made[0] - made[1]
    assert gone and {label.partition(",")[0] for label in gone} == {"VSE+2AD"}


def test_labels_of_the_protocol_are_different_runs_at_the_trials_that_were_chosen():
    """Else one of two arms of a claim would be the other under another name."""
    rows = protocol_rows()
    chosen = choices.chosen_trials(rows)
    assert chosen["PCME++"] == 7  # what makes the trap
    made = [*jobs.comparisons(rows, chosen), *jobs.ablations(rows, UNSEEN, chosen)]
    configs = [
        replace(run, options=method_spec(run.method).full_options("matched", run.options))
        for run in {job.label: job.config for job in made if job.config.train.seed == 0}.values()
    ]
    assert len(configs) > 90 and not any(a == b for a, b in combinations(configs, 2))


def test_labels_that_only_some_trial_tells_apart_are_two():
    first = protocol.canonical()
    assert first["PCME++, own loss"] == "PCME++, own loss" != first["PCME++"]


def test_ambiguity_has_worlds_of_its_own_and_three_objectives_each():
    made = ambiguity(NONE, CHOSEN)
    worlds = {(job.config.data.ambiguity, job.config.data.world_seed) for job in made}
    assert worlds == set(AMBIGUITIES.items()) and not {w for _, w in worlds} & {0, *protocol.DECIDING}
    objectives = {name: set() for name in AMBIGUOUS}
    for job in made:
        objectives[job.variant].add(job.config.options.get("objective"))
    assert {len(values) for values in objectives.values()} == {3}


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


def test_the_hinge_sees_all_negatives_for_a_third_of_any_budget():
    made = jobs.comparisons(NONE, {"VSE∞": 7})
    assert {(c.train.epochs, c.options["warmup_epochs"]) for c in (job.config for job in made)} == {
        (72, 24), (8, 2), (24, 8),
    }  # fmt: skip
    assert {job.config.options["warmup_epochs"] for job in photographs({"VSE∞": 7})} == {20 // 3}
    assert "warmup_epochs" not in protocol.trial("SCAN i-t, hinge, all negatives", 7)


def curve(values: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"run_id": "r", "epoch": range(len(values)), "value": values})


@pytest.mark.parametrize(
    ("values", "best", "converged"),
    [([0, 3, 4, 4, 4, 4, 4.01, 4], 6, True), ([0, 3, 4, 4, 4, 4, 4.03, 4], 6, False),
     ([0, 1, 2, 3, 4, 4, 4, 4], 7, False)],
)  # fmt: skip
def test_a_method_counts_as_converged_by_gain_and_best_epoch(values, best, converged):
    rows = pd.DataFrame({"run_id": ["r"], "variant": "DivE", "epochs": 8, "best_epoch": best})
    table = convergence.convergence(rows, curve(values), ["DivE", "PVSE"], 8)
    assert table["converged"].tolist() == [converged]
    assert convergence.unconverged(rows, curve(values), ["DivE"], 8) == ([] if converged else ["DivE"])


def test_what_is_not_converged_runs_longer_and_only_those_rows_count():
    rows = pd.DataFrame({"run_id": ["r"], "variant": "DivE", "epochs": 72, "best_epoch": 71, "train_seconds": 200.0})
    made = jobs.longer(rows, curve([float(n) for n in range(72)]), {"DivE": 1})
    assert {(job.label, job.config.train.epochs) for job in made} == {("DivE, 144 epochs", 144)} and len(made) == 10
    every = jobs.jobs(
        rows.assign(metric="rsum", dataset="scenes", seed=0, value=4.0),
        curve([*map(float, range(72))]),
        chosen={"DivE": 1},
    )
    seeds = {part: [job.config.train.seed for job in every if job.part == part] for part in ("comparison", "longer")}
    assert seeds == {"comparison": [*range(5)], "longer": [*range(10)]}, "72 epochs decide nothing any more"
    own = jobs.ablations(rows, curve([float(n) for n in range(72)]), CHOSEN)
    epochs = {job.label: job.config.train.epochs for job in own}
    assert (epochs["α=1"], epochs["Chamfer, slots"], epochs["PCME, μ only"]) == (144, 144, 72), "as their control"
    table = pd.DataFrame(
        [("DivE", 1, 72), ("DivE, 144 epochs", 1, 144), ("DivE, 8 epochs", 1, 8), ("DivE, tuning 1", 0, 24),
         ("PVSE", 2, 72)],
        columns=["variant", "world", "epochs"],
    ).assign(dataset="scenes").reindex(columns=list(results.COLUMNS))  # fmt: skip
    decided = deciding(table)
    assert set(decided.loc[decided["variant"] == "DivE", "epochs"]) == {144}
    assert {"α=16", "K=4", "PVSE", "DivE"} <= set(decided["variant"]) and not (decided["epochs"] < 72).any()


def test_photographs_run_longer_where_seed_0_is_not_converged_and_only_those_rows_count():
    rows = pd.DataFrame(
        [("a", "DivE", 20), ("b", "VSE∞", 20)], columns=["run_id", "variant", "epochs"]
    ).assign(dataset="flickr8k", best_epoch=12, seed=0)  # fmt: skip
    rising, flat = curve([float(n) for n in range(20)]), curve([4.0] * 20)
    made = photographs(CHOSEN, rows, pd.concat([rising.assign(run_id="a"), flat.assign(run_id="b")]))
    runs = [(job.label, job.config.train.epochs, job.config.train.seed) for job in made if job.variant == "DivE"]
    assert [run for run in runs if "MiniLM" not in run[0]] == [("DivE", 20, 0)] + [
        ("DivE, 40 epochs", 40, seed) for seed in range(5)
    ]
    others = {job.config.train.epochs for job in made if job.label != "DivE, 40 epochs"}
    assert others == {20}, "VSE∞ is converged, of the rest nothing is known"
    elsewhere = photographs(CHOSEN, rows.assign(dataset="scenes"), rising.assign(run_id="a"))
    assert {job.config.train.epochs for job in elsewhere} == {20}

    again = rows[:1].assign(variant="DivE, 40 epochs", epochs=40)
    table = pd.concat([rows, again, rows[:1].assign(dataset="scenes", world=1)])
    decided = longest(table).set_index(["variant", "dataset"])["epochs"].to_dict()
    assert decided == {("VSE∞", "flickr8k"): 20, ("DivE", "flickr8k"): 40, ("DivE", "scenes"): 20}


def test_a_claim_needs_the_runs_of_its_labels_and_their_tuning():
    claims = {claim.id: claim for claim in CLAIMS}
    before = jobs_of_claims(jobs.jobs(NONE), [claims["dive-smooth-mp"]])
    assert {(job.part, job.variant) for job in before} == {("tuning", "DivE")} and len(before) == 7
    every = jobs.jobs(NONE, flickr8k_root="photographs", chosen=CHOSEN)
    own = jobs_of_claims(every, [claims["dive-smooth-mp"]])
    runs = {(job.part, job.label, job.config.data.dataset) for job in own if job.part != "tuning"}
    assert runs == {
        ("comparison", "DivE", "scenes"), ("flickr8k", "DivE", "flickr8k"), ("DivE's ablations", "MP, slots", "scenes"),
    }, "the smooth-Chamfer distance with slots is DivE itself"  # fmt: skip
    members = {job.variant for job in jobs_of_claims(every, [claims["sgraf-ensemble"]])}
    assert {"SAF", "SGR"} <= members and not members & {"DivE", "VSE∞"}
    assert not any(jobs_of_claims(every, [c]) == [] for c in CLAIMS), "no claim is without runs"


@pytest.mark.parametrize("words", [["--claim", "no-such-claim"], ["--claim", "dive-pvs", "--status"]])
def test_a_claim_that_does_not_exist_is_refused_before_anything_runs(words, two_jobs, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run_study.py", *words])
    with pytest.raises(SystemExit, match="2"):
        run_study.main()
    assert f"unknown claim '{words[1]}'" in capsys.readouterr().err and not run_study.FOLDER.exists()


def test_only_the_first_seeds_and_one_claim_are_counted(two_jobs, monkeypatch, capsys):
    ask(monkeypatch, "--status", "--claim", "dive-pvse")
    assert "of what was asked for: 2 runs missing" in capsys.readouterr().out
    ask(monkeypatch, "--status", "--claim", "scan-vsepp")
    assert "of what was asked for: 0 runs missing" in capsys.readouterr().out
    ask(monkeypatch, "--status", "--seeds", "0")
    assert "of what was asked for: 0 runs missing" in capsys.readouterr().out


def test_only_runs_whose_label_has_a_text_in_it_are_asked_for(two_jobs, monkeypatch, capsys):
    monkeypatch.setattr(run_study, "jobs", lambda *_: two_jobs)
    for words, n in ((["144"], 1), (["DivE"], 2), (["144", "DivE"], 2)):
        ask(monkeypatch, "--status", *(word for text in words for word in ("--label", text)))
        assert f"of what was asked for: {n} runs missing" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["run_study.py", "--label", "no such label"])
    with pytest.raises(SystemExit, match="2"):
        run_study.main()
    assert "no run has 'no such label' in its label" in capsys.readouterr().err and not run_study.FOLDER.exists()


@pytest.fixture
def two_jobs(tmp_path, monkeypatch):
    configs = {"DivE": tiny_config("dive", epochs=1), "DivE, 144 epochs": tiny_config("dive")}
    wanted = [Job("comparison", "DivE", label, config) for label, config in configs.items()]

    def missing(rows, curves, photographs, chosen=None):
        return [job for job in wanted if job.label not in set(rows["variant"])]

    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(run_study, "FOLDER", tmp_path / "protocol")
    monkeypatch.setattr(progress, "jobs", lambda rows, curves, photographs, chosen: wanted)
    monkeypatch.setattr(run_study, "missing", missing)
    monkeypatch.setattr(run_study, "earlier_rows", lambda: NONE)
    return wanted


def train(jobs: list[Job], workers: int = 1) -> None:
    """Train what has no rows yet, as `main` does."""
    run_study.train(lambda: [j for j in jobs if j.label not in set(run_study.rows()["variant"])], workers)


def ask(monkeypatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["run_study.py", *words])
    assert run_study.main() == 0


@pytest.mark.slow
def test_what_is_missing_is_trained_and_its_rows_are_written_once(two_jobs, monkeypatch, capsys):
    ask(monkeypatch, "--status")
    assert "comparison: 0 of 2 runs done, 1.0 hours of a core left" in capsys.readouterr().out
    ask(monkeypatch, "--hours", "0.1")
    assert not run_study.FOLDER.exists(), "a run that would end too late was begun"
    train(two_jobs[:1])
    ask(monkeypatch, "--workers", "2")
    assert "comparison: 2 of 2 runs done, 0.0 hours of a core left" in capsys.readouterr().out
    first = (run_study.FOLDER / "results.csv").read_bytes()
    assert set(run_study.rows()["variant"]) == {"DivE", "DivE, 144 epochs"}
    assert len(pd.read_csv(run_study.FOLDER / "curves.csv")) == 3
    assert len(pd.read_csv(run_study.FOLDER / "rules.csv")) >= len(CLAIMS), "rules are registered before rows"
    rows = run_study.rows()
    metrics = rows.groupby("variant")["metric"].agg(set)
    assert metrics["DivE"] == metrics["DivE, 144 epochs"] > {"rsum_of_weakest_element"}, (
        "what claims about DivE need, of both"
    )
    rsum = rows[(rows["relevance"] == "annotated") & (rows["variant"] == "DivE")].set_index("metric")["value"]
    interval = float(rsum["rsum_high"]) - float(rsum["rsum_low"])
    assert float(rsum["rsum_error"]) == pytest.approx(interval / 3.92, rel=0.25), "32 images: the bootstrap is coarse"
    train(two_jobs)
    assert (run_study.FOLDER / "results.csv").read_bytes() == first

    # what is measured only later is added to what finished runs have, and nothing else changes
    monkeypatch.setattr(run_study, "jobs", lambda *_: two_jobs)
    images = pd.read_csv(run_study.FOLDER / run_study.IMAGES)
    assert len(images) == 2 * 2 and set(images["metric"]) == {"rsum"}, "RSUM by two relevances, for each run once"
    (run_study.FOLDER / run_study.IMAGES).unlink()
    lines = first.decode().splitlines(keepends=True)
    fewer = [line for line in lines if ",DivE," not in line or "rsum_of_weakest_element_error" not in line]
    assert 0 < len(lines) - len(fewer) <= 2
    (run_study.FOLDER / "results.csv").write_text("".join(fewer))
    ask(monkeypatch, "--measure-again", "--variant", "DivE")
    assert "2 finished runs on this machine were measured again" in capsys.readouterr().out
    again = (run_study.FOLDER / "results.csv").read_text().splitlines(keepends=True)
    assert sorted(again) == sorted(lines)
    assert pd.read_csv(run_study.FOLDER / run_study.IMAGES).equals(images)

    # of a training with other results, what no row is there of
    other = [line.replace(",rsum,0,", ",rsum,0,1") for line in lines if "rsum_of_weakest_element" not in line]
    (run_study.FOLDER / "results.csv").write_text("".join(other))
    ask(monkeypatch, "--measure-again", "--variant", "DivE")
    again = (run_study.FOLDER / "results.csv").read_text().splitlines(keepends=True)
    gone = [line for line in lines if "rsum_of_weakest_element" in line]
    assert again[: len(other)] == other and sorted(again[len(other) :]) == sorted(gone) and len(gone) > 4
    second = results.read(run_study.FOLDER / "again" / "results.csv")
    assert set(second["variant"]) == {"DivE", "DivE, 144 epochs"} and len(second) > len(lines) / 2
    table = trained_again(run_study.FOLDER)
    value = rows[(rows["relevance"] == "annotated") & (rows["metric"] == "rsum")]["value"].astype(float)
    assert table["label"].tolist() == ["DivE"] and table["again"].item() == pytest.approx(100 * value.mean())
    stored = run_study.rows()
    stored = stored[(stored["relevance"] == "annotated") & (stored["metric"] == "rsum")]["value"].astype(float)
    away = 100 * (value.mean() - stored.mean())
    assert table["difference"].item() == pytest.approx(away) and abs(away) > 10


@pytest.mark.slow
def test_a_run_that_fails_is_told_at_the_end_and_stops_no_other(two_jobs, monkeypatch, capsys):
    bad = Job("comparison", "DivE", "DivE, 8 epochs", tiny_config("dive", unit="classes"))
    two_jobs.insert(0, bad)
    monkeypatch.setattr(sys, "argv", ["run_study.py", "--workers", "1"])
    assert run_study.main() == 1
    assert set(run_study.rows()["variant"]) == {"DivE", "DivE, 144 epochs"}
    assert "has no rows: BadInput: " in capsys.readouterr().out


@pytest.mark.slow
def test_a_kill_between_two_files_loses_nothing(two_jobs, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_study.results.storage, "write_atomic", killed)
        with pytest.raises(KeyboardInterrupt):
            train(two_jobs[:1])
    for name in ("curves.csv", "images.csv", "runs.csv", "results.csv"):  # after each of the files in turn
        real = run_study.results.storage.write_atomic

        def until(path, text, name=name, real=real):
            if path.name == name:
                raise KeyboardInterrupt
            return real(path, text)

        with monkeypatch.context() as patch:
            patch.setattr(run_study.results.storage, "write_atomic", until)
            with pytest.raises(KeyboardInterrupt):
                train(two_jobs[:1])
        assert "DivE" not in set(run_study.rows()["variant"]), f"done, without {name}"
    train(two_jobs[:1])
    files = {path.name: pd.read_csv(path) for path in run_study.FOLDER.glob("*.csv")}
    assert len(files["runs.csv"]) == 1 and len(files["curves.csv"]) == 1 and len(files["images.csv"]) == 2
    rows = run_study.rows()
    assert not rows.duplicated(["variant", "relevance", "direction", "metric", "k"]).any()


@pytest.mark.parametrize(("words", "trained"), [((), 2), (("--part", "tuning"), 0), (("--variant", "SAF"), 0)])
def test_members_of_ensembles_are_trained_only_where_everything_was_asked_for(words, trained, monkeypatch, capsys):
    members = tuple(Job("comparison", name, name, tiny_config(seed=n)) for n, name in enumerate(("SAF", "SGR")))
    asked = []
    monkeypatch.setattr(run_study, "selected", lambda *_: [])
    monkeypatch.setattr(run_study, "uncomputed", lambda *_: [Ensemble("SAF + SGR", members)])
    monkeypatch.setattr(run_study, "train_or_load_all", lambda configs, _: asked.extend(configs) or sys.exit(0))
    monkeypatch.setattr(sys, "argv", ["run_study.py", *words])
    with contextlib.suppress(SystemExit):
        run_study.main()
    assert len(asked) == trained


@pytest.mark.parametrize(
    "words",
    [("--workers", "0"), ("--seeds", "-1"), ("--hours", "nan"), ("--flickr8k", "/none"),
     ("--flickr8k", "~nobody-here/x"), ("--flickr8k", __file__)],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run_study.py", "--status", *words])
    with pytest.raises(SystemExit):
        run_study.main()
    assert words[0] in capsys.readouterr().err


def test_photographs_without_the_word_vectors_of_the_rows_are_refused_and_not_mixed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    monkeypatch.setattr(sys, "argv", ["run_study.py", "--part", "flickr8k", f"--flickr8k=~/{tmp_path.name}"])
    monkeypatch.setattr(run_study, "train", lambda *_, **__: {})
    with pytest.raises(SystemExit):
        run_study.main()
    assert "no word vectors" in capsys.readouterr().err
    (tmp_path / "glove").mkdir()
    (tmp_path / "glove" / "glove.6B.50d.txt").write_text("dog 0.1\n")
    assert run_study.main() == 0


@pytest.mark.slow
def test_rows_of_a_run_are_there_before_the_next_one_ends(two_jobs, monkeypatch):
    seen, write = [], run_study.write

    def watched(run, labels):
        write(run, labels)
        seen.append(set(run_study.rows()["variant"]))
        if len(seen) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(run_study, "write", watched)
    with pytest.raises(KeyboardInterrupt):
        train(two_jobs)
    assert len(seen[0]) == 1
    monkeypatch.setattr(run_study, "write", write)
    train(two_jobs)
    assert set(run_study.rows()["variant"]) == {"DivE", "DivE, 144 epochs"}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_what_rows_tell_is_heard_when_a_run_ends_and_one_run_may_have_two_labels(two_jobs, workers):
    first, then = two_jobs
    alias = replace(first, label="K=4")

    def wanted():
        there = set(run_study.rows()["variant"])
        return [job for job in ([first, alias, then] if "DivE" in there else [first, alias]) if job.label not in there]

    heard = []
    assert run_study.train(wanted, workers, lambda: heard.append(set(run_study.rows()["variant"]))) == {}
    assert set(run_study.rows()["variant"]) == {"DivE", "K=4", "DivE, 144 epochs"}
    assert heard[:2] == [set(), {"DivE", "K=4"}] and len(heard) == 4, "after each of two runs, and at both ends"


def test_one_run_more_than_there_are_workers_is_begun_and_the_first_come_first(two_jobs, monkeypatch):
    """Whatever waits longer would be begun without what the rows of others tell."""
    jobs = [Job("comparison", "DivE", f"{n}", tiny_config("dive", epochs=1, seed=n)) for n in range(7)]
    ids = [plan_run(job.config).id for job in jobs]
    going, most, order, wanted = set(), [], [], [*jobs]

    class Ended:
        def __init__(self, run_id: str):
            self.id = run_id

    def pretended(configs, workers, each, more, failed):
        new = configs
        while new or going:
            order.extend(plan_run(config).id for config in new)
            going.update(order[-len(new) :] if new else ())
            most.append(len(going))
            run_id = next(one for one in order if one in going)
            going.remove(run_id)
            wanted[:] = [job for job in wanted if plan_run(job.config).id != run_id]
            each(Ended(run_id))
            new = more()

    monkeypatch.setattr(run_study, "train_or_load_all", pretended)
    monkeypatch.setattr(run_study, "write", lambda run, labels: None)
    run_study.train(lambda: wanted, 2)
    assert order == ids and most == [3, 3, 3, 3, 3, 2, 1]


def test_a_stop_at_any_time_leaves_as_many_seeds_of_each_variant():
    """Seed by seed, the longest first, and never a later part before an earlier one."""
    jobs = [
        Job(part, label, label, protocol.in_common_form(label, seed=seed, epochs=8))
        for part in ("comparison", "tuning") for label in ("VSE++", "DivE") for seed in (1, 0)
    ]  # fmt: skip
    seconds = pd.DataFrame(
        {"variant": ["DivE", "VSE++"], "run_id": ["a", "b"], "train_seconds": [80.0, 8.0], "epochs": [8, 8]}
    )
    order = [(job.part, job.config.train.seed, job.label) for job, _ in progress.estimated(jobs, seconds)]
    assert order == [
        (part, seed, label) for part in ("tuning", "comparison") for seed in (0, 1) for label in ("DivE", "VSE++")
    ]


def test_hours_of_an_earlier_study_are_turned_into_hours_of_now():
    """By the variant whose earlier time was the nearest: SAF's by that of SCAN, which is five times as fast now."""
    before = {"VSE++": 10.0, "SCAN t-i": 250.0, "SAF": 500.0}
    earlier, now = (
        pd.DataFrame({"variant": list(t), "run_id": list(t), "train_seconds": list(t.values()), "epochs": 10})
        for t in (before, {"VSE++": 5.0, "SCAN t-i": 50.0})
    )
    job = Job("comparison", "SAF", "SAF", protocol.in_common_form("SAF", epochs=72))
    [(_, needed)] = progress.estimated([job], now, earlier)
    assert needed == pytest.approx(72 * 10 / 3600)
    [(_, unchanged)] = progress.estimated([job], now.iloc[:0], earlier)
    assert unchanged == pytest.approx(72 * 50 / 3600)


def test_the_page_names_what_compares_no_pairs():
    light = {label for label in protocol.labels() if not protocol.compares_pairs(label)}
    said = re.search(r"Ten seeds for what compares no pairs \(([^)]*)\)", " ".join(PAGE.split())).group(1)
    assert set(said.split(", ")) == light and set(protocol.SEEN_EARLY) < light
