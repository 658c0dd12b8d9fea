"""What scoring costs: seconds and memory of every similarity over gallery size, set size, width and words, and DivE's
comparison of three, into reports/cost.csv.

    python benchmarks/cost.py [--method SAF …] [--device cpu] [--seconds 1] [--rows reports/cost.csv] [--tiny]

Each similarity takes random items of given sizes, beside the bare matrix product of the same elements. Each case runs
in a process of its own, so that its peak memory is its own, and its rows are added at once, to those that are there.
Leave the machine alone meanwhile. About ten minutes on two cores; --tiny takes seconds and says nothing about speed.
"""

import argparse
import math
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm.auto import tqdm

from xmr_core.base import files
from xmr_core.base.errors import unknown
from xmr_core.base.machine import commit, environment, processor
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.evaluation.ranks import MAX_ELEMENTS, Scoring
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import method_spec
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.gaussian import GaussianDistance, MatchLogit
from xmr_core.similarities.scan import Scan
from xmr_core.similarities.sets import Chamfer, MatchProbability, MaxPairwise, SmoothChamfer
from xmr_core.similarities.sgraf import Sgraf
from xmr_core.similarities.vectors import Cosine
from xmr_study.cost import COLUMNS, Shape, count, read

ROWS = Path(__file__).resolve().parents[1] / "reports" / "cost.csv"
_FEWER = {"tokens": 16, "graphs": 4}  # images: a pair of tokens costs a thousand times as much as a pair of vectors
TIMED: dict[str, Callable[[Shape], Similarity]] = {  # method → its similarity, which says what its items are
    "cosine": lambda s: Cosine(),
    "smooth-Chamfer": lambda s: SmoothChamfer(),
    "Chamfer": lambda s: Chamfer(),
    "MIL": lambda s: MaxPairwise(),
    "MP": lambda s: MatchProbability(),
    "match probability": lambda s: MatchLogit(),
    "2-Wasserstein": lambda s: GaussianDistance("2-Wasserstein"),
    "ELK": lambda s: GaussianDistance("ELK"),
    "SCAN t-i": lambda s: Scan("t2i", 9.0, "lse", 6.0),
    "SCAN i-t": lambda s: Scan("i2t", 4.0, "lse", 5.0),
    "SAF": lambda s: Sgraf(s.d, "saf", s.m, s.steps),
    "SGR": lambda s: Sgraf(s.d, "sgr", s.m, s.steps),
}
WHATS = ("all pairs", "one query", "top 10")
LONG, LEAST, MOST = 20.0, 3, 30  # seconds: what takes longer is not repeated; repetitions of what does not


@dataclass(frozen=True)
class Scene:
    """A similarity and random items of the kind that it compares. elements: of each modality, as rows of one matrix,
    for the bare product."""

    similarity: Similarity
    images: Representation
    captions: Representation
    elements: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Timing:
    """Medians. seconds: of the scoring. bare: of the matrix product. extra_gib: the peak memory of this process after
    the first scoring, above what stood before (0 in a process that had used more); on an accelerator, of its memory.
    times: repetitions."""

    seconds: float
    bare: float
    extra_gib: float
    times: int


def scene(method: str, shape: Shape, n_images: int, n_captions: int, device="cpu", seed: int = 0) -> Scene:
    """Random unit vectors of the kind that a method compares, all of full length: no padding.

    Trained weights or real images would take as long: no similarity takes a short cut that depends on values. method:
    of TIMED, or the id or address of any method, timed by the similarity that it builds. Raises: BadInput for a method
    that is neither.

    >>> scene("dive", Shape(d=8), 2, 3).similarity
    SmoothChamfer(alpha=16.0)
    """
    torch.manual_seed(seed)
    similarity, s = _similarity(method, shape).to(device).eval(), shape
    kind = similarity.compares
    first = int(kind == "graphs")  # row 0 of SGRAF's tokens is the global vector
    k, l = {"sets": (s.k, s.l), "samples": (s.samples,) * 2}.get(kind, (s.regions + first, s.words + first))
    if kind == "vectors":
        items = [Embedding(_unit(n, s.d).to(device)) for n in (n_images, n_captions)]
        elements = [r.x for r in items]
    elif kind in ("samples", "distributions"):
        items = [_gaussian(n, s).to(device) for n in (n_images, n_captions)]
        elements = [r.samples.flatten(0, 1) if kind == "samples" else torch.cat([r.mean, r.log_std], 1) for r in items]
    else:
        items = [
            EmbeddingSet(_unit(n, e, s.d), torch.ones(n, e, dtype=torch.bool)).to(device)
            for n, e in ((n_images, k), (n_captions, l))
        ]
        elements = [r.x[:, first:].flatten(0, 1) for r in items]  # without row 0 a copy, made before memory is read
    return Scene(similarity, *items, tuple(elements))


