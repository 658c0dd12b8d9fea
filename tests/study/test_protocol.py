"""The protocol's runs are those of docs/protocol.md, and the script makes each once and keeps what it measured."""

import sys
from importlib import import_module
from io import StringIO
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from miniatures import miniature
from scipy.stats import spearmanr
from tiny import tiny_config

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import run_study  # noqa: E402

import xmr_core as xmr  # noqa: E402
from xmr_core.base.errors import BadInput, DamagedFile, Interrupted, TrainingFailed  # noqa: E402
from xmr_core.base.types import EmbeddingSet  # noqa: E402
from xmr_core.evaluation.analysis.representations import encode_split  # noqa: E402
from xmr_core.training.runs import sweep, train_or_load  # noqa: E402
from xmr_study import protocol, records  # noqa: E402
from xmr_study.claims import CLAIMS  # noqa: E402
from xmr_study.protocol import Job, jobs, missing  # noqa: E402

load = import_module("xmr_core.models.load")  # xmr_core.models.load is the function
NONE = pd.DataFrame(columns=records.COLUMNS)
KEYS = [*protocol.KEY, "validation"]


def rows(lines: list[tuple], processor: str = "A") -> pd.DataFrame:
    """Rows of runs: label, epochs, learning rate, world, seed, RSUM on the validation split; or, before it, the
    ambiguity and the data set."""
    table = pd.DataFrame(
        [(*line[:5], *(line[5:] if len(line) > 6 else (0.05, "scenes", line[5]))) for line in lines], columns=KEYS
    )
    table["processor"] = processor
    return table.reindex(columns=records.COLUMNS)


def lengths(gain: float, of: str = "DivE") -> pd.DataFrame:
    """All runs of the length; doubling adds `gain` points to one method, and 1 to the others."""
    lines = []
    for label, seed in product(protocol.light(), (0, 1)):
        more = gain if label == of else 1.0
        lines += [(label, 72, 2e-3, 0, seed, 400.0), (label, 144, 2e-3, 0, seed, 400.0 + more)]
    return rows(lines)


def tuned(best: float) -> pd.DataFrame:
    """Length 72, and every rate of every method; `best` validates best, as far as it has been tried."""
    tried = {*protocol.RATES, best}
    more = product(protocol.light(), tried, (0, 1))
    lines = [(label, 72, rate, 0, seed, 401.0 if rate == best else 399.0) for label, rate, seed in more]
    kept = lengths(1.0)
    return pd.concat([kept[kept["epochs"] == 144], rows(lines)])


def test_one_control_has_one_label():
    first = protocol.canonical()
    assert {first[n] for n in ("α=16", "K=4", "T=4", "slots as in the paper", "DivE")} == {"DivE"}
    assert first["PCME++, own loss"] == "PCME++, own loss", "the compared one has the common objective"
    assert {first[label] for label in protocol.labels()} == {*protocol.labels()}


def test_first_of_all_is_the_length():
    first = jobs(NONE)
    assert {(j.label, j.config.train.epochs, j.config.train.seed) for j in first} == {
        *product(protocol.light(), (72, 144), (0, 1))
    }
    assert {(j.part, j.config.train.lr, j.config.data.world_seed) for j in first} == {("length", 2e-3, 0)}
    assert {j.config.train.warmup_steps for j in first} == {40}, "the rate rises for an epoch"
    assert protocol.length(lengths(1.0)[1:]) is None, "one is missing"


@pytest.mark.parametrize(("gain", "epochs"), [(2.9, 72), (3.0, 144), (30.0, 144)])
def test_the_length_is_what_the_slowest_light_method_needs(gain, epochs):
    assert protocol.length(lengths(gain)) == epochs
    assert {j.config.train.epochs for j in jobs(lengths(gain)) if j.part == "tuning"} == {epochs}


