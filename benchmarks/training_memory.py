"""Peak memory of one training step of the methods that compare every pair: 128 images × 128 captions, width 1024.

    python benchmarks/training_memory.py [--regions 36] [--words 8 16] [--batch 128]

Each similarity runs in a process of its own, so that its peak resident size, less what stood there before the step, is
its own. The step is scores, hinge on the hardest negatives, and gradients of inputs and weights; encoders are not in
it.
"""

import argparse
import resource
import subprocess
import sys
import time

CASES = ("scan t2i", "scan i2t", "sgr", "saf", "joint")


def step(name: str, args: argparse.Namespace) -> None:
    import torch
    import torch.nn.functional as F

    from xmr_core.base.types import EmbeddingSet
    from xmr_core.losses.triplet import hinge_triplet
    from xmr_core.similarities import JointSgraf, Sgraf, scan

    torch.manual_seed(0)
    n, extra = args.batch, 0 if name.startswith("scan") else 1
    lengths = torch.randint(args.words[0], args.words[1] + 1, (n,))
    lengths[0] = args.words[1]

    def sets(width: int, mask: torch.Tensor) -> EmbeddingSet:
        return EmbeddingSet(F.normalize(torch.randn(n, width, args.d), dim=-1).requires_grad_(), mask)

    images = sets(args.regions + extra, torch.ones(n, args.regions + extra, dtype=torch.bool))
    words = args.words[1] + extra
    captions = sets(words, torch.arange(words)[None] < lengths[:, None] + extra)
    if name.startswith("scan"):
        direction = name.split()[1]

        def similarity(a, b):
            return scan(a, b, direction, sharpness=9.0 if direction == "t2i" else 4.0)
    else:
        similarity = JointSgraf(args.d, args.m) if name == "joint" else Sgraf(args.d, name, args.m)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    scores = similarity(images, captions)
    hinge_triplet(scores, torch.eye(n, dtype=torch.bool)).backward()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    print(f"| {name} | {grown:.2f} | {time.monotonic() - started:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--regions", type=int, default=36)
    parser.add_argument("--words", type=int, nargs=2, default=[8, 16])
    parser.add_argument("--d", type=int, default=1024)
    parser.add_argument("--m", type=int, default=256)
    args = parser.parse_args()
    if args.case:
        step(args.case, args)
    else:
        print(
            f"{args.batch} × {args.batch} pairs, {args.regions} regions, {args.words[0]}–{args.words[1]} words, width "
            f"{args.d}, nodes {args.m}\n"
        )
        print("| similarity | extra memory, GiB | seconds |\n|---|---|---|", flush=True)
        for name in CASES:
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--case", name], check=True)
