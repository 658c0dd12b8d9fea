"""What fine-tuning a text model brings on photographs, what mined negatives bring on drawn images, and what both cost,
into reports/fine_tune.csv.

    python benchmarks/fine_tune.py [--flickr8k FOLDER] [--seeds 3] [--rows reports/fine_tune.csv] [--only NAME …]

FOLDER: of its photographs (docs/data.md#data-flickr8k). Images are read by EfficientNet-Lite0, frozen; captions by
MiniLM, frozen, fine-tuned, or with adapters (LoRA), and compared as one vector (VSE++ by InfoNCE) or as a set (DivE).
Nothing is tuned. Each run has a process of its own, so that its peak memory is its own; its row is added when it ends,
and a run that has a row is not made again. About five hours of one core; without FOLDER, ten minutes.
"""

import argparse
import math
import resource
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import pandas as pd

from xmr_core.base import files
from xmr_core.base.machine import commit, processor
from xmr_core.evaluation.evaluate import rsums
from xmr_core.training.runs.config import RunConfig, base_config
from xmr_core.training.runs.train_run import plan_run, train_or_load

ROWS = Path(__file__).resolve().parents[1] / "reports" / "fine_tune.csv"
COMMON = {
    "dataset": "flickr8k", "preset": "study", "features": "efficientnet_lite0", "text_model": "minilm", "device": "cpu",
    "views": 0, "batch_images": 64, "captions_per_image": 1, "warmup_steps": 93, "d": 256, "word_drop": 0.0,
}  # fmt: skip
SHORT = {"epochs": 5, "freeze_epochs": 0, "pretrained_lr": 0.03}  # what a learning text model has, about 25 minutes
CASES: dict[str, tuple[str, dict]] = {  # name → method, settings
    "frozen, 5 epochs": ("vse++", {"epochs": 5}),
    "frozen, 40 epochs": ("vse++", {"epochs": 40}),
    "fine-tuned": ("vse++", SHORT | {"fine_tune": "text"}),
    "LoRA": ("vse++", SHORT | {"fine_tune": "text", "lora": 8}),
    "a set, frozen, 40 epochs": ("dive", {"epochs": 40}),
    "a set, LoRA": ("dive", SHORT | {"fine_tune": "text", "lora": 8}),
}
STEPS = 12  # of the cases that measure an option, at the same batch of 64 images and captions
OPTIONS: dict[str, tuple[str, dict]] = {
    f"a step, {how}": ("vse++", SHORT | {"fine_tune": "text"} | settings)
    for how, settings in (
        ("plain", {}), ("micro_batch=16", {"micro_batch": 16}), ("checkpointing", {"checkpointing": True}),
        ("lora=8", {"lora": 8}), ("lora=8, micro_batch=16", {"lora": 8, "micro_batch": 16}),
        ("bfloat16", {"precision": "bfloat16"}), ("accumulate=4", {"accumulate": 4}),
    )
}  # fmt: skip
FIRST = "the first run"  # of the same method and seed, which mines
DRAWN = {"device": "cpu", "epochs": 24}
MINING: dict[str, tuple[str, dict]] = {
    f"{label}, {how}": (method, settings)
    for label, method in (("VSE++", "vse++"), ("DivE", "dive"))
    for how, settings in (
        ("drawn negatives", {}),
        ("mined once", {"hard_negatives": 4, "mined_by": FIRST}),
        ("mined every epoch", {"hard_negatives": 4}),
    )
}


def config(name: str, data_root: str, seed: int, **changes) -> RunConfig:
    """The run of a case."""
    method, settings = (CASES | OPTIONS | MINING)[name]
    if name not in MINING:
        return base_config(method, data_root=data_root, seed=seed, **COMMON | settings | changes)
    if settings.get("mined_by") == FIRST:
        first = train_or_load(base_config(method, seed=seed, **DRAWN | changes))
        settings = settings | {"mined_by": first.id}
    return base_config(method, seed=seed, **DRAWN | settings | changes)


def measured(wanted: RunConfig) -> dict[str, object]:
    """One run, trained or loaded: its numbers on the test split, with the interval over test images, and its cost. mb:
    of the numbers that were trained; the file holds the frozen ones too. A run that was loaded has no peak."""
    loaded = plan_run(wanted).finished() is not None
    run = train_or_load(wanted)
    numbers, own = run.metrics[["relevance", "direction", "metric", "k", "value"]], rsums(run.per_query)[0]
    values = {" ".join(map(str, key)): v for *key, v in numbers.values}
    peak = math.nan if loaded else round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return {
        **{name: round(own[name], 2) for name in ("rsum", "low", "high")},
        "i2t R@1": 100 * values["annotated i2t recall 1"], "t2i R@1": 100 * values["annotated t2i recall 1"],
        "rsum, all true": 100 * values.get("exhaustive both rsum 0", float("nan")),
        "epochs": wanted.train.epochs, "best_epoch": run.provenance.best_epoch,
        "train_seconds": round(run.provenance.train_seconds, 1), "peak_mb": peak,
        "mb": round(4 * run.provenance.parameters / 1e6, 1), "parameters": run.provenance.parameters,
        "processor": processor(), "commit": run.provenance.environment.git_commit, "run_id": run.id,
    }  # fmt: skip


class Enough(Exception):
    """Raised after the steps that are timed."""


def step(wanted: RunConfig) -> dict[str, object]:
    """Seconds of a step, the median, and the peak memory of the process."""
    times: list[float] = []

    def report(event: dict) -> None:
        times.append(time.monotonic())
        if len(times) > STEPS:
            raise Enough

    with suppress(Enough):
        train_or_load(wanted, report=report)
    seconds = statistics.median(b - a for a, b in pairwise(times))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"step_seconds": round(seconds, 3), "peak_mb": round(peak), "processor": processor(), "commit": commit()[0]}


def rows(path: Path) -> pd.DataFrame:
    return pd.read_csv(path) if path.exists() else pd.DataFrame({"name": [], "seed": []})


def missing(path: Path, seeds: int, names: list[str]) -> Iterator[tuple[str, int]]:
    """What has no row yet; a step is timed once."""
    made = {*zip(rows(path)["name"], rows(path)["seed"].astype(int), strict=True)}
    return (
        (name, seed)
        for seed in range(seeds)
        for name in names
        if (name, seed) not in made and (not seed or name not in OPTIONS)
    )


def main() -> int:
    every = [*MINING, *OPTIONS, *CASES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flickr8k", default="")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--only", nargs="*", choices=every, default=every)
    given = parser.parse_args()
    names = [name for name in given.only if given.flickr8k or name in MINING]
    for name, seed in missing(given.rows, given.seeds, names):
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            line = alone.submit(step if name in OPTIONS else measured, config(name, given.flickr8k, seed)).result()
        table = pd.concat([rows(given.rows), pd.DataFrame([{"name": name, "seed": seed, **line}])])
        files.write_atomic(given.rows, table.to_csv(index=False, float_format="%.8g"))
        print(name, seed, {key: line.get(key) for key in ("rsum", "train_seconds", "step_seconds", "peak_mb")})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
