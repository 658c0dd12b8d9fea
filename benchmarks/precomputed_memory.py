"""Resident memory while training on region features that are larger than memory.

    python benchmarks/precomputed_memory.py [--gb 36.4] [--steps 100] [--quick]

Makes a data set in the layout of SCAN whose arrays are sparse files (36 regions × 2048 float32 of zeros: they take no
disk), then trains one method on images spread over the whole of it, once through the package's own reader and once on a
plain memory map for comparison, each in a process of its own. The files are removed afterwards. 36.4 GB are the 113,287
training images of COCO; --quick: 5 GB.
How long a step waits for its batch is told, and how long an epoch of COCO takes to read. Sparse files are zeros that no
disk has to find, so these times are those of the package and of memory, less than those of a disk.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

REGIONS, WIDTH, HELD_OUT, PER = 36, 2048, 1000, 5
LIMIT_GB = 3.0


def write_sparse(path: Path, shape: tuple[int, ...]) -> None:
    """An .npy file of float32 zeros of which only the header is on disk."""
    with open(path, "wb") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": shape})
        f.truncate(f.tell() + int(np.prod(shape, dtype=np.int64)) * 4)


def make(folder: Path, gb: float) -> int:
    """The data set: train one row an image, dev and testall repeated five times, as in the public package. Returns
    training images.
    """
    held_out = HELD_OUT * PER
    train = int(gb * 1e9 / (REGIONS * WIDTH * 4)) - 2 * held_out
    rng = np.random.default_rng(0)
    for stem, rows, images in (("train", train, train), ("dev", held_out, HELD_OUT), ("testall", held_out, HELD_OUT)):
        write_sparse(folder / f"{stem}_ims.npy", (rows, REGIONS, WIDTH))
        words = rng.integers(0, 1000, (images * PER, 10)).astype(str)  # numbers are words too
        (folder / f"{stem}_caps.txt").write_text("\n".join(map(" ".join, words)) + "\n")
        (folder / f"{stem}_ids.txt").write_text("".join(f"{n}\n" for n in range(rows)))
    return train


def memory() -> str:
    """Peak and present resident memory of this process, GB: all, of it own data (anonymous) and pages of files."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    lines = Path("/proc/self/status").read_text().splitlines() if Path("/proc/self/status").exists() else []
    now = {line.split(":")[0]: int(line.split()[1]) / 1e6 for line in lines if line.startswith("Rss")}
    return f"peak {peak:.2f} | anonymous {now.get('RssAnon', 0):.2f} | of files {now.get('RssFile', 0):.2f}"


def train_on(folder: Path, args: argparse.Namespace) -> None:
    import torch

    from xmr_core.data.batches import Batches, Split
    from xmr_core.data.inputs import feature_reader
    from xmr_core.data.readers.precomputed import load_precomputed
    from xmr_core.features.words import Vocabulary
    from xmr_core.methods.common import Inputs
    from xmr_core.methods.registry import build
    from xmr_core.training import TrainConfig, train

    started = time.monotonic()
    corpus = load_precomputed(folder)
    if args.how == "mapped":
        corpus = replace(corpus, features=np.load(folder / "train_ims.npy", mmap_mode="r"))  # training rows come first
    vocabulary = Vocabulary.build(corpus.captions["text"][corpus.captions["split"] == "train"].tolist())
    images, captions = corpus.rows("train")
    chosen = np.linspace(0, len(images) - 1, args.steps * args.batch).astype(int)  # positions over the whole file
    asked = (chosen[:, None] * PER + np.arange(PER)).ravel()
    split = Split(
        images[chosen],
        captions[asked],
        feature_reader(corpus.features),
        vocabulary.encode(corpus.captions["text"].iloc[captions[asked]].tolist()),
        corpus.relevance_sets["annotated"]("train").restrict(asked, chosen),
    )
    inputs = Inputs(
        corpus.about["width"], corpus.about["cells"], len(vocabulary.words), ordered_cells=corpus.about["ordered_cells"]
    )
    torch.manual_seed(0)
    method = build(args.method, inputs)
    loaded = time.monotonic()
    print(f"| {args.how} | before training | {loaded - started:.0f} s | {memory()} |", flush=True)
    waited = 0.0

    class Timed(Batches):
        def ahead(self, *given):
            nonlocal waited
            batches = super().ahead(*given)
            while True:
                started = time.monotonic()
                batch = next(batches, None)
                waited += time.monotonic() - started
                if batch is None:
                    return
                yield batch

    batches = Timed(split, args.batch, PER, seed=0)
    started, plan = time.monotonic(), batches.plan(0)
    for step in range(20):
        batches.batch(0, step % len(plan), plan)
    read = (time.monotonic() - started) / 20
    print(
        f"| {args.how} | reading alone | {1e3 * read:.1f} ms a batch, {read * 113_287 / args.batch:.0f} s an epoch | |"
    )
    loaded = time.monotonic()
    train(
        method,
        batches,
        lambda _: {"value": 0.0},
        TrainConfig(epochs=1, threads=torch.get_num_threads(), precision="float32"),
    )
    taken = f"{time.monotonic() - loaded:.0f} s, {waited / len(batches):.4f} s a step waiting"
    print(f"| {args.how} | {len(batches)} steps | {taken} | {memory()} |", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if args.how == "rows" and peak > LIMIT_GB:
        raise SystemExit(f"FAILED: {peak:.2f} GB resident, {LIMIT_GB} GB are allowed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=36.4)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--method", default="vse-infty")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", help=argparse.SUPPRESS)  # of a child process
    parser.add_argument("--how", choices=("rows", "mapped"), default="rows", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        train_on(Path(args.folder), args)
        raise SystemExit
    folder = Path(tempfile.mkdtemp(prefix="xmr-sparse-"))
    status = 0
    try:
        n = make(folder, 5.0 if args.quick else args.gb)
        apparent = sum(f.stat().st_size for f in folder.iterdir()) / 1e9
        on_disk = sum(f.stat().st_blocks * 512 for f in folder.iterdir()) / 1e9
        print(
            f"{n:,} training images, {apparent:.1f} GB of files ({on_disk:.2f} GB on disk), {args.method}, "
            f"batches of {args.batch}\n"
        )
        print("| features | when | time | resident memory, GB |\n|---|---|---|---|", flush=True)
        for how in ("rows", "mapped"):
            words = [sys.executable, __file__, *sys.argv[1:], "--folder", str(folder), "--how", how]
            status |= subprocess.run(words, env={**os.environ, "XMR_HOME": str(folder)}).returncode
    finally:
        shutil.rmtree(folder)
    raise SystemExit(status)
