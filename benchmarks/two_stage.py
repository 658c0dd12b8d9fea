"""Two-stage search against exact search with smooth-Chamfer: 250,000 items of 4 elements, width 128, on disk.

    python benchmarks/two_stage.py [--items 250000 --elements 4 --width 128 --queries 200 --exact 30] [--sweep]

Three galleries, written in chunks and memory-mapped. 'topics': items gather around topic centres and their elements
around the item, as those of trained models do. 'faint': the same, but items deviate from their topic by twice its norm.
'unstructured': every element is a random unit vector on its own, which no inverted list can follow; the unfavourable
case: of the ten best, nine are chance. A query is a noisy view of one item: its elements plus noise, renormalised. Each
gallery has a process of its own. Exact search is top_k, one query at a time against the memory-mapped gallery, after a
warm-up; then two-stage search is asked the same queries, after one of its own.
Memory: 'peak' is the largest resident set, pages of mapped files included, which the system takes back when it needs
them; 'own' is what the process has of its own (RssAnon) when all is open. --sweep shows recall against speed for other
settings. --engine qdrant holds the elements in the embedded edition of Qdrant instead of faiss.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

SETTINGS = (100, 64)  # per_element, probes: the defaults of two_stage
CASES = ("topics", "faint", "unstructured")
FAINT = 2.0
SWEEP = ((20, 4), (20, 16), (100, 4), (100, 8), (100, 16), (100, 32), (400, 64), (400, 256), (1000, 1024))
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
            spread = FAINT if kind == "faint" else args.item_spread
            item = centre + spread * normal(n, args.width) / args.width**0.5
            x = item[:, None] + args.element_spread * x
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
    return EmbeddingSet(F.normalize(seen + args.noise * noise, dim=-1), gallery[at].mask.clone())


def measure(kind: str, args: argparse.Namespace) -> None:
    import numpy as np

    from xmr_core.base import fingerprint
    from xmr_core.evaluation.ranks import top_k
    from xmr_core.retrieval.index import open_gallery, write_gallery
    from xmr_core.retrieval.ranking import two_stage
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
        queries, lists = queries_of(gallery, args), index.about.get("lists")

        def exact(q: int) -> np.ndarray:
            return top_k(similarity, queries[q], gallery, 10, "captions")[1]

        def fast(q: int, per_element: int, probes: int) -> np.ndarray:
            engine = replace(index, engine=replace(index.engine, probes=probes)) if lists else index
            return two_stage(engine, queries[q], similarity, 10, per_element)[1]

        for q in range(min(3, args.queries)):  # warm-up: pages of both files, threads
            exact(q)
        for q in range(args.queries):
            fast(q, *SETTINGS)
        truth, exact_ms = timed(exact, range(args.exact))
        elements = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) - file.stat().st_size
        sizes = f"{file.stat().st_size / 1e6:.0f} + {elements / 1e6:.0f}"
        of_lists = f" of {lists}" if lists else ", unused"
        for per_element, probes in (SETTINGS, *(SWEEP if args.sweep and lists else ())):
            for q in range(args.exact):
                fast(q, per_element, probes)
            answers, ms = timed(lambda q, p=per_element, n=probes: fast(q, p, n), range(args.exact))
            found, best = np.concatenate(answers), np.concatenate(truth)
            share = np.mean([np.isin(e, f).mean() for e, f in zip(best, found, strict=True)])
            first = np.mean(found[:, 0] == best[:, 0])
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            print(
                f"| {kind} | {args.engine} | {per_element} | {probes}{of_lists} | {share:.3f} | "
                f"{first:.3f} | {exact_ms:.1f} | {ms:.2f} | {written:.0f} + {built:.0f} | {opened:.3f} | {sizes} | "
                f"{peak:.1f}, {own_memory():.1f} |",
                flush=True,
            )


def engine_of(args: argparse.Namespace):
    """(how to build, how to open) the elements of a gallery."""
    from xmr_core.retrieval.engine import build_elements, build_engine, open_elements, open_engine

    if args.engine == "qdrant":
        return build_engine, open_engine
    return partial(build_elements, lists=args.lists or None, codes=args.codes), open_elements


def timed(ask, queries) -> tuple[list, float]:
    """(answers, median milliseconds per query), one query at a time."""
    answers, spent = [], []
    for q in queries:
        started = time.perf_counter()
        answers.append(ask(q))
        spent.append(1000 * (time.perf_counter() - started))
    return answers, statistics.median(spent)


def own_memory() -> float:
    """Gigabytes that belong to this process alone; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {
        "items": 250_000, "elements": 4, "width": 128, "queries": 200, "exact": 60, "topics": 2000, "lists": 0,
        "seed": 0,
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument(
        "--item-spread", type=float, default=0.7, help="norm of an item's deviation from its topic, of norm 1"
    )
    parser.add_argument(
        "--element-spread", type=float, default=0.7, help="norm of an element's deviation from its item"
    )
    parser.add_argument(
        "--noise", type=float, default=0.7, help="norm of a query's deviation from its item's elements, of norm 1"
    )
    parser.add_argument("--codes", default="uint8")
    parser.add_argument(
        "--folder", default=None, help="where the galleries are written (default: the system's temporary folder)"
    )
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--engine", choices=("faiss", "qdrant"), help="one engine (default: both)")
    parser.add_argument("--case", choices=CASES, help="one gallery, in this process")
    args = parser.parse_args()
    if args.exact > args.queries:
        parser.error(f"--exact {args.exact} of --queries {args.queries}: give at least as many queries as are timed")
    if args.case:
        return measure(args.case, args)
    print(f"{args.items:,} items × {args.elements} elements × {args.width}, {args.exact} queries timed; medians\n")
    head = (
        "gallery",
        "engine",
        "per element",
        "probes",
        "recall@10",
        "recall@1",
        "exact ms",
        "two-stage ms",
        "write + build s",
        "open s",
        "files MB",
        "peak, own GB",
    )
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for case in CASES:
        for engine in [args.engine] if args.engine else ("faiss", "qdrant"):
            command = [sys.executable, __file__, *sys.argv[1:], "--engine", engine, "--case", case]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
