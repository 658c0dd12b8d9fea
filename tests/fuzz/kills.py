"""Kills at random moments: whatever is killed is started again, and must end as if nothing had happened."""

import functools
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

MOST = 6  # kills of one job before it may end
PATIENCE = 900  # seconds that a job may take before it counts as hanging
TIMES = ("seconds", "train_seconds", "evaluate_seconds", "started_utc", "started", "finished_utc", "fixed_utc")
# what differs between two runs that are equal: states in the order they were written, locks, logs of processes
PASSING = ("lock", "progress", "state.sealed", "state.sealed.previous")


@dataclass
class Tally:
    """What happened to one kind."""

    kills: int = 0
    jobs: int = 0
    different: list[str] = field(default_factory=list)


def config(**changes):
    from xmr_core.training.runs.config import base_config

    small = {"size": "tiny", "epochs": 6, "d": 8, "batch_images": 16, "captions_per_image": 2, "device": "cpu"}
    return base_config("dive", slots=2).replace(**{**small, **changes})


def training(home: Path) -> None:
    import xmr_core.training.runs.train_run as module
    from xmr_core.training.loop import train
    from xmr_core.training.runs import train_or_load

    module.train = functools.partial(train, save_every_seconds=0.0)  # so that kills come while it writes, too
    train_or_load(config())


class Blocks:
    """A slow extractor: the mean colour of 16 blocks."""

    identity, shape, dtype, batch, resolution, version = "blocks", (16, 3), np.float32, 2, 64, 1

    def __call__(self, pixels):
        time.sleep(0.02)
        return pixels.reshape(len(pixels), 4, 16, 4, 16, 3).mean((2, 4), dtype=np.float32).reshape(-1, 16, 3)


def cache(home: Path) -> None:
    import xmr_core.features.cache as module
    from xmr_core.data.readers.folder import load_folder
    from xmr_core.features.cache import cached_features

    module._EVERY = 1
    cached_features(load_folder(home.parent / "photographs"), Blocks(), progress=iter)


def index(home: Path) -> None:
    from xmr_core.retrieval.index import index_folder, open_index
    from xmr_core.retrieval.library import example_model

    open_index(index_folder(example_model(), home.parent / "photographs", home / "index", progress=iter), verify=True)


# kind → the job, called with an empty or partly filled home in a process of its own, and the files that must be equal
JOBS = {"training": (training, "runs/*/*"), "cache": (cache, "cache/features-*"), "index": (index, "index/**/*")}


def prepare(base: Path) -> None:
    """Inputs of the jobs, which are made once."""
    rng = np.random.default_rng(0)
    (base / "photographs").mkdir(parents=True, exist_ok=True)
    for n in range(60):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(base / "photographs" / f"{n}.png")


def kill_all(base: Path, counts: dict[str, int], seed: int = 0) -> dict[str, Tally]:
    """Kill jobs of each kind as often as counts says. base: an empty folder for all of them."""
    import torch

    import xmr_core.retrieval
    import xmr_core.training.runs  # noqa: F401  imported here once, and not by every job, which is a fork of this

    torch.set_num_threads(1)
    prepare(base)
    rng, out = random.Random(seed), {name: Tally() for name in counts}
    for name, tally in out.items():
        (work, pattern), homes = JOBS[name], [base / f"{name} first", base / f"{name} undisturbed"]
        for home in homes:  # the second one is timed
            with_cache(homes[0], home, name)
            started = time.monotonic()
            assert _wait(_start(work, home)) == 0, f"the undisturbed {name} failed"
            seconds = time.monotonic() - started
        while tally.kills < counts[name] and not tally.different:
            home = base / f"{name} killed {tally.jobs}"
            with_cache(homes[0], home, name)
            _killed_job(work, home, seconds, counts[name], tally, rng)
            expected, present = (digests(place, pattern) for place in (homes[1], home))
            differing = {path for path in expected.keys() | present.keys() if expected.get(path) != present.get(path)}
            tally.different += [f"{home.name}: {path}" for path in sorted(differing)]
            tally.jobs += 1
        print(f"| {name} | {tally.kills} | {tally.jobs} | {tally.different[:5] or 'equal'} |", flush=True)
    return out


def with_cache(first: Path, home: Path, name: str) -> None:
    """Kills are meant for what the job is named after."""
    home.mkdir(exist_ok=True)
    if name != "cache" and (first / "cache").exists() and home != first:
        shutil.copytree(first / "cache", home / "cache", dirs_exist_ok=True)


def _killed_job(work: Callable, home: Path, seconds: float, count: int, tally: Tally, rng: random.Random) -> None:
    for attempt in range(MOST + 3):  # a failure without a kill may come from one before, but not for ever
        process = _start(work, home)
        if attempt < MOST and tally.kills < count:
            time.sleep(rng.uniform(0, 0.9) * seconds)
            os.kill(process, signal.SIGKILL)
            tally.kills += 1
        if _wait(process) == 0:
            return
    tally.different.append(f"{home.name}: does not end")


def _start(work: Callable[[Path], None], home: Path) -> int:
    sys.stdout.flush()
    if process := os.fork():
        return process
    status = 1
    try:
        signal.alarm(PATIENCE)
        environment(home)
        log = os.open(home.with_name(f"{home.name}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        work(home)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _wait(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def digests(home: Path, pattern: str) -> dict[str, str]:
    paths = (path for path in sorted(home.glob(pattern)) if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(home)): content(path) for path in paths if path.name not in PASSING}


def content(path: Path) -> str:
    """A digest of a file without times."""
    raw = path.read_bytes()
    if path.suffix == ".csv":
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        table = table.drop(columns=[name for name in TIMES if name in table])
        raw = "\n".join(sorted(table.to_csv(index=False).splitlines())).encode()
    elif path.name in ("record.json", "config.json", "index.json"):
        dropped = {*TIMES, "seal", "digest", "environment", "folder"}
        value = {k: v for k, v in json.loads(raw).items() if k not in dropped}
        if isinstance(value.get("files"), dict):
            value["files"] = sorted(value["files"])
        raw = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(raw).hexdigest()[:16]


def environment(home: Path) -> None:
    """Set the variables of a process that does a job."""
    os.environ.update(XMR_HOME=str(home), OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
