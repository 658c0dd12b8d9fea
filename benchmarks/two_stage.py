"""Two-stage search against exact search with smooth-Chamfer: 250,000 items of 4 elements, width 128, on disk.

    python benchmarks/two_stage.py [--items 250000 --elements 4 --width 128 --queries 200 --exact 60] [--engine faiss]

Two galleries, written in chunks and memory-mapped. 'topics': items gather around topic centres and their elements
around the item, as those of trained models do. 'unstructured': every element is a random unit vector on its own, which
no inverted list can follow; of the ten best, nine are chance. A query is a noisy view of one item: its elements plus
noise, renormalised. Each gallery has a process of its own. Exact search is top_k, one query at a time against the
memory-mapped gallery, after a warm-up; then two-stage search is asked the same queries, after one of its own. 'peak' is
the largest resident set, pages of mapped files included, which the system takes back when it needs them.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

SETTINGS = (100, 64)  # per_element, probes: the defaults of two_stage
CASES, SPREAD = ("topics", "unstructured"), 0.7  # norm of the deviations from centres of norm 1
CHUNK = 20_000


def gallery_chunks(kind: str, args: argparse.Namespace):
    """EmbeddingSets of CHUNK items, the same ones every time."""
    import torch
    import torch.nn.functional as F

    from xmr_core.base.types import EmbeddingSet

    draw = torch.Generator().manual_seed(args.seed)
    normal = partial(torch.randn, generator=draw)
    topics = F.normalize(normal(args.topics, args.width), dim=-1)
    for at in range(0, args.items, CHUNK):
        n = min(CHUNK, args.items - at)
        x = normal(n, args.elements, args.width) / args.width**0.5  # of norm 1, almost
        if kind != "unstructured":
            centre = topics[torch.randint(args.topics, (n,), generator=draw)]
            item = centre + SPREAD * normal(n, args.width) / args.width**0.5
            x = item[:, None] + SPREAD * x
        yield EmbeddingSet(F.normalize(x, dim=-1), torch.ones(n, args.elements, dtype=torch.bool))


def queries_of(gallery, args: argparse.Namespace):
    """Noisy views of random items."""
    import torch
    import torch.nn.functional as F

    from xmr_core.base.types import EmbeddingSet

    draw = torch.Generator().manual_seed(args.seed + 1)
    at = torch.randperm(len(gallery), generator=draw)[: args.queries].sort().values
    seen = gallery[at].x
    noise = torch.randn(seen.shape, generator=draw) / args.width**0.5
    return EmbeddingSet(F.normalize(seen + SPREAD * noise, dim=-1), gallery[at].mask.clone())


def measure(kind: str, args: argparse.Namespace) -> None:
    import numpy as np

    from xmr_core.base import fingerprint
    from xmr_core.evaluation.engine import top_k
    from xmr_core.search import open_gallery, recall, two_stage, write_gallery
    from xmr_core.similarities import smooth_chamfer

    similarity = partial(smooth_chamfer, alpha=16.0)
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        folder, clock = Path(scratch), time.perf_counter
        started = clock()
        file = write_gallery(folder / "gallery.safetensors", gallery_chunks(kind, args), args.items)
        digest, written = fingerprint.file_hash(file), clock() - started
        started = clock()
        build, reopen = engine_of(args)
        build(open_gallery(file), folder, digest)
        built = clock() - started
        started = clock()
        gallery = open_gallery(file)
        index = reopen(folder, gallery, digest)
        opened = clock() - started
        queries = queries_of(gallery, args)

        def exact(q: int) -> np.ndarray:
            return top_k(similarity, queries[q], gallery, 10, "captions")[1]

        def fast(q: int):
            return two_stage(index, queries[q], similarity, 10, *SETTINGS)

        for q in range(min(3, args.queries)):  # warm-up: pages of both files, threads
            exact(q)
        for q in range(args.queries):
            fast(q)
        truth, exact_ms = timed(exact, range(args.exact))
        answers, ms = timed(fast, range(args.exact))
        positions, best = np.concatenate([a.positions for a in answers]), np.concatenate(truth)
        share, first = recall(positions, best), recall(positions[:, :1], best[:, :1])
        engine = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) - file.stat().st_size
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"| {kind} | {args.engine} | {share:.3f} | {first:.3f} | {exact_ms:.1f} | {ms:.2f} | "
            f"{written:.0f} + {built:.0f} | {opened:.3f} | {file.stat().st_size / 1e6:.0f} + {engine / 1e6:.0f} | "
            f"{peak:.1f} |",
            flush=True,
        )


def engine_of(args: argparse.Namespace):
    """(how to build, how to open) the elements of a gallery."""
    from xmr_core.search import build_elements, build_engine, open_elements, open_engine

    if args.engine == "qdrant":
        return build_engine, open_engine
    return build_elements, open_elements


def timed(ask, queries) -> tuple[list, float]:
    """(answers, median milliseconds per query), one query at a time."""
    answers, spent = [], []
    for q in queries:
        started = time.perf_counter()
        answers.append(ask(q))
        spent.append(1000 * (time.perf_counter() - started))
    return answers, statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = {"items": 250_000, "elements": 4, "width": 128, "queries": 200, "exact": 60, "topics": 2000, "seed": 0}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--folder", help="where the galleries are written (default: the system's temporary folder)")
    parser.add_argument("--engine", choices=("faiss", "qdrant"), help="one engine (default: both)")
    parser.add_argument("--case", choices=CASES, help="one gallery, in this process")
    args = parser.parse_args()
    if args.case:
        return measure(args.case, args)
    print(f"{args.items:,} items × {args.elements} elements × {args.width}, {args.exact} queries timed; medians\n")
    head = ["gallery", "engine", "recall@10", "recall@1", "exact ms", "two-stage ms", "write + build s", "open s"]
    print(f"| {' | '.join([*head, 'files MB', 'peak GB'])} |\n|{'---|' * (len(head) + 2)}", flush=True)
    for case in CASES:
        for engine in [args.engine] if args.engine else ("faiss", "qdrant"):
            command = [sys.executable, __file__, *sys.argv[1:], "--engine", engine, "--case", case]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
