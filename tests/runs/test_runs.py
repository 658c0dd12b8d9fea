"""Runs are content-addressed, loaded rather than trained twice, and survive kill -9."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import tiny_config

import xmr_core as xmr
from xmr_core.base import files
from xmr_core.base.errors import DamagedFile
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.evaluate import evaluate, evaluate_scores
from xmr_core.methods.checkpoint import load_method
from xmr_core.training.loop import load_state
from xmr_core.training.runs import (
    config,
    ensemble_of,
    folder,
    load,
    scores_of,
    stored_ids,
    sweep,
    train_or_load,
    train_or_load_all,
    train_run,
)
from xmr_core.training.runs.config import readable_id
from xmr_core.training.runs.train_run import plan_run

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))


def identity(config):
    return plan_run(config).id


def test_two_runs_with_one_seed_give_identical_metrics(tmp_path, monkeypatch):
    first = train_or_load(tiny_config())
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "elsewhere"))
    second = train_or_load(tiny_config())
    assert first.folder != second.folder and first.id == second.id
    assert first.metrics.equals(second.metrics) and first.per_query.equals(second.per_query)
    assert (first.folder / "model.safetensors").read_bytes() == (second.folder / "model.safetensors").read_bytes()


def test_what_changes_numbers_changes_the_name_and_nothing_else_does(tmp_path):
    base = tiny_config()
    names = {identity(base)}
    for change in (
        {"alpha": 8.0},
        {"seed": 1},
        {"epochs": 3},
        {"ambiguity": 0.2},
        {"batch_images": 8},
        {"method": "pvse", "options": {"d": 16}},
    ):
        names.add(identity(base.replace(**change)))
    assert len(names) == 7
    assert identity(base.replace(alpha=16.0)) == identity(base), "a default said aloud is the same run"
    assert identity(tiny_config()) == identity(base)


def test_as_many_processes_as_this_process_may_use_cores(monkeypatch):
    """A container or `taskset` may give fewer cores than the machine has."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for mine, threads, workers in (({0, 1, 2, 3}, 1, 4), ({0, 1, 2, 3}, 3, 1), ({5}, 1, 1)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, mine=mine: mine, raising=False)
        assert sweep._workers([tiny_config(threads=threads)]) == workers


def test_a_run_that_goes_on_with_other_code_says_so(monkeypatch):
    def stop(event):
        if event.get("epoch_done"):
            raise KeyboardInterrupt

    monkeypatch.setattr(train_run, "code_of", lambda *_: "old")
    with pytest.raises(KeyboardInterrupt):
        train_or_load(tiny_config(epochs=2), stop)
    monkeypatch.setattr(train_run, "code_of", lambda *_: "new")
    with pytest.warns(UserWarning, match="from epoch 1 step 0 by code new, before by code old"):
        run = train_or_load(tiny_config(epochs=2))
    assert run.provenance.code == "new" and len(run.provenance.messages) == 1


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from tiny import tiny_config
import xmr_core.training.loop as loop
from xmr_core.training.runs import train_or_load
original = loop.train
def often(*args, **kwargs):
    return original(*args, **kwargs, save_every_seconds=0.0)
