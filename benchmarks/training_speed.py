"""How near a training step of the methods that compare every pair comes to the matrix products it cannot do without.

    python benchmarks/training_speed.py [--shape large|small] [--case "scan t2i" …] [--form blocks|plain] [--times 5]

A step is scores, forwards and backwards, without encoders and loss. Its floor is three times the products of the
forward pass, timed in the same process in turn with the step, on one thread: for SCAN words × regions and the Gram
matrix × attention; for SGRAF words × regions, attention × regions, W × squared differences of words and of the global
vectors; for SGR also the products of its reasoning. Floors multiply no padding, and are cut into blocks that suit a
cache. Seconds are those of the processor, not of the clock, so that other programs disturb them less; ratios are those
of the medians. Every case has a process of its own; extra memory is the peak of the first step above what stood there
before it. The form `plain` is the one that autograd differentiates: what tests compare with, and other devices take.
"""

import argparse
import importlib
import resource
import statistics
import subprocess
import sys
import time

CASES = ("scan t2i", "scan i2t", "saf", "sgr")
SHAPES = {
    "large": {"images": 128, "captions": 128, "regions": 36, "words": [8, 16], "d": 1024, "m": 256},
    "small": {"images": 50, "captions": 100, "regions": 64, "words": [6, 12], "d": 64, "m": 64},
}
_COLUMNS = 512  # of the products of a floor
_BLOCK = 1 << 19  # elements of its results at a time: 2 MB


def take_plain_form() -> None:
    for name in ("scan", "sgraf"):
        importlib.import_module(f"xmr_core.similarities.{name}").by_blocks = lambda *tensors: False


def run(name: str, args: argparse.Namespace) -> None:
    import torch
    import torch.nn.functional as F

    from xmr_core.base.types import EmbeddingSet
    from xmr_core.similarities import Sgraf, scan

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if args.form == "plain":
        take_plain_form()
    kind, *direction = name.split()
    first = 0 if kind == "scan" else 1  # row 0 is the global vector
    i, t, d, m = args.images, args.captions, args.d, args.m
    lengths = torch.randint(args.words[0], args.words[1] + 1, (t,))
    lengths[0] = longest = args.words[1]
    masks = (
        torch.ones(i, first + args.regions, dtype=torch.bool),
        torch.arange(first + longest)[None] < first + lengths[:, None],
    )
    images, captions = (
        EmbeddingSet(F.normalize(torch.randn(*mask.shape, d), dim=-1).requires_grad_(), mask) for mask in masks
    )
    similarity = scan if kind == "scan" else Sgraf(d, kind, m)
    options = {"direction": direction[0], "sharpness": 9.0 if direction == ["t2i"] else 4.0} if direction else {}
    regions = images.x.detach()[:, first:].contiguous()
    words = captions.x.detach()[:, first:][captions.mask[:, first:]]
    wholes = captions.x.detach()[:, 0].contiguous()
    weights, gram = torch.rand(args.regions, _COLUMNS), torch.rand(i, args.regions, args.regions)
    w, a, n = torch.randn(d, m), torch.randn(m, m), round(float(lengths.float().mean())) + 1  # nodes of a pair

    def products() -> None:
        for part in words.split(_COLUMNS):
            attention = weights[:, : len(part)]
            for x in regions.split(max(1, _BLOCK // (args.regions * len(part)))):
                _ = x.flatten(0, 1) @ part.T
                if kind == "scan":
                    _ = torch.bmm(gram[: len(x)], attention.expand(len(x), -1, -1))
            if kind == "scan":
                continue
            for x in regions.split(max(1, _BLOCK // (len(part) * d))):
                nodes = torch.bmm(attention.T.expand(len(x), -1, -1), x).flatten(0, 1) @ w
                if kind == "sgr":  # 𝒩 A, its product with 𝒩ᵀ, E 𝒩, E 𝒩 W; the last step reads one node
                    nodes = nodes[: len(nodes) // n * n].view(-1, n, m)
                    for queries in (nodes, nodes, nodes[:, :1]):
                        _ = ((queries @ a) @ nodes.transpose(1, 2)) @ nodes @ a
        if kind != "scan":
            for _ in range(i):
                _ = wholes @ w

    def step() -> None:
        similarity(images, captions, **options).square().sum().backward()
        images.x.grad = captions.x.grad = None

    stood = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - stood) / 2**20
    times = {step: [], products: []}
    for _ in range(args.times):
        for act, seconds in times.items():
            start = time.process_time()
            act()
            seconds.append(time.process_time() - start)
    taken, floor = statistics.median(times[step]), 3 * statistics.median(times[products])
    print(f"| {name} | {args.form} | {taken:.3f} | {floor:.3f} | {taken / floor:.2f} | {grown:.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--only", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--form", choices=("blocks", "plain"), default="blocks")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--shape", choices=SHAPES, default="large")
    for option in ("images", "captions", "regions", "d", "m"):
        parser.add_argument(f"--{option}", type=int)
    parser.add_argument("--words", type=int, nargs=2, help="of the shortest and the longest caption")
    args = parser.parse_args()
    for option, value in SHAPES[args.shape].items():
        if getattr(args, option) is None:
            setattr(args, option, value)
    if args.only:
        run(args.only, args)
    else:
        print("| similarity | form | seconds | floor | ratio | extra GiB |\n| --- | --- | --- | --- | --- | --- |")
        sys.stdout.flush()
        for name in args.case or CASES:
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--only", name], check=True)