@pytest.mark.parametrize(("best", "tried"), [(4e-3, 4), (8e-3, 5), (1e-3, 5)])
def test_the_rate_is_looked_for_one_step_past_an_edge_that_wins(best, tried):
    table = tuned(best)
    assert len(protocol.tried(table, "DivE", 72)) == tried
    beyond = {8e-3: 1.6e-2, 1e-3: 5e-4}.get(best)
    assert protocol.chosen_rate(table, "DivE", 72) == (None if beyond else best), "the edge's neighbour is not there"
    if beyond:
        wanted = {j.config.train.lr for j in missing(jobs(table), table, "A") if j.part == "tuning"}
        assert wanted == {beyond}, "and nothing else is missing"
        more = [("DivE", 72, beyond, 0, seed, value) for seed, value in enumerate((401.0, 402.0))]
        assert protocol.chosen_rate(pd.concat([table, rows(more)]), "DivE", 72) == beyond
        assert protocol.chosen_rate(pd.concat([table, rows(more[:1])]), "DivE", 72) is None, "two seeds choose"


def test_a_run_that_failed_is_never_chosen_and_stops_no_choice():
    table = tuned(4e-3)
    fails = (table["label"] == "DivE") & (table["lr"] == 4e-3) & (table["seed"] == 1)
    lost = table.assign(validation=table["validation"].mask(fails))
    assert protocol.tried(lost, "DivE", 72)[4e-3] == -np.inf
    for label in ("VSE++", "DivE"):
        lost = lengths(30.0)
        lost.loc[(lost["label"] == label) & (lost["epochs"] == 144) & (lost["seed"] == 0), "validation"] = np.nan
        assert protocol.length(lost) == (144 if label == "VSE++" else 72)
    first = [j for j in jobs(NONE, flickr8k="photos") if j.part == "photographs, rate" and j.label == "DivE"]
    made = rows([(*j.key, 290.0 + n) for n, j in enumerate(first)])
    made.loc[len(made) - 1, "validation"] = np.nan
    assert protocol.photograph_rate(made, "DivE") == protocol.PHOTOGRAPH_RATES[-2]


def test_of_equal_rates_the_lower_is_chosen():
    table = tuned(4e-3).assign(validation=400.0)
    table.loc[table["lr"].isin((2e-3, 4e-3)), "validation"] = 402.0
    assert protocol.chosen_rate(table, "VSE∞, 4 × wider", 72) == 2e-3, "an ablation takes its method's"


def test_what_decides_is_crossed_on_worlds_that_chose_nothing():
    every = [j for j in jobs(tuned(4e-3)) if j.part in ("capacity", "comparison")]
    held = {(j.part, j.label): set() for j in every}
    for j in every:
        held[j.part, j.label].add((j.config.data.world_seed, j.config.train.seed))
    assert held["comparison", "PVSE"] == {*product((1, 2, 3, 4), range(3))}
    assert held["capacity", "VSE∞, 16 × wider"] == held["capacity", "DivE"] == {*product((1, 2), range(3))}
    assert {j.config.train.lr for j in every} == {4e-3}
    epochs = {j.label: j.config.train.epochs for j in every}
    assert epochs["DivE, 4 × 16"] == 72 and epochs["VSE∞, 16 × wider, DivE's time"] == round(72 * 36 / 124)
    assert held["capacity", "DivE, 1 × 256"] == {*product((1,), range(3))}, "a crossing"
    assert {j.config.options["objective"] for j in every if "objective" in j.config.options} == {"infonce"}