import xmr_core.training.runs.train_run as module
module.train = often
train_or_load(tiny_config(epochs=12))
"""


def test_killed_at_random_moments_a_run_ends_with_the_same_weights(tmp_path):
    """SIGKILL three times, wherever it happens to be: importing, reading, training, writing; then let it finish."""
    undisturbed = train_or_load(tiny_config(epochs=12))
    wanted = (undisturbed.folder / "model.safetensors").read_bytes()
    environment = {**os.environ, "XMR_HOME": str(tmp_path / "killed"), "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[1])]
    rng = random.Random(0)
    killed = 0
    while killed < 3:
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        folder = tmp_path / "killed" / "runs" / undisturbed.id
        deadline = time.monotonic() + 120  # a kill during the imports would test nothing: wait for the run's folder
        while not (folder / "config.json").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, 1.5) + (2.5 if killed else 0))  # later starts import again before they train
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed += 1
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL, timeout=300)
    assert (folder / "model.safetensors").read_bytes() == wanted
    assert not list(folder.glob(".*.tmp")), "half-written files stay behind"
    files.read_json(folder / "record.json")


def test_an_ensemble_of_one_run_is_that_run_and_of_two_the_mean_of_their_scores():
    runs = [train_or_load(tiny_config(seed=s)) for s in (0, 1)]
    assert ensemble_of(runs[:1]).per_query.equals(_read_again(runs[0]))
    both = ensemble_of(runs)
    mean = (scores_of(runs[0]) + scores_of(runs[1])) / 2
    corpus = runs[0].prepared().corpus
    wanted = evaluate_scores(mean, {kind: relevance("test") for kind, relevance in corpus.relevance_sets.items()})
    assert both.metrics.equals(wanted.summary()) and both.provenance.parameters == 2 * runs[0].provenance.parameters
    assert (
        both.provenance.train_seconds == sum(r.provenance.train_seconds for r in runs)
        and both.id != ensemble_of(runs[:1]).id
    )
    assert not both.metrics.equals(runs[0].metrics)


def _read_again(run):
    """Its per-query table as evaluation makes it, not as CSV gives it back."""
    corpus = run.prepared().corpus
    return evaluate_scores(
        scores_of(run), {kind: relevance("test") for kind, relevance in corpus.relevance_sets.items()}
    ).per_query


def test_an_exported_run_answers_without_its_corpus(tmp_path):
    run = train_or_load(tiny_config())
    method, vocabulary, about = load_method(run.export(tmp_path / "shared.safetensors"))
    split = run.prepared().splits["test"]
    mine = [m.encode_captions(vocabulary.encode(["a red circle"])).x for m in (run.method(), method)]
    assert torch.equal(*mine) and about["run"] == run.id and vocabulary == run.prepared().vocabulary
    assert torch.equal(*(m.encode_images(split.images_at(np.arange(3))).x for m in (run.method(), method)))


def test_stopped_while_it_is_judged_a_run_is_not_taken_for_finished(monkeypatch, tmp_path):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    config = tiny_config(epochs=1)

    def stopped(method, split, corpus):
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(train_run, "evaluate_split", stopped)
        with pytest.raises(KeyboardInterrupt):
            train_or_load(config)
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "model.safetensors").exists() and not (folder / "record.json").exists()
    assert stored_ids() == []
    again = train_or_load(config)
    assert stored_ids() == [again.id] and not again.metrics.empty


# --------------------------------------------------------------------------------------------- files bound to their run


FILES = ["config.json", "record.json", "history.csv", "metrics.csv", "per_query.csv", "model.safetensors"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two finished runs that differ in α alone, in a home of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(tmp_path_factory.mktemp("finished")))
        yield [train_or_load(tiny_config(epochs=1, **change)) for change in ({}, {"alpha": 2.0})]


def test_ids_stay_as_they_are(own_home):
    drawn = xmr.data.load_scenes("tiny")
    pixels, texts = drawn.read_pixels(range(30)), drawn.captions["text"].iloc[::5]
    rows = [{"image": pixels[n], "image_id": f"{n:04}", "caption_id": f"{n + 100}", "caption": texts.iloc[n],
             "split": ("train", "val", "test")[n % 3]} for n in range(30)]  # fmt: skip
    corpus = xmr.data.from_frame(pd.DataFrame(rows), name="numbers")
    config = tiny_config(epochs=1).replace(data=xmr.data.config_for(corpus, features="cells"))
    for run in (train_or_load(config), load(train_or_load(config).id)):
        queries = run.per_query[run.per_query["relevance"] == "annotated"].groupby("direction")["query"].agg(list)
        assert queries["i2t"] == [f"{n:04}" for n in range(2, 30, 3)] and queries["t2i"][0] == "102"


def copied(run, home):
    """The folder of a run, copied into another home."""
    return Path(shutil.copytree(run.folder, home / "runs" / run.id))


def bits(name: str, size: int) -> list[tuple[int, int]]:
    """(byte, bit) of sampled bits of a file: its first and last bytes, and many between."""
    rng = random.Random(name)
    places = {0, size - 1, *(rng.randrange(size) for _ in range(60))}
    return [(byte, rng.randrange(8)) for byte in sorted(places)]


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_of_a_finished_run_is_noticed(finished, tmp_path, monkeypatch, name):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    file = copied(finished[0], tmp_path) / name
    content = file.read_bytes()
    for byte, bit in bits(name, len(content)):
        file.write_bytes(content[:byte] + bytes([content[byte] ^ 1 << bit]) + content[byte + 1 :])
        with pytest.raises(DamagedFile) as error:
            load(finished[0].id)
        assert "\n" not in str(error.value) and "Train it again." in str(error.value), (byte, bit)
    file.write_bytes(content)
    assert load(finished[0].id).metrics.equals(finished[0].metrics)


def test_every_flipped_bit_of_a_state_is_noticed(finished, tmp_path):
    content = (finished[0].folder / "state.sealed").read_bytes()
    for byte, bit in bits("state", len(content)):
        (tmp_path / "state").write_bytes(content[:byte] + bytes([content[byte] ^ 1 << bit]) + content[byte + 1 :])
        with pytest.warns(UserWarning, match="damaged"):
            assert load_state(tmp_path / "state") is None


@pytest.mark.parametrize("name", ["config.json", "record.json"])
@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"seal": 1}'])
def test_a_file_of_something_else_is_refused_by_id_and_rebuilt_by_config(finished, tmp_path, monkeypatch, name, text):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    place = copied(finished[0], tmp_path)
    (place / name).write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(DamagedFile, match="is damaged"):
        load(finished[0].id)
    with pytest.warns(UserWarning, match="is damaged and is made again") as said:
        again = train_or_load(tiny_config(epochs=1))
    assert len(said) == 1 and again.metrics.equals(finished[0].metrics) and load(again.id).config == finished[0].config


def test_an_edited_configuration_is_never_used(finished, tmp_path, monkeypatch):
    """α from 16 to 2, with every digest made to fit."""
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    place = copied(finished[0], tmp_path)
    (place / "config.json").write_text((place / "config.json").read_text().replace('"alpha": 16.0', '"alpha": 2.0'))
    with pytest.raises(DamagedFile, match="config.json is missing or altered"):
        load(finished[0].id)
    stored = files.read_record(finished[0].folder / "config.json")
    stored["config"]["options"]["alpha"] = 2.0
    files.write_record(place / "config.json", stored)
    folder.write_record(place, finished[0].provenance)
    with pytest.raises(DamagedFile, match="names another run than its configuration leads to"):
        load(finished[0].id)
    shutil.copy(finished[1].folder / "config.json", place)
    folder.write_record(place, finished[0].provenance)
    with pytest.raises(DamagedFile, match="is the configuration of another run"):
        load(finished[0].id)


# ------------------------------------------------------------------------------------------------------ types, identity


def test_an_id_says_what_the_run_is(finished):
    assert re.fullmatch("dive-scenes-s0-[0-9a-f]{10}", finished[0].id)
    assert identity_of("my.module:SPEC", "pkg/x:read").startswith("my.module_SPEC-pkg_x_read-s0-")


def identity_of(method, dataset):
    return readable_id(method, dataset, 0, {})


def test_a_raised_version_gives_another_run_and_other_code_the_same(monkeypatch):
    first = plan_run(tiny_config()).id
    with monkeypatch.context() as patch:
        patch.setattr(train_run, "code_of", lambda *_: "0" * 12)
        assert plan_run(tiny_config()).id == first
    with monkeypatch.context() as patch:
        patch.setitem(config.STAGES, "encoders", config.STAGES["encoders"] + 1)
        assert plan_run(tiny_config()).id != first


def test_runs_of_other_versions_are_said_once(finished, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(finished[0].folder.parents[1]))
    monkeypatch.setattr(torch, "__version__", "9.9")
    with pytest.warns(UserWarning, match="2 of 2 runs were made by other versions .* now 9.9") as said:
        train_or_load_all([run.config for run in finished])
    assert len(said) == 1
    for one in (lambda: train_or_load(finished[0].config), lambda: folder.load(finished[0].id)):
        with pytest.warns(UserWarning, match="now 9.9"):
            one()


def test_finished_runs_load_without_processes_and_data_are_prepared_once(finished, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(finished[0].folder.parents[1]))
    monkeypatch.setattr(sweep, "ProcessPoolExecutor", lambda *_, **__: pytest.fail("a process was started"))
    calls, real = [], train_run.prepare
    monkeypatch.setattr(train_run, "prepare", lambda *a, **k: calls.append(a) or real(*a, **k))
    runs = train_or_load_all([run.config for run in finished], workers=2, progress=False)
    assert [run.id for run in runs] == [run.id for run in finished] and len(calls) == 2, "once for each configuration"


@pytest.mark.slow
def test_a_run_is_evaluated_on_its_own_number_of_threads(monkeypatch):
    used, real = [], train_run.evaluate_split
    monkeypatch.setattr(
        train_run, "evaluate_split", lambda *a, **o: used.append(torch.get_num_threads()) or real(*a, **o)
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    train_or_load(tiny_config(epochs=1, seed=7))
    assert used == [1] and torch.get_num_threads() == 2
    torch.set_num_threads(before)


@pytest.mark.parametrize("positives", ["exhaustive", "left out"])
def test_true_pairs_that_are_trained_with_choose_the_epoch_too(own_home, positives):
    run = train_or_load(tiny_config("vse++", positives=positives))
    split, relevance = run.prepared().splits["val"], run.corpus.relevance_sets["exhaustive"]("val")
    summary = evaluate(run.method().similarity, *encode_split(run.method(), split), relevance).summary()
    value = summary.loc[summary["metric"] == "rsum", "value"].item()
    assert run.provenance.best_value == pytest.approx(value) == pytest.approx(run.history["value"].max())
    assert len(run.history) == 2 and run.history["loss"].notna().all()
