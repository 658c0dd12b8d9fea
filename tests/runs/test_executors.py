"""Sweeps train in processes of this machine or on any executor: the same runs, bit for bit, whatever dies meanwhile."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tiny import tiny_config

from xmr_core.base.errors import BadInput, TrainingFailed
from xmr_core.training.runs import stored_ids, train_or_load_all
from xmr_core.training.runs.sweep import needs_this_process, train_elsewhere
from xmr_core.training.runs.train_run import plan_run

HERE = Path(__file__).parents[1]
SCRIPT = """
from tiny import tiny_config
from xmr_core.training.runs import train_or_load_all
print("started")
runs = train_or_load_all([tiny_config(epochs=1, seed=s) for s in (0, 1)], workers=2, progress=False)
print(*(run.id for run in runs))
"""


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]))


def contents(runs) -> dict[str, list[bytes]]:
    """What each run measured and what it learned, byte for byte."""
    names = ("metrics.csv", "per_query.csv", "model.safetensors")
    return {run.id: [(run.folder / name).read_bytes() for name in names] for run in runs}


def children(pid: int | None = None) -> list:
    """The processes that a process started to train in."""
    psutil = pytest.importorskip("psutil")
    return [p for p in psutil.Process(pid).children() if "spawn_main" in " ".join(p.cmdline())]


def kill_once(condition, victim) -> threading.Thread:
    """Send SIGKILL to the process `victim()` when a condition is true, once."""

    def watch():
        deadline = time.monotonic() + 120
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(victim(), signal.SIGKILL)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def alone(configs, tmp_path, monkeypatch):
    """The same runs, one after the other in this process, in another folder."""
    with monkeypatch.context() as patch:
        patch.setenv("XMR_HOME", str(tmp_path / "alone"))
        return contents(train_or_load_all(configs, workers=1, progress=False))


@pytest.mark.slow
def test_a_script_without_a_guard_trains_in_several_processes():
    """From standard input; test_processes_end_with_the_one_that_started_them runs a file."""
    done = subprocess.run([sys.executable, "-"], input=SCRIPT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("started") == 1, "a worker ran the script again"
    assert sorted(done.stdout.split()[1:]) == stored_ids() and len(stored_ids()) == 2


@pytest.mark.slow
def test_a_killed_process_fails_its_run_alone_and_the_run_is_continued(tmp_path, monkeypatch):
    configs = [tiny_config(epochs=12, seed=s) for s in (0, 1)]
    psutil, failed = pytest.importorskip("psutil"), []
    states = lambda: [*(tmp_path / "home").glob("runs/*/state.sealed.previous")]  # noqa: E731
    thread = kill_once(lambda: len(states()) == 2, lambda: children()[0].pid)
    runs = train_or_load_all(configs, workers=2, progress=False, failed=lambda config, error: failed.append(error))
    thread.join(1)
    assert len(runs) == len(failed) == 1 and isinstance(failed[0], TrainingFailed) and "ended early" in str(failed[0])
    assert contents(train_or_load_all(configs, workers=1, progress=False)) == alone(configs, tmp_path, monkeypatch)
    assert not psutil.wait_procs(children(), timeout=10)[1], "a process stayed behind"


@pytest.mark.slow
def test_processes_end_with_the_one_that_started_them(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.replace("epochs=1", "epochs=500"))
    process = subprocess.Popen([sys.executable, str(tmp_path / "script.py")], stdout=subprocess.DEVNULL)
    states = lambda: [*(tmp_path / "home").glob("runs/*/state.sealed")]  # noqa: E731
    psutil, workers = pytest.importorskip("psutil"), []
    kill_once(lambda: len(states()) == 2 and not workers.extend(children(process.pid)), lambda: process.pid).join(130)
    assert process.wait(10) == -signal.SIGKILL and len(workers) == 2
    assert not psutil.wait_procs(workers, timeout=20)[1], "a process stayed behind"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_fails_stops_no_other(workers):
    bad, *good = tiny_config(unit="classes"), *(tiny_config(epochs=1, seed=s) for s in (0, 1))
    following, asked, told = [tiny_config(epochs=1, seed=2)], [], []

    def more():
        asked.append(len(asked))
        return [following.pop()] if following else []

    runs = train_or_load_all(
        [bad, *good], workers, progress=False, more=more, failed=lambda config, error: told.append((config, error))
    )
    assert [run.config for run in runs] == good and len(stored_ids()) == 3, "what was asked for later is trained, too"
    ((config, error),) = told
    assert config == bad and "classes" in str(error) and len(asked) == 4
    with pytest.raises(BadInput, match="classes"):
        train_or_load_all([bad, tiny_config(epochs=1, seed=3)], workers, progress=False)
    assert len(stored_ids()) == 4, "the others still end and are kept"


@pytest.mark.slow
def test_threads_of_one_process_train_one_at_a_time_and_an_error_is_the_callers(tmp_path, monkeypatch):
    configs = [tiny_config(epochs=2, seed=s) for s in (0, 1, 2)]
    with ThreadPoolExecutor(3) as threads:
        runs = train_or_load_all(configs, progress=False, executor=threads)
        with pytest.raises(BadInput, match="unit='classes' needs images with classes"):
            train_or_load_all([tiny_config(unit="classes")], progress=False, executor=threads)
    assert contents(runs) == alone(configs, tmp_path, monkeypatch)


def test_a_worker_with_other_data_refuses(tmp_path):
    plan = plan_run(tiny_config())
    plan.identity["data"] = {"corpus": "another"}
    with pytest.raises(BadInput, match="has other data than the process that asked"):
        train_elsewhere(plan, str(tmp_path / "home"), "")


def test_what_only_this_process_knows_stays_in_it():
    config = tiny_config()
    assert not needs_this_process(config) and not needs_this_process(config.replace(dataset="own.module:reader"))
    for change in ({"corpus": "abc"}, {"dataset": "registered"}, {"dataset": "__main__:read"}):
        assert needs_this_process(config.replace(**change)), change


@pytest.mark.slow
def test_runs_on_a_cluster_whose_worker_is_killed_equal_those_alone(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="dask's cluster of local processes")
    configs = [tiny_config("vse++", epochs=8, seed=s) for s in range(4)]  # long enough to be killed in
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options, local_directory=str(tmp_path)) as cluster, cluster.get_client() as client:
        pids = client.run(os.getpid)
        half = lambda: len(list((tmp_path / "home").glob("runs/*/record.json"))) >= 1  # noqa: E731
        thread = kill_once(half, lambda: next(iter(pids.values())))
        runs = train_or_load_all(configs, progress=False, executor=client.get_executor())
        thread.join(1)
        assert set(client.run(os.getpid).values()) - set(pids.values()), "no worker was killed"
        assert train_or_load_all(configs, executor=None, progress=False)[0].id == runs[0].id
    assert contents(runs) == alone(configs, tmp_path, monkeypatch)