def test_ambiguity_has_the_same_images_and_a_hinge_that_was_tuned():
    table = tuned(4e-3)
    first = [j for j in jobs(table) if j.part == "hinge"]
    assert {j.config.train.seed for j in first} == {0}
    assert {(j.config.train.lr, j.config.options["warmup_epochs"], j.config.data.ambiguity) for j in first} == {
        (rate, n, 0.1) for rate in (1e-3, 2e-3, 4e-3) for n in (24, 48)
    }
    before = [j for j in jobs(table) if j.part == "ambiguity"]
    assert {j.label for j in before} == {
        *(f"{label}, InfoNCE, {mask}" for label in ("VSE∞", "DivE") for mask in ("annotated", "left out", "true")),
        "PCME++", "MaxSim t-i",
    }  # fmt: skip
    best = ("DivE", 2e-3, 48)
    made = rows(
        [(*j.key, 300.0 + ((j.label.split(",")[0], j.config.train.lr, j.config.options["warmup_epochs"]) == best))
         for j in first]
    )  # fmt: skip
    table = pd.concat([table, made])
    assert protocol.chosen_hinge(table, "DivE", 72) == (2e-3, 48)
    assert protocol.chosen_hinge(made[:-1], "DivE", 72) is None, "one is missing"
    after = [j for j in jobs(table) if j.part == "ambiguity"]
    hinge = [j.config for j in after if j.label == "DivE, hinge, left out"]
    assert {(c.data.world_seed, c.data.ambiguity, c.train.seed) for c in hinge} == {
        *product((1, 2), (0.1, 0.5), (0, 1))
    }, "masks are crossed with the levels that differ by them"
    assert {(c.train.lr, c.options["warmup_epochs"], c.positives) for c in hinge} == {(2e-3, 48, "left out")}
    assert len(after) == len({j.key for j in after}) == 4 * 2 * (2 + 5 + 5) + 2 * 3


