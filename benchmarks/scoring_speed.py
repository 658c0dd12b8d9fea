"""How near each similarity comes to the matrix products that it cannot do without: 1,000 pictures × 5,000 captions.

    python benchmarks/scoring_speed.py [--case scan …] [--images 1000 --captions 5000] [--times 3]

Each case is scored block by block as an evaluation does (retrieval.score_matrix), in turn with its floor on the same numbers:
for sets and SCAN the bare product of all elements, for SGRAF that and products of the shapes of attention with regions and of W with
squared differences. The ratio is of the medians; every time a case runs, its floor runs too. Every case has a process of its own, whose peak
memory above what stood there before (inputs and, for a matrix, the scores) is given.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

CASES = ("scan", "scan i2t", "saf", "sgr", "smooth-chamfer", "chamfer", "mil", "mp")


def run(name: str, args: argparse.Namespace) -> None:
    import numpy as np
    import torch
    import torch.nn.functional as F

    from xmr_core.retrieval import MAX_ELEMENTS, score_blocks
    from xmr_core.similarities import MatchProbability, Sgraf, chamfer, max_pairwise, scan, smooth_chamfer
    from xmr_core.types import EmbeddingSet

    torch.manual_seed(0)
    i, t, d = args.images, args.captions, args.d
    pairs = name.split()[0] in ("scan", "saf", "sgr")
    whole = int(name in ("saf", "sgr"))
    if pairs:
        lengths = torch.randint(8, 17, (t,))
        k, l = 36 + whole, 16 + whole
        masks = torch.ones(i, k, dtype=torch.bool), torch.arange(l)[None] < lengths[:, None] + whole
    else:
        k = l = 4
        masks = torch.ones(i, k, dtype=torch.bool), torch.ones(t, l, dtype=torch.bool)
    images, captions = (
        EmbeddingSet(F.normalize(torch.randn(n, m, d), dim=-1), mask) for n, m, mask in ((i, k, masks[0]), (t, l, masks[1]))
    )
    similarity = {
        "scan": lambda a, b: scan(a, b, "t2i", 9.0, "lse", 6.0), "scan i2t": lambda a, b: scan(a, b, "i2t", 4.0, "lse", 5.0),
        "smooth-chamfer": smooth_chamfer, "chamfer": chamfer, "mil": max_pairwise, "mp": MatchProbability(),
    }.get(name) or Sgraf(d, name, args.m).eval()  # fmt: skip
    real = captions.x[captions.mask]  # a floor need not multiply padding
    rows = images.x.flatten(0, 1)
    step = max(1, MAX_ELEMENTS // len(real))

    def floor() -> None:
        for at in range(0, len(rows), step):
            _ = rows[at : at + step] @ real.T
        if whole:  # attention @ regions, and W (a − t)², for every pair of a picture and a word
            w, a = torch.randn(d, args.m), torch.rand(len(real), 36)
            for n in range(i):
                _ = (a @ images.x[n, 1:]) @ w

    def score() -> None:
        for rows_of, columns, block in score_blocks(similarity, images, captions):
            out[rows_of, columns] = block.numpy()

    out = np.zeros((i, t), np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = {"score": [], "floor": []}
    with torch.inference_mode():
        start = time.perf_counter()
        score()
        times["score"].append(time.perf_counter() - start)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
        for n in range(args.times):
            for what, act in (("floor", floor), ("score", score)) if n else (("floor", floor),):
                start = time.perf_counter()
                act()
                times[what].append(time.perf_counter() - start)
    scored, bare = (statistics.median(times[w]) for w in ("score", "floor"))
    print(f"| {name} | {scored:.2f} | {bare:.2f} | {scored / bare:.2f} | {grown:.2f} |", flush=True)


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
        print("| similarity | seconds | floor | ratio | extra GiB |\n| --- | --- | --- | --- | --- |", flush=True)
        passed = [word for name in ("images", "captions", "d", "m", "times") for word in (f"--{name}", str(getattr(args, name)))]
        for name in args.case or CASES:
            subprocess.run([sys.executable, __file__, "--only", name, *passed], check=True)
