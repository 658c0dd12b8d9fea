"""What is killed: a small job of each kind that writes, and a digest of what it leaves."""

import functools
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
TIMES = ("seconds", "train_seconds", "evaluate_seconds", "started_utc", "started", "finished_utc", "fixed_utc")
# what differs between two runs that are equal: states in the order they were written, locks, logs of processes
PASSING = ("lock", "progress", "state.sealed", "state.sealed.previous")


@dataclass(frozen=True)
class Job:
    """work: called with an empty or partly filled home, in a process of its own. digest: of what must be equal.
    helpers: whether it starts processes, one of which may be the victim."""

    work: Callable[[Path], None]
    digest: Callable[[Path], dict[str, str]]
    helpers: bool = False


def config(seed: int = 0, **changes):
    from xmr_core.training.runs.config import base_config

    small = {"size": "tiny", "epochs": 6, "d": 8, "batch_images": 16, "captions_per_image": 2, "device": "cpu"}
    return base_config("dive", slots=2).replace(**{**small, "seed": seed, **changes})


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

    open_index(index_folder(example_model(), home.parent / "photographs", home / "index"), verify=True)


def sweep(home: Path) -> None:
    from xmr_core.training.runs import train_or_load_all

    train_or_load_all([config(seed) for seed in range(3)], workers=2, progress=False)


def ranks(home: Path) -> None:
    words = ["dive", "size=tiny", "epochs=6", "d=8", "slots=2", "batch_images=16", "device=cpu"]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*command, "-m", "xmr_core", "train", *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(1)  # a rank was killed, and torchrun has ended the other one


def prepare(base: Path) -> None:
    """Inputs of the jobs, which are made once."""
    rng = np.random.default_rng(0)
    (base / "photographs").mkdir(parents=True, exist_ok=True)
    for n in range(60):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(base / "photographs" / f"{n}.png")


def of_runs(home: Path) -> dict[str, str]:
    return of_files(home, "runs/*/*")


def of_files(home: Path, pattern: str) -> dict[str, str]:
    paths = (path for path in sorted(home.glob(pattern)) if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(home)): content(path) for path in paths if path.name not in PASSING}


def content(path: Path) -> str:
    """A digest of a file without times."""
    if path.suffix == ".csv":
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        table = table.drop(columns=[name for name in TIMES if name in table])
        raw = "\n".join(sorted(table.to_csv(index=False).splitlines())).encode()
    elif path.name in ("record.json", "config.json", "index.json"):
        value = json.loads(path.read_text())
        dropped = {*TIMES, "seal", "digest", "environment", "folder"}
        value = {k: v for k, v in value.items() if k not in dropped}
        if isinstance(value.get("files"), dict):
            value["files"] = sorted(value["files"])
        raw = json.dumps(value, sort_keys=True).encode()
    else:
        raw = path.read_bytes()
    return hashlib.sha256(raw).hexdigest()[:16]


def listed(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


JOBS = {
    "training": Job(training, of_runs),
    "cache": Job(cache, lambda home: of_files(home, "cache/features-*")),
    "index": Job(index, lambda home: of_files(home, "index/**/*")),
    "sweep workers": Job(sweep, of_runs, helpers=True),
    "one rank of several": Job(ranks, of_runs, helpers=True),
}


def environment(home: Path) -> None:
    """Set the variables of a process that does a job."""
    os.environ.update(XMR_HOME=str(home), PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "tests")]))
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