def test_the_plan_is_a_table_of_every_run_and_the_committed_one_is_todays(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run_study.py", "--plan"])
    assert run_study.main() == 0
    table = pd.read_csv(StringIO(capsys.readouterr().out))
    assert set(table["part"]) == {part for part in protocol.PARTS if "photographs" not in part}
    assert (table["seconds"] > 0).all()
    pd.testing.assert_frame_equal(table, pd.read_csv(ROOT / "reports" / "planned.csv"))


def test_pairs_are_trained_beside_what_they_are_compared_with():
    of = {}
    for job in jobs(tuned(4e-3)):
        if job.part == "pairs":
            of.setdefault(job.batch, set()).add(job.label)
    beside = {"CHAN", "MaxSim t-i", "SCAN t-i", "SCAN i-t", "MaxSim i-t", "VSE++", "VSE∞", "VSE+2AD", "DivE"}
    assert len(of) == 6 and all(labels == beside for labels in of.values())


def test_photographs_have_a_rate_of_their_own_and_pairs_none():
    table = tuned(4e-3)
    assert not any(j.config.data.dataset != "scenes" for j in jobs(table))
    on = [j for j in jobs(table, flickr8k="photos") if j.config.data.dataset == "flickr8k"]
    first = [j for j in on if j.part == "photographs, rate"]
    assert len(first) == 7 * 4 and {j.config.train.seed for j in first} == {0}
    assert {j.label for j in on if j.part == "photographs"} == {"CHAN", "MaxSim t-i", "SCAN t-i"}
    made = rows([(*j.key, 290.0 + (j.config.train.lr == 7.5e-4)) for j in first])
    assert protocol.photograph_rate(made, "PCME") == 7.5e-4 and protocol.photograph_rate(made[:-1], "PCME++") is None
    after = [j for j in jobs(pd.concat([table, made]), flickr8k="photos") if j.part == "photographs"]
    assert len(after) == 7 * 5 + 3 * 3 and {j.config.data.data_root for j in after} == {"photos"}
    assert {j.config.train.lr for j in after if j.label == "DivE"} == {7.5e-4}
    assert {(j.config.train.epochs, j.config.train.warmup_steps, j.config.options["d"]) for j in after} == {
        (40, 93, 256)
    }
    assert not any(j.config.train.lr == 7.5e-4 for j in jobs(pd.concat([table, made]))), "and choose nothing else"


def test_what_is_compared_comes_from_one_processor():
    table = tuned(4e-3)
    batch = [j for j in jobs(table) if j.batch == ("comparison", "scenes", 3, 0.05, 1)]
    assert {j.label for j in batch} == {*protocol.light()}
    made = [rows([(*j.key, 400.0) for j in own]) for own in (batch, batch[:-1])]
    whole, broken = (pd.concat([table, own]) for own in made)
    left = [{j.key for j in missing(jobs(t), t, name)} for t in (whole, broken) for name in ("A", "B")]
    keys = {j.key for j in batch}
    assert not left[0] & keys and not left[1] & keys, "a whole batch is done, wherever it was made"
    assert left[2] & keys == {batch[-1].key} and keys <= left[3], "another processor begins anew"
    assert not any(j.part in ("length", "tuning") for j in missing(jobs(whole), whole, "B")), "choices need it not"


def test_the_rows_that_stand_are_runs_of_the_protocol():
    table = records.read()
    wanted = {(j.part, j.key) for j in jobs(table, flickr8k="photos")}
    assert {(line[0], line[1:]) for line in table[["part", *protocol.KEY]].itertuples(index=False, name=None)} <= wanted
    assert not table.duplicated(["processor", *protocol.KEY]).any()
    for line in table[table["failure"].isna()].to_dict("records"):
        shape = records.unpacked(records.ranks_file(line).read_bytes()).shape
        assert shape == ((2, 30000) if line["dataset"] == "scenes" else (1, 6000))


def test_every_label_of_a_claim_is_a_variant():
    named = {name for c in CLAIMS for name in (*c.above, *c.below) if " + " not in name}
    assert named <= {*protocol.variants()}


# what is kept of a run


@pytest.fixture
def small_galleries(monkeypatch):
    """Ten galleries of the smallest world: three images each, and four."""
    from xmr_core.data.scenes import corpus
    from xmr_core.evaluation.metrics import Protocol

    monkeypatch.setitem(corpus.SIZES, "galleries", (64, 32, 32))
    monkeypatch.setattr(records, "GALLERIES", Protocol("small", 32, 10, ""))


@pytest.mark.slow
def test_what_is_measured_is_the_mean_over_galleries_with_the_rank_of_every_query(own_home, small_galleries):
    run = train_or_load(tiny_config("dive", epochs=1))
    numbers, ranks = records.measured(run)
    split = run.prepared().splits["test"]  # the same images here, in one gallery
    scores = run.method().similarity(*encode_split(run.method(), split)).detach().numpy().astype(np.float64)
    true = run.corpus.relevance_sets["exhaustive"]("test")
    truth = np.zeros((32, len(true)), bool)  # images × captions
    truth[true.indices, np.repeat(np.arange(len(true)), true.counts)] = True
    owner, per_gallery, first = split.owners, [], {"annotated": ([], []), "exhaustive": ([], [])}
    for images in np.array_split(np.arange(32), 10):
        captions = np.flatnonzero(np.isin(owner, images))
        hits = {}
        for kind in first:
            for d, (queries, items) in enumerate(((images, captions), (captions, images))):
                for q in queries:
                    s = scores[q, items] if d == 0 else scores[items, q]
                    if kind == "annotated":
                        right = owner[items] == q if d == 0 else items == owner[q]
                    else:
                        right = truth[q, items] if d == 0 else truth[items, q]
                    best = s[right].max()
                    first[kind][d].append(1 + int((s[~right] >= best).sum()))
                    for k in (1, 5, 10):
                        hits.setdefault((kind, d, k), []).append(first[kind][d][-1] <= k)
        per_gallery.append({key: np.mean(value) for key, value in hits.items()})
    for kind, row in zip(("annotated", "exhaustive"), ranks, strict=True):
        assert sorted(row.tolist()) == sorted([*first[kind][0], *first[kind][1]])
        wanted = np.mean([sum(g[kind, d, k] for d in (0, 1) for k in (1, 5, 10)) for g in per_gallery])
        assert numbers[f"{kind} both rsum"] == pytest.approx(wanted)
    assert numbers["images log_circular_variance"] < 0
    sets = [items.x.detach().numpy().astype(np.float64) for items in encode_split(run.method(), split)]
    sets[1] = sets[1][::5]  # the first caption of each image
    slot = np.concatenate([np.tile(np.arange(own.shape[1]), len(own)) for own in sets])
    unit = np.concatenate([own.reshape(-1, own.shape[-1]) for own in sets])
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    nearest = [max((c, j) for j, c in enumerate(unit @ unit[n]) if j != n)[1] for n in range(len(unit))]
    assert numbers["same_slot_share"] == pytest.approx(np.mean(slot == slot[nearest]))
    gallery = np.concatenate([np.full(len(own), n) for n, own in enumerate(np.array_split(np.arange(32), 10))])
    answers = (truth & (gallery[:, None] == gallery[owner])).sum(0)
    assert_claims_on_sets_are_measured(run, numbers, first, answers)


def assert_claims_on_sets_are_measured(run, numbers, first, answers):
    """first: kind → first ranks of images and of captions, in galleries. answers: of each caption there."""
    split = run.prepared().splits["test"]
    sets = encode_split(run.method(), split)
    for d, items in enumerate(sets):
        unit = items.x.detach().numpy().astype(np.float64)
        width = np.log(1 - np.linalg.norm((unit / np.linalg.norm(unit, axis=-1, keepdims=True)).mean(1), axis=1))
        for kind, ranks in first.items():
            wanted = spearmanr(width, np.array(ranks[d]) == 1).statistic
            name = f"{kind} {('i2t', 't2i')[d]} spearman_uncertainty_r1"
            assert numbers[name] == pytest.approx(wanted, abs=1e-6), name
    assert numbers["exhaustive t2i spearman_uncertainty_answers"] == pytest.approx(spearmanr(width, answers).statistic)
    assert "images attention_overlap_gain" in numbers and "images attention_entropy_fall" in numbers

    def rsum(kept):
        images = EmbeddingSet(sets[0].x[:, kept], sets[0].mask[:, kept])
        scores, total = run.method().similarity(images, sets[1]).detach().numpy(), 0.0
        for queries, right in ((scores, split.owners == np.arange(32)[:, None]), (scores.T, None)):
            right = (split.owners[:, None] == np.arange(32)) if right is None else right
            ranks = [1 + int((s[~r] >= s[r].max()).sum()) for s, r in zip(queries, right, strict=True)]
            total += sum(np.mean(np.array(ranks) <= k) for k in (1, 5, 10))
        return total

    k = sets[0].x.shape[1]
    weakest = min(range(k), key=lambda e: rsum([e]))
    wanted = rsum([*range(k)]) - rsum([e for e in range(k) if e != weakest])
    assert numbers["annotated images rsum_of_weakest_element"] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "asked"), [("vse++", ""), ("pvse", "weakest"), ("pcme", "ρ"), ("pcme++", "ρ")])
