"""Kills at random moments: whatever is killed is started again, and must end as if nothing had happened."""

import contextlib
import os
import random
import shutil
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from .kill_jobs import JOBS, Job, environment, listed, prepare

MOST = 6  # kills of one job before it may end
PATIENCE = 900  # seconds that a job may take before it counts as hanging


@dataclass
class Tally:
    """What happened to one kind."""

    kills: int = 0
    jobs: int = 0
    different: list[str] = field(default_factory=list)
    left_over: int = 0
    orphans: int = 0


def kill_all(base: Path, counts: dict[str, int], seed: int = 0) -> dict[str, Tally]:
    """Kill jobs of each kind as often as counts says. base: an empty folder for all of them."""
    import torch

    import xmr_core.retrieval
    import xmr_core.training.runs  # noqa: F401  imported here once, and not by every job, which is a fork of this

    torch.set_num_threads(1)
    prepare(base)
    rng, out = random.Random(seed), {}
    for name, count in counts.items():
        out[name] = tally = Tally()
        undisturbed = base / f"undisturbed {name}"
        if _wait(_start(JOBS[name], undisturbed)) != 0:
            tally.different.append("the undisturbed job failed")
            continue
        for path in undisturbed.glob("*" if name == "cache" else "[!c]*"):  # again, to know how long it takes
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        started = time.monotonic()
        _wait(_start(JOBS[name], undisturbed))
        seconds = time.monotonic() - started
        while tally.kills < count and not tally.different:
            _killed_job(name, base / f"killed {name} {tally.jobs}", undisturbed, seconds, count, tally, rng)
            print(row(name, tally), end="\r", flush=True)
        print(row(name, tally), flush=True)
    return out


def _killed_job(name: str, home: Path, undisturbed: Path, seconds: float, count: int, tally: Tally, rng) -> None:
    job = JOBS[name]
    if name != "cache":  # kills are meant for what the job is named after
        shutil.copytree(undisturbed / "cache", home / "cache", dirs_exist_ok=True)
    first = 0.35 if job.helpers else 0.0  # processes of their own import for a while, and kills of that show nothing
    for attempt in range(MOST + 3):  # a failure without a kill may come from one before, but not for ever
        process = _start(job, home)
        if attempt < MOST and tally.kills < count:
            time.sleep(rng.uniform(first, 0.9) * seconds)
            victim = rng.choice([process, *_children(process)] if job.helpers else [process])
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim.pid, signal.SIGKILL)
                tally.kills += 1
        status = _wait(process)
        if status in (0, None):
            break
    if status != 0:
        tally.different.append(f"{home.name}: {'hangs' if status is None else 'does not end'}")
        return
    tally.jobs += 1
    expected, present = job.digest(undisturbed), job.digest(home)
    differing = {path for path in expected.keys() | present.keys() if expected.get(path) != present.get(path)}
    tally.different += [f"{home.name}: {path}" for path in sorted(differing)]
    tally.left_over += len(listed(home) - listed(undisturbed))
    tally.orphans += len(_orphans(home))
    if not tally.different:
        shutil.rmtree(home)


def _start(job: Job, home: Path) -> psutil.Process:
    home.mkdir(exist_ok=True)
    sys.stdout.flush()
    if pid := os.fork():
        return psutil.Process(pid)
    status = 1
    try:
        os.setpgid(0, 0)
        environment(home)
        log = os.open(home.with_name(f"{home.name}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        job.work(home)
        status = 0
    except SystemExit as e:
        status = int(e.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _wait(process: psutil.Process) -> int | None:
    """The exit status; None after too long, and then it is ended."""
    try:
        return process.wait(PATIENCE)
    except psutil.TimeoutExpired:
        for child in [*_children(process), process]:
            child.kill()
        process.wait(10)
        return None


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [p for p in process.children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    except psutil.NoSuchProcess:
        return []


def _orphans(home: Path, patience: float = 30) -> list[int]:
    """Processes of a home that go on although the one that started them is gone."""
    deadline = time.monotonic() + patience
    while True:
        left = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("XMR_HOME") == str(home) and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(process.pid)
            except psutil.Error:
                continue
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.3)


def row(name: str, tally: Tally) -> str:
    verdict = f"DIFFERENT: {tally.different[:5]}" if tally.different else "equal"
    return f"| {name} | {tally.kills} | {tally.jobs} | {verdict} | {tally.left_over} | {tally.orphans} |"
