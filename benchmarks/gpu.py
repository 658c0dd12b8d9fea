"""Everything that is only known on an accelerator, in at most eight minutes, as rows of reports/gpu.csv.

    python benchmarks/gpu.py [--device cuda] [--part golden …] [--minutes 8] [--rows reports/gpu.csv] [--tiny]

Parts, in this order:
waits       how often the host waits for the device in a training step of every method, as the device itself warns
steps       training steps a second of every method: at the study's size (50 × 100 items, width 64) against one core of
            the processor; and at 128 × 128 items, width 1,024, in float32 and in bfloat16
ranks       every method trained on `scenes` for a few epochs, its test split encoded and scored in bfloat16 against
            float32: the share of queries whose first relevant item keeps its rank, and both R@1
golden      the golden cases of the tests, computed on the device: how many pass, and a row for each that does not
evaluation  the complete evaluation of every method, exact ranks included, on 5,000 images × 25,000 captions; on a
            processor on 1,000 × 5,000, 1/25 of it
compile     training steps a second with torch.compile, against those without
run         one run of the study from nothing, features included

The rows of a case are written when it is measured, and replace those of the same device, part and case. What has not
begun when the minutes are over gets no row and is named at the end; what fails is a row whose note says why. It takes
any device that torch names, the CPU too; --tiny has small sizes that say nothing about speed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from cost import peak_memory, scene

from xmr_core.base import files
from xmr_core.base.errors import XmrError
from xmr_core.base.machine import environment, processor, resolve_device
from xmr_core.base.tensors import unchecked
from xmr_core.base.types import Batch, Features, Relevance, Tokens
from xmr_core.evaluation.analysis import encode_split
from xmr_core.evaluation.evaluate import evaluate, evaluate_scores
from xmr_core.evaluation.ranks import Scoring
from xmr_core.methods import Inputs, build
from xmr_core.methods.registry import papers
from xmr_core.training.loop import clip_gradients
from xmr_core.training.runs import train_or_load
from xmr_core.training.runs.config import base_config
from xmr_study.cost import Shape

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ["device", "part", "case", "quantity", "value", "beside", "note", "torch", "processor", "commit", "date_utc"]
KEY = COLUMNS[:3]
Measured = tuple[str, float, float | None]  # quantity, value, what it is compared with


class Items(NamedTuple):
    """Sizes of a training step: images, captions, width, and of the features width, cells of an image and words."""

    images: int
    captions: int
    d: int
    width: int
    cells: int
    words: int


class Sizes:
    """How much is measured: everything, or (tiny) just enough to run each line."""

    def __init__(self, tiny: bool):
        small = Items(8, 8, 16, 8, 4, 5)
        self.study = small if tiny else Items(50, 100, 64, 92, 64, 14)
        self.paper = small if tiny else Items(128, 128, 1024, 2048, 36, 16)
        self.shape = Shape(d=16, m=8, regions=4, words=5) if tiny else Shape()
        self.ranked = (20, 40) if tiny else (5000, 25_000)
        self.world, self.epochs, self.seconds = ("tiny", 1, 0.05) if tiny else ("quick", 4, 2.0)


def golden(device: str, sizes: Sizes) -> Iterator[tuple[str, Callable[[], Iterator[Measured]]]]:
    def cases() -> Iterator[Measured]:
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "told.xml"
            tests = sorted(str(path) for path in (ROOT / "tests").rglob("test_golden_*.py"))
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={told}", *tests]
            chosen = ["-k", "maxsim or siglip"] if sizes.world == "tiny" else []
            subprocess.run(
                [*command, *chosen], cwd=ROOT, env=os.environ | {"XMR_GOLDEN_DEVICE": device}, capture_output=True
            )
            found = list(ElementTree.parse(told).iter("testcase"))
        failed = [case.get("name") for case in found if any(child.tag in ("failure", "error") for child in case)]
        yield "passed", len(found) - len(failed), len(found)
        for name in failed:
            yield f"failed: {name}", 0, 1

    yield "all", cases


def ranks(device: str, sizes: Sizes) -> Iterator[tuple[str, Callable[[], Iterator[Measured]]]]:
    def compared(method: str) -> Iterator[Measured]:
        config = base_config(method, device=device, size=sizes.world, epochs=sizes.epochs, precision="float32")
        run = train_or_load(config.replace(**({"d": 16} if sizes.world == "tiny" else {})))
        model, split = run.method().to(device), run.prepared().splits["test"]
        tables = []
        for half in (False, True):
            with torch.inference_mode(), torch.autocast(torch.device(device).type, torch.bfloat16, enabled=half):
                images, captions = encode_split(model, split)
                scores = torch.zeros(len(images), len(captions))
                scoring = Scoring(model.similarity, images.to(device), captions.to(device))
                for rows, columns in scoring.plan():
                    scores[rows, columns] = scoring.block(rows, columns).float().cpu()
            tables.append(evaluate_scores(scores.numpy(), {"annotated": split.relevance}).per_query)
        for direction, (single, half) in {
            name: [table[table["direction"] == name] for table in tables] for name in ("i2t", "t2i")
        }.items():
            same = single["first_rank"].to_numpy() == half["first_rank"].to_numpy()
            yield f"first rank unchanged {direction}", float(same.mean()), 1.0
            yield f"R@1 {direction} bfloat16", half["R@1"].mean(), single["R@1"].mean()

    for method in papers():
        yield method, lambda m=method: compared(m)


def waits(device: str, sizes: Sizes) -> Iterator[tuple[str, Callable[[], Iterator[Measured]]]]:
    def counted(method: str) -> Iterator[Measured]:
        step, many = _step(method, device, sizes, sizes.study), 10
        step()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                for _ in range(many):
                    step()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        yield "waits a step", sum("synchroniz" in str(w.message) for w in caught) / many, 0.0

    for method in papers() if torch.device(device).type == "cuda" else ():  # no other device tells
        yield method, lambda m=method: counted(m)


def steps(device: str, sizes: Sizes) -> Iterator[tuple[str, Callable[[], Iterator[Measured]]]]:
    def timed(method: str) -> Iterator[Measured]:
        own = [_speed(_step(method, where, sizes, sizes.study), where, sizes) for where in (device, "cpu")]
        yield "steps a second at the study's size, against one core", *own
        for precision in ("float32", "bfloat16"):
            step = _step(method, device, sizes, sizes.paper, precision == "bfloat16")
            yield f"steps a second at the papers' size, {precision}", _speed(step, device, sizes), None
        yield "peak GiB", peak_memory(device), None

    for method in papers():
        yield method, lambda m=method: timed(m)


def evaluation(device: str, sizes: Sizes) -> Iterator[tuple[str, Callable[[], Iterator[Measured]]]]:
    i, t = (n // 5 if torch.device(device).type == "cpu" else n for n in sizes.ranked)
    pairs = Relevance.from_pairs([(c, c * i // t) for c in range(t)], range(t), range(i))

    def timed(method: str) -> Iterator[Measured]:
        made = scene(method, sizes.shape, i, t, device)
        stood, started = peak_memory(device), time.perf_counter()
        evaluate(made.similarity, made.images, made.captions, {"annotated": pairs})
        yield f"seconds of {i} x {t}", time.perf_counter() - started, None
        yield "peak GiB, against before", peak_memory(device), stood

    for method in papers():
        yield method, lambda m=method: timed(m)


def compiled(device: str, sizes: Sizes) -> Iterator[tuple[str, Callable[[], Iterator[Measured]]]]:
    def timed(method: str) -> Iterator[Measured]:
        torch.compiler.reset()
        each = (_step(method, device, sizes, sizes.paper, True, compiled) for compiled in (False, True))
        plain, faster = (_speed(step, device, sizes) for step in each)
        yield "steps a second compiled, against plain, bfloat16", faster, plain

    for method in papers():
        yield method, lambda m=method: timed(m)


def run(device: str, sizes: Sizes) -> Iterator[tuple[str, Callable[[], Iterator[Measured]]]]:
    def timed() -> Iterator[Measured]:
        with tempfile.TemporaryDirectory() as home:
            before, os.environ["XMR_HOME"] = os.environ.get("XMR_HOME"), home
            try:
                started = time.perf_counter()
                made = train_or_load(base_config("dive", device=device, size=sizes.world))
                yield "seconds", time.perf_counter() - started, None
                yield "seconds of training", made.provenance.train_seconds, None
            finally:
                os.environ.pop("XMR_HOME")
                if before is not None:
                    os.environ["XMR_HOME"] = before

    yield "dive", timed


PARTS = {
    "waits": waits, "steps": steps, "ranks": ranks, "golden": golden, "evaluation": evaluation, "compile": compiled,
    "run": run,
}  # fmt: skip


def _step(
    method: str, device: str, sizes: Sizes, items: Items, half: bool = False, compile_it: bool = False
) -> Callable[[], None]:
    """A training step: forwards, backwards and AdamW, on one batch that lies on the device, as the loop takes it."""
    torch.manual_seed(0)
    model = build(method, Inputs(items.width, items.cells, 5000, word_dim=64), d=items.d).to(device).train()
    optimiser, (i, t) = torch.optim.AdamW(model.parameters(), fused=True), items[:2]
    images = Features(torch.randn(i, items.cells, items.width), torch.ones(i, items.cells, dtype=torch.bool))
    lengths = torch.randint(items.words // 2 + 1, items.words + 1, (t, 1))
    mask = torch.arange(int(lengths.max())) < lengths
    captions = Tokens(torch.randint(4, 5000, mask.shape) * mask, mask)
    match = torch.eye(i, dtype=torch.bool).repeat_interleave(t // i, 1)
    batch = Batch(images, captions, match, torch.arange(i), torch.arange(t)).to(device)
    loss_of = torch.compile(model.loss) if compile_it else model.loss

    def step() -> None:
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=half), unchecked():
            loss = loss_of(batch, 0)[0]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        clip_gradients(model.parameters(), 2.0)
        optimiser.step()

    return step


def _speed(step: Callable[[], None], device: str, sizes: Sizes) -> float:
    """Steps a second; of a processor those of one core."""
    threads = torch.get_num_threads()
    if torch.device(device).type == "cpu":
        torch.set_num_threads(1)

    def finished() -> float:
        if torch.device(device).type != "cpu":
            torch.get_device_module(device).synchronize()
        return time.perf_counter()

    for _ in range(3):
        step()
    started, taken = finished(), 0
    while taken < 3 or finished() - started < sizes.seconds:
        step()
        taken += 1
    speed = taken / (finished() - started)
    torch.set_num_threads(threads)
    return speed


def append(path: Path, rows: list[dict]) -> None:
    """Write the rows of a case into the file, in place of those with the same KEY."""
    table = pd.DataFrame(rows, columns=COLUMNS)
    if path.exists():
        before = pd.read_csv(path, keep_default_na=False, dtype=str)
        same = (before[KEY] == table[KEY].iloc[0]).all(axis=1)
        table = pd.concat([before[~same], table])
    files.write_atomic(path, table.to_csv(index=False))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", help="as torch names it; auto takes the accelerator")
    parser.add_argument("--part", choices=list(PARTS), action="append", help="only this part; may be repeated")
    parser.add_argument("--minutes", type=float, default=8.0, help="nothing begins after that")
    parser.add_argument("--rows", type=Path, default=ROOT / "reports" / "gpu.csv")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try it")
    asked = parser.parse_args()
    device, sizes, until = resolve_device(asked.device), Sizes(asked.tiny), time.monotonic() + 60 * asked.minutes
    made_by = environment(device)
    stamp = {"device": made_by.device, "torch": made_by.torch, "processor": processor(), "commit": made_by.git_commit}
    failed, left = [], []
    for part in asked.part or PARTS:
        for case, act in PARTS[part](device, sizes):
            name = f"{part}, {case}"
            if time.monotonic() > until:
                left.append(name)
                continue
            row = stamp | {"part": part, "case": case, "date_utc": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
            rows = []
            try:
                for quantity, value, beside in act():
                    against = "" if beside is None else f"{beside:.4g}"
                    rows.append(row | {"quantity": quantity, "value": f"{value:.4g}", "beside": against, "note": ""})
            except (XmrError, RuntimeError, ValueError, TypeError, MemoryError, OSError) as e:
                failed.append(name)
                note = f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"
                rows.append(row | {"quantity": "failed", "value": "", "beside": "", "note": note})
            append(asked.rows, rows)
            print(
                name, *(f"{r['quantity']} {r['value']} {r['beside']} {r['note']}" for r in rows), sep=" | ", flush=True
            )
    for what, names in (("failed", failed), ("not begun", left)):
        if names:
            print(f"{what}: {'; '.join(names)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