def test_every_light_method_is_measured_by_what_it_has(method, asked, own_home, small_galleries):
    numbers, _ = records.measured(train_or_load(tiny_config(method, epochs=1)))
    there = {name for name in numbers if "spearman" in name or "weakest" in name or "attention" in name}
    assert any("spearman" in name for name in there) is bool(asked) and not any("attention" in name for name in there)
    assert any("weakest" in name for name in there) is (asked == "weakest")


@pytest.mark.slow
def test_a_run_on_photographs_is_measured_on_its_test_split(own_home, tmp_path):
    root = miniature("precomputed", tmp_path / "coco")
    run = train_or_load(tiny_config("vse++", dataset="precomputed", data_root=str(root), epochs=1))
    numbers, ranks = records.measured(run)
    value = run.metrics.set_index(["relevance", "direction", "metric", "k"])["value"]
    assert numbers["annotated both rsum"] == pytest.approx(value["annotated", "both", "rsum", 0])
    assert ranks[0].tolist() == run.per_query.loc[run.per_query["relevance"] == "annotated", "first_rank"].tolist()
    assert len(ranks) == 1 and records.unpacked(records.packed(ranks)).tolist() == ranks.tolist()


def test_a_damaged_file_of_ranks_is_told():
    content = records.packed(np.arange(12, dtype=np.uint16).reshape(2, 6) * 97)
    assert records.unpacked(content).ravel().tolist() == [97 * n for n in range(12)]
    with pytest.raises(DamagedFile):
        records.unpacked(content[:-9])


