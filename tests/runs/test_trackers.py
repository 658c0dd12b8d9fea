"""report= follows one run and many, in this process and in others, and changes no bit of them."""

import json
import os
import random
import sys

import numpy as np
import pytest
import torch
from tiny import tiny_config

import xmr_core as xmr
from xmr_core.base.errors import BadInput
from xmr_core.training.runs.folder import MODEL
from xmr_core.training.runs.sweep import EventFile
from xmr_core.training.runs.train_run import report_of, silent
from xmr_core.training.trackers import TensorBoard, scalars


def weights(home, run_id: str) -> bytes:
    return (home / "runs" / run_id / MODEL).read_bytes()


def drawing(events: list):
    """A report that draws random numbers, as a tracker may."""

    def report(event: dict) -> None:
        torch.rand(7), np.random.rand(3), random.random()
        events.append(event)

    return report


@pytest.fixture(scope="module")
def untracked(module_home) -> dict[str, bytes]:
    """Weights of two runs that nobody follows."""
    configs = [tiny_config("vse++", seed=seed, dropout=0.2) for seed in (0, 1)]
    runs = xmr.train_or_load_all(configs, workers=1, progress=False)
    return {run.id: (run.folder / MODEL).read_bytes() for run in runs}


@pytest.mark.slow
def test_one_run_is_followed_and_stays_the_same(untracked, tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "tracked"))
    events: list[dict] = []
    run = xmr.train_or_load(tiny_config("vse++", seed=0, dropout=0.2), report=drawing(events))
    assert weights(tmp_path / "tracked", run.id) == untracked[run.id]
    assert {event["run"] for event in events} == {run.id}
    done = [event for event in events if event.get("epoch_done")]
    assert [event["epoch"] for event in done] == [0, 1] and len(events) == 2 + 2 * done[0]["steps"]
    assert np.array_equal([event["value"] for event in done], run.history["value"])
    steps = [scalars(event)[1] for event in events]
    assert steps == sorted(steps) and steps[-1] == 2 * done[0]["steps"]
    before = len(events)
    xmr.train_or_load(run.config, report=drawing(events))
    assert len(events) == before, "a finished run is loaded, and nothing is trained"


@pytest.mark.slow
def test_many_runs_are_followed_wherever_they_are_trained(untracked, tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "tracked"))
    events: list[dict] = []
    configs = [tiny_config("vse++", seed=seed, dropout=0.2) for seed in (0, 1)]
    runs = xmr.train_or_load_all(configs, workers=2, progress=False, report=drawing(events))
    for run in runs:
        assert weights(tmp_path / "tracked", run.id) == untracked[run.id]
        own = [event for event in events if event["run"] == run.id]
        assert [scalars(event)[1] for event in own] == sorted(scalars(event)[1] for event in own)
        values = [event["value"] for event in own if event.get("epoch_done")]
        assert np.array_equal(values, run.history["value"]) and len(own) == 2 + 2 * own[0]["steps"]
        assert not list(run.folder.glob("events-*")), "what came across is removed"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_tracker_reaches_its_owner(tmp_path, monkeypatch, workers):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))

    def report(event: dict) -> None:
        raise RuntimeError("no network")

    configs = [tiny_config("vse++", epochs=1, seed=seed) for seed in (0, 1)]
    with pytest.raises(RuntimeError, match="no network"):
        xmr.train_or_load_all(configs, workers=workers, progress=False, report=report)


def test_events_cross_a_file_in_order_and_once(tmp_path):
    writer, reader = EventFile(tmp_path, "t-1"), EventFile(tmp_path, "t-1")
    assert reader.new() == []
    events = [{"epoch": 0, "step": n, "loss": float(np.float64(1) / (n + 3)), "epoch_done": n > 1} for n in range(3)]
    writer.add(events[0])
    assert reader.new() == events[:1] and reader.new() == []
    writer.add(events[1])
    with open(tmp_path / "events-t-1.jsonl", "a") as file:
        file.write(text := json.dumps(events[2]))
        file.flush()
        assert reader.new() == events[1:2], "a line that is being written waits"
        file.write("\n")
    assert text and reader.new() == events[2:]
    reader.remove(), reader.remove()
    assert not os.listdir(tmp_path) and report_of("a", silent) is silent


def test_without_tensorboard_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(BadInput, match=r"TensorBoard needs tensorboard: pip install 'xmr-study\[tensorboard\]'"):
        TensorBoard(tmp_path)


def test_tensorboard_reads_what_was_written(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    report = TensorBoard(tmp_path)
    for run, scale in (("a-1", 1.0), ("b-2", 2.0)):
        for step in (1, 2):
            report({"run": run, "epoch": 0, "step": step, "steps": 2, "epochs": 1, "loss": scale / step})
        report({"run": run, "epoch": 0, "steps": 2, "epochs": 1, "loss": scale, "value": 3.0, "epoch_done": True})
    report.close()
    for run, scale in (("a-1", 1.0), ("b-2", 2.0)):
        log = EventAccumulator(str(tmp_path / run)).Reload()
        assert [(e.step, e.value) for e in log.Scalars("loss")] == [(1, scale), (2, scale / 2)]
        assert [(e.step, e.value) for e in log.Scalars("epoch/value")] == [(2, 3.0)]