def _similarity(method: str, shape: Shape) -> Similarity:
    if method in TIMED:
        return TIMED[method](shape)
    return method_spec(method).build(Inputs(image_width=8, cells=4, vocabulary=9), d=shape.d).similarity


def measure(made: Scene, what: str = "all pairs", budget: float = 1.0, stood: float | None = None) -> Timing:
    """Time a scoring and the bare product in turn, so that a busy machine slows both.

    what: 'all pairs' scores every image with every caption, block by block, and stores nothing; 'one query' scores one
    image, another each time, with all captions and selects its ten best; 'top 10' scores all pairs and selects the ten
    best of every image and of every caption. budget: seconds to spend on repetitions of the scoring, 3 to 30 of them;
    the first run warms up and gives the memory. What takes longer than 20 s is run once. stood: peak memory before,
    GiB; now if None. Raises: BadInput for another `what`.
    """
    if what not in WHATS:
        raise unknown("thing to time", what, WHATS)
    act = partial({"all pairs": _all_pairs, "one query": _one_query, "top 10": _top_10}[what], made)
    rows, columns = made.elements
    if what == "one query":
        rows = rows[: len(rows) // len(made.images)]
    device = columns.device
    with torch.inference_mode():
        before = peak_memory(device) if stood is None else stood
        first = _clock(partial(act, 0), device)
        grown = peak_memory(device) - before
        bare = [_clock(partial(_product, rows, columns), device)]  # warms up
        if first > LONG:
            return Timing(first, bare[0], grown, 1)
        scored, wanted = [], min(MOST, max(LEAST, math.ceil(budget / max(first, 1e-9))))
        for n in range(wanted):
            bare.append(_clock(partial(_product, rows, columns), device))
            scored.append(_clock(partial(act, n + 1), device))
    return Timing(statistics.median(scored), statistics.median(bare[1:]), grown, wanted)


def _unit(*sizes: int) -> Tensor:
    return (x := torch.randn(*sizes)).div_(torch.linalg.vector_norm(x, dim=-1, keepdim=True))  # rows, no second array


def _gaussian(n: int, s: Shape) -> GaussianEmbedding:
    mean, log_std = _unit(n, s.d), torch.randn(n, s.d).mul_(0.1).sub_(3.0)
    samples = torch.randn(n, s.samples, s.d)  # in place from here: freed memory would hide what scoring takes
    return GaussianEmbedding(mean, log_std, samples.mul_(log_std.exp()[:, None]).add_(mean[:, None]))


def _blocks(made: Scene, images) -> Iterator[tuple]:
    scores = Scoring(made.similarity, images, made.captions)
    return ((rows, columns, scores.block(rows, columns)) for rows, columns in scores.plan())


def _all_pairs(made: Scene, _: int) -> None:
    for _block in _blocks(made, made.images):
        pass


def _one_query(made: Scene, n: int) -> None:
    blocks = [scores for *_, scores in _blocks(made, made.images[n % len(made.images)])]
    _best(torch.cat(blocks, 1))


def _top_10(made: Scene, _: int) -> None:
    scores = torch.empty(len(made.images), len(made.captions), device=made.elements[0].device)
    for rows, columns, block in _blocks(made, made.images):
        scores[rows, columns] = block
    _best(scores)
    _best(scores.T)


def _best(scores: Tensor) -> Tensor:
    return scores.topk(min(10, scores.shape[1]), dim=1).indices.cpu()


def _product(rows: Tensor, columns: Tensor) -> None:
    step = max(1, MAX_ELEMENTS // len(columns))
    for start in range(0, len(rows), step):
        F.linear(rows[start : start + step], columns)


def _clock(act: Callable[[], None], device: torch.device) -> float:
    started = time.perf_counter()
    act()
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()
    return time.perf_counter() - started


def peak_memory(device: torch.device | str = "cpu") -> float:
    """Highest memory of this process so far, GiB; on an accelerator, of its memory."""
    device = torch.device(device)
    if device.type != "cpu":
        return torch.get_device_module(device).max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)


@dataclass(frozen=True)
class Case:
    """One method at one size. varied: the size that a sweep varies, here `value` ('set size' is J for PCME), or 'paper'
    for the comparison of DivE, App. B.1. images, captions: how many are scored. whats: of WHATS."""

    method: str
    varied: str
    value: int
    shape: Shape
    images: int
    captions: int
    whats: tuple[str, ...] = ("one query", "all pairs")


def plan(methods: Iterable[str] = tuple(TIMED), tiny: bool = False) -> list[Case]:
    """All cases: gallery size, set size, width and words for each method that has them, and the paper's comparison of
    three.

    The paper's comparison has 1,000 images × 5,000 captions, the part of Flickr30K's validation split that the authors'
    code uses, and captions of 16 words, which DivE's cost of SCAN implies. tiny: small sizes of everything; all cases
    together then take a second or two.
    Raises: BadInput for a method that is not in TIMED.

    >>> {case.varied for case in plan(["cosine"], tiny=True)} == {"captions", "width", "paper"}
    True
    """
    base = Shape(d=32, m=8, regions=6, words=5) if tiny else Shape()
    images, captions = (4, 40) if tiny else (100, 1000)
    galleries, set_sizes = ((20, 40, 80), (1, 2, 4)) if tiny else ((250, 500, 1000, 2000, 4000), (1, 2, 4, 8, 16))
    widths, words = ((8, 16, 32), (4, 8, 16)) if tiny else ((64, 128, 256, 512, 1024), (8, 16, 32, 64))
    sizes, out, methods = (20, 100) if tiny else (1000, 5000), [], list(methods)
    for method in methods:
        if method not in TIMED:
            raise unknown("method to time", method, TIMED)
        kind = TIMED[method](Shape(d=8, m=8)).compares  # at a small size, because building a similarity costs memory
        n = min(images, _FEWER.get(kind, images))
        out += [Case(method, "captions", size, base, n, size) for size in galleries]
        if kind in ("sets", "samples"):
            out += [Case(method, "set size", k, replace(base, k=k, l=k, samples=k), n, captions) for k in set_sizes]
        out += [Case(method, "width", d, replace(base, d=d), n, captions) for d in widths]
        if kind in ("tokens", "graphs"):
            out += [Case(method, "words", w, replace(base, words=w), n, captions // 4) for w in words]
    compared = [m for m in ("cosine", "smooth-Chamfer", "SCAN t-i") if m in methods]
    return out + [Case(m, "paper", sizes[1], base, *sizes, whats=("top 10",)) for m in compared]


def run_case(case: Case, device: str = "cpu", budget: float = 1.0) -> list[dict]:
    """The rows of one case, measured in this process. budget: seconds for repetitions of each scoring.

    The memory is right only in a process of its own. The smaller scoring comes first, so that each raises the peak
    itself.
    """
    about, (revision, changed) = environment(device), commit()
    machine = f"{processor()}, {os.cpu_count()} cores" if device == "cpu" else about.device
    row = {name: getattr(case, name) for name in ("method", "varied", "value", "images", "captions")}
    row |= {"multiply_adds": count(case.method, case.shape), "machine": machine, "threads": torch.get_num_threads()}
    row |= {"torch": about.torch, "commit": revision + " (changed)" * changed}
    made = scene(case.method, case.shape, case.images, case.captions, device)
    rows, before = [], peak_memory(device)
    for what in case.whats:
        t = measure(made, what, budget, before)
        row |= {"seconds": t.seconds, "bare_seconds": t.bare, "ratio": t.seconds / t.bare, "extra_gib": t.extra_gib}
        rows.append(row | {"what": what, "date_utc": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})
    return rows


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=tuple(TIMED), action="append", help="only this method; may be repeated")
    parser.add_argument("--device", default="cpu", help="as torch names it")
    parser.add_argument("--seconds", type=float, default=1.0, help="to spend on repetitions of each case")
    parser.add_argument("--rows", type=Path, default=ROWS, help="the CSV file to add to")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try it")
    args = parser.parse_args(words)
    table = read(args.rows) if args.rows.exists() else pd.DataFrame(columns=list(COLUMNS))
    start = multiprocessing.get_context("spawn")
    for case in tqdm(plan(args.method or TIMED, args.tiny), disable=None):
        with ProcessPoolExecutor(1, mp_context=start) as pool:
            fresh = pd.DataFrame(pool.submit(run_case, case, args.device, args.seconds).result())
        table = pd.concat([table, fresh[list(COLUMNS)]]) if len(table) else fresh[list(COLUMNS)]
        files.write_atomic(args.rows, table.to_csv(index=False, float_format="%.4g"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