@pytest.fixture
def two_jobs(own_home, small_galleries, tmp_path, monkeypatch):
    wanted = [Job("length", f"{n}", tiny_config("dive", epochs=n)) for n in (1, 2)]
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    monkeypatch.setattr(records.read, "__defaults__", (tmp_path,))
    monkeypatch.setattr(records.keep, "__defaults__", (tmp_path, tmp_path / "shipped"))
    monkeypatch.setattr(run_study, "jobs", lambda rows, flickr8k: wanted)
    return wanted


def ask(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run_study.py", *words])
    return run_study.main()


@pytest.mark.slow
def test_what_is_missing_is_trained_and_a_failure_is_a_row(two_jobs, tmp_path, monkeypatch, capsys):
    assert ask(monkeypatch, "--list") == 0 and not (tmp_path / "runs.csv").exists()
    assert capsys.readouterr().out.splitlines() == [f"length: {n}, {n}, 0.002, 0, 0, 0.05, scenes" for n in (1, 2)]
    assert ask(monkeypatch, "--label", "2", "--workers", "1") == 0
    table = records.read()
    assert table["label"].astype(str).tolist() == ["2"] and 0 < table["validation"].item() < 600
    assert table["train_seconds"].item() > 0 and table["unit_seconds"].item() > 0 and table["failure"].isna().all()
    assert [*(tmp_path / "ranks").iterdir()] == [records.ranks_file(table.iloc[0], tmp_path)]
    diverges, cannot = tiny_config("dive", epochs=3), tiny_config("dive", unit="classes")
    two_jobs[:] = [Job("length", "cannot", cannot), two_jobs[0], Job("length", "diverges", diverges)]
    real = sweep.produce

    def made(plan, report):
        if plan.config == diverges:
            raise TrainingFailed("step 3: the loss is not finite")
        return real(plan, report)

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "produce", made)
        assert ask(patch, "--workers", "1") == 1 and "BadInput" in capsys.readouterr().out
    table = records.read()
    assert table["label"].tolist() == ["2", "1", "diverges"], "a run that fails stops no other"
    assert table["failure"].iloc[2].startswith("TrainingFailed") and table["run_id"].isna().tolist() == [0, 0, 1]
    before = (tmp_path / "runs.csv").read_bytes()
    assert ask(monkeypatch, "--workers", "1") == 1 and (tmp_path / "runs.csv").read_bytes() == before


@pytest.mark.slow
def test_a_worker_that_is_killed_leaves_no_row(two_jobs, tmp_path, monkeypatch, capsys):
    def killed(*_):
        raise Interrupted("the process that trained it ended early")

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "produce", killed)
        assert ask(patch, "--workers", "1") == 1
    assert not (tmp_path / "runs.csv").exists() and "ended early" in capsys.readouterr().out
    assert ask(monkeypatch, "--workers", "1") == 0 and len(records.read()) == 2


