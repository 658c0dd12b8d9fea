"""How near each similarity comes to the matrix products that it cannot do without: 1,000 images × 5,000 captions.

    python benchmarks/scoring_speed.py [--case scan …] [--images 1000 --captions 5000] [--times 3]

Each case is scored block by block as an evaluation does, in turn with its floor on the same numbers: for sets and SCAN
the bare product of all real elements, for SGRAF that, attention × regions, and W × squared differences of words and of
the wholes (stand-ins of the same shapes); "with reasoning" adds the products of SGR's steps. Floors are cut into blocks
too, because products whose result leaves the cache are slower. The ratio is of the medians. Every case has a process of
its own; extra memory is its peak above what stood there before. The error is the largest difference to float64 on 32 ×
64 pairs.
"""

import argparse
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

CASES = ("scan", "scan i2t", "saf", "sgr", "sgr with reasoning", "smooth-chamfer", "chamfer", "mil", "mp")
_BLOCK = 1 << 21  # elements of a floor's results at a time: 8 MB


def peak(reset: bool = False) -> float:
    """GiB of resident memory at most since the last reset (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 2**20


def run(name: str, args: argparse.Namespace) -> None:
    import numpy as np
    import torch
    import torch.nn.functional as F

    from xmr_core.base.types import EmbeddingSet
    from xmr_core.evaluation.ranks import Scoring
    from xmr_core.similarities import MatchProbability, Sgraf, chamfer, max_pairwise, scan, smooth_chamfer

    torch.manual_seed(0)
    i, t, d, m = args.images, args.captions, args.d, args.m
    kind, *more = name.split()
    whole = int(kind in ("saf", "sgr"))
    if kind in ("scan", "saf", "sgr"):
        lengths = torch.randint(8, 17, (t,))
        k, l = 36 + whole, 16 + whole
        masks = torch.ones(i, k, dtype=torch.bool), torch.arange(l)[None] < lengths[:, None] + whole
    else:
        k = l = 4
        masks = torch.ones(i, k, dtype=torch.bool), torch.ones(t, l, dtype=torch.bool)
    images, captions = (
        EmbeddingSet(F.normalize(torch.randn(n, e, d), dim=-1), mask)
        for n, e, mask in ((i, k, masks[0]), (t, l, masks[1]))
    )
    similarity = {
        "scan": partial(scan, direction="t2i", sharpness=9.0, aggregate="lse", lse_scale=6.0),
        "scan i2t": partial(scan, direction="i2t", sharpness=4.0, aggregate="lse", lse_scale=5.0),
        "smooth-chamfer": partial(smooth_chamfer, alpha=16.0), "chamfer": chamfer, "mil": max_pairwise,
        "mp": MatchProbability(),
    }.get(name) or Sgraf(d, kind, m).eval()  # fmt: skip
    real = captions.x[:, whole:][captions.mask[:, whole:]]  # a floor need not multiply padding
    regions = images.x[:, whole:]
    w, look, a, r = torch.randn(d, m), torch.rand(512, regions.shape[1]), torch.randn(m, m), torch.randn(m, m)
    n = 13  # nodes of a pair: the whole and 12 words, the mean

    def floor() -> None:
        rows = regions.flatten(0, 1)
        columns = 2048
        step = max(1, _BLOCK // columns)
        for part in real.split(columns):
            for at in range(0, len(rows), step):
                _ = rows[at : at + step] @ part.T
        if whole:
            for x in regions:
                for part in captions.x[:, 0].split(512):
                    _ = part @ w  # the node of the two wholes
                for at in range(0, len(real), 512):
                    found = (look[: len(real) - at] @ x) @ w  # attention @ regions, and W (a − t)²
                    if more:  # two steps over all nodes: N A, (N A) Nᵀ, E N, (E N) W
                        nodes = found[: len(found) // n * n].view(-1, n, m)
                        for _ in range(2):
                            _ = ((nodes @ a) @ nodes.transpose(1, 2)) @ nodes @ r

    def score() -> None:
        scores = Scoring(similarity, images, captions)
        for rows_of, columns in scores.plan():
            out[np.ix_(np.arange(i)[rows_of], np.arange(t)[columns])] = scores.block(rows_of, columns).numpy()

    out = np.zeros((i, t), np.float32)
    times = {"score": [], "floor": []}
    with torch.inference_mode():
        stood = peak(reset=True)
        for turn in range(args.times):
            for what, act in (("score", score), ("floor", floor)):
                start = time.perf_counter()
                act()
                times[what].append(time.perf_counter() - start)
                if turn == 0 and what == "score":
                    grown = peak() - stood
    sample = Scoring(similarity, images, captions)
    some = np.linspace(0, i - 1, 32).astype(int), np.linspace(0, t - 1, 64).astype(int)
    off = float((sample.exact(*some).detach() - torch.from_numpy(out[np.ix_(*some)])).abs().max())
    scored, bare = (statistics.median(times[what]) for what in ("score", "floor"))
    print(f"| {name} | {scored:.2f} | {bare:.2f} | {scored / bare:.2f} | {grown:.2f} | {off:.1e} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--only", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--captions", type=int, default=5000)
    parser.add_argument("--d", type=int, default=1024)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    if args.only:
        run(args.only, args)
    else:
        print(
            "| similarity | seconds | floor | ratio | extra GiB | error |\n| --- | --- | --- | --- | --- | --- |",
            flush=True,
        )
        passed = [
            word
            for name in ("images", "captions", "d", "m", "times")
            for word in (f"--{name}", str(getattr(args, name)))
        ]
        for name in args.case or CASES:
            subprocess.run([sys.executable, __file__, "--only", name, *passed], check=True)