@pytest.mark.slow
def test_the_first_run_of_a_compared_method_is_shipped_and_opened_by_its_name(two_jobs, tmp_path, monkeypatch):
    names = ["PVSE", "α=8"]
    two_jobs[:] = [Job("comparison", name, tiny_config("pvse", world_seed=1)) for name in names]
    run = train_or_load(two_jobs[0].config)
    for job in (*two_jobs, Job("comparison", "PVSE", tiny_config("pvse", world_seed=1, seed=1))):
        records.keep(job, run)
    assert [p.name for p in (tmp_path / "shipped").iterdir()] == ["pvse"]
    records.keep(two_jobs[0], train_or_load(tiny_config("pvse", world_seed=1, seed=1)))  # as another processor made it
    monkeypatch.setattr(load, "SHIPPED", tmp_path / "shipped")
    model, images = xmr.load("shipped:pvse", device="cpu"), run.corpus.read_pixels([0, 1])
    assert np.allclose(
        model.similarity(images, ["a red square"]), xmr.load(run, device="cpu").similarity(images, ["a red square"])
    )
    (tmp_path / "shipped:dive").mkdir()
    monkeypatch.chdir(tmp_path)
    for wrong in ("shipped:dive", "shipped:../shipped/pvse", "shipped:"):
        with pytest.raises(BadInput, match="pvse"):
            xmr.load(wrong)


def test_every_shipped_model_is_small_opens_and_says_what_it_reached():
    folders = sorted(path for path in load.SHIPPED.glob("*") if path.is_dir())
    of_study = {records.shipped_name(_first(label)) for label in protocol.labels()}
    assert {f.name for f in folders} - of_study == {"clip"}, "scripts/ship_clip.py"
    sizes = {f.name: sum(p.stat().st_size for p in f.iterdir()) for f in folders}
    assert all(size < 500_000 for size in sizes.values()) and sum(sizes.values()) < 8_000_000
    for folder in folders:
        model = xmr.load(f"shipped:{folder.name}", device="cpu")
        pixels = np.zeros((1, 64, 64, 3), np.uint8)
        assert np.isfinite(model.similarity(pixels, ["a red square"])).all()
        assert "RSUM" in (folder / "README.md").read_text()


def _first(label: str) -> Job:
    return Job("comparison", label, protocol.in_common_form(label, world_seed=1))


@pytest.mark.slow
def test_a_kill_before_the_row_loses_nothing(two_jobs, tmp_path, monkeypatch):
    def killed(ranks):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(records, "packed", killed)
        with pytest.raises(KeyboardInterrupt):
            ask(monkeypatch, "--label", "1", "--workers", "1")
    assert not (tmp_path / "runs.csv").exists()

    rows = []

    def no_time(*_):
        rows.append(len(records.read()))
        raise Interrupted("stopped again")

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "produce", no_time)
        assert ask(patch, "--workers", "1") == 1
    assert rows == [1], "its row waits for what is trained after it"


def test_a_run_collapsed_if_it_lies_far_below_the_median_of_the_same_runs(tmp_path):
    line = dict.fromkeys(records.COLUMNS) | dict(
        zip(protocol.KEY, ("DivE", 72, 2e-3, 1, 0, 0.05, "scenes"), strict=True)
    )
    reached = [400.0, 390.0, 350.0, 410.0, 405.0, None]
    lines = [line | {"seed": n, "validation": value} for n, value in enumerate(reached)]
    lines += [line | {"validation": value, "lr": 8e-3} for value in (100.0, 100.0)]  # a bad rate is none
    pd.DataFrame(lines).to_csv(tmp_path / "runs.csv", index=False)
    assert not records.results(tmp_path)["collapsed"].any() and set(records.results(tmp_path)["method"]) == {"dive"}
    lines[2]["validation"] = 349.9
    lines[7] |= {"label": "VSE∞, hinge, annotated"}
    pd.DataFrame(lines).to_csv(tmp_path / "runs.csv", index=False)
    assert records.results(tmp_path)["collapsed"].tolist() == [False, False, True, *[False] * 5]
    assert records.results(tmp_path)["method"].iloc[-2:].tolist() == ["dive", "vse-infty"]
