"""How long a similarity takes on random items of given sizes, beside the bare matrix product of the same elements."""

import math
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.evaluation.engine import MAX_ELEMENTS, score_blocks
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import method_spec, methods
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.chamfer import Chamfer, SmoothChamfer
from xmr_core.similarities.cosine import Cosine
from xmr_core.similarities.distances import GaussianDistance
from xmr_core.similarities.match_logit import MatchLogit
from xmr_core.similarities.match_probability import MatchProbability
from xmr_core.similarities.mil import MaxPairwise
from xmr_core.similarities.scan import Scan
from xmr_core.similarities.sgraf import Sgraf
from xmr_core.study.cost.flops import Shape

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


def scene(method: str, shape: Shape, n_images: int, n_captions: int, device="cpu", seed: int = 0, **options) -> Scene:
    """Random unit vectors of the kind that a method compares, all of full length: no padding.

    Trained weights or real images would take as long: no similarity takes a short cut that depends on values. method:
    of TIMED, or the id or address of any method, timed by the similarity that it builds with its options. Raises:
    BadInput for a method that is neither, or a modality without items.

    >>> scene("dive", Shape(d=8), 2, 3).similarity
    SmoothChamfer(alpha=16.0)
    """
    if min(n_images, n_captions) < 1:
        raise BadInput(f"there must be at least one image and one caption, got {n_images} and {n_captions}.")
    torch.manual_seed(seed)
    similarity, s = _similarity(method, shape, options).to(device).eval(), shape
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


def _similarity(method: str, shape: Shape, options: dict) -> Similarity:
    if method in TIMED:
        return TIMED[method](shape)
    if ":" not in method and method not in methods():
        raise unknown("method to time", method, [*TIMED, *methods()])
    return (
        method_spec(method).build(Inputs(image_width=8, cells=4, vocabulary=9), **{"d": shape.d} | options).similarity
    )


def measure(made: Scene, what: str = "all pairs", budget: float = 1.0, stood: float | None = None) -> Timing:
    """Time a scoring and the bare product in turn, so that a busy machine slows both.

    what: 'all pairs' scores every image with every caption, block by block, and stores nothing; 'one query' scores one
    image, another each time, with all captions and selects its ten best; 'top 10' scores all pairs and selects the ten
    best of every image and of every caption. budget: seconds to spend on repetitions of the scoring, 3 to 30 of them;
    the first run warms up and gives the memory. What takes longer than 20 s is run once. stood: peak memory before,
    GiB; now if None. Raises: BadInput for another `what`, or a budget that is not positive.
    """
    if what not in WHATS:
        raise unknown("thing to time", what, WHATS)
    if not budget > 0:
        raise BadInput(f"the budget of a measurement must be positive seconds, got {budget}.")
    act = {"all pairs": _all_pairs, "one query": _one_query, "top 10": _top_10}[what]
    rows, columns = made.elements
    if what == "one query":
        rows = rows[: len(rows) // len(made.images)]
    device = columns.device
    with torch.inference_mode():
        before = peak_memory(device) if stood is None else stood
        first = _clock(partial(act, made, 0), device)
        grown = peak_memory(device) - before
        once = first > LONG
        wanted = 1 if once else min(MOST, max(LEAST, math.ceil(budget / max(first, 1e-9))))
        scored, bare = [first] if once else [], []
        if not once:
            _clock(partial(_product, rows, columns), device)  # warms up
        for n in range(wanted):
            bare.append(_clock(partial(_product, rows, columns), device))
            if not once:
                scored.append(_clock(partial(act, made, n + 1), device))
    return Timing(statistics.median(scored), statistics.median(bare), grown, wanted)


def _unit(*sizes: int) -> Tensor:
    return (x := torch.randn(*sizes)).div_(torch.linalg.vector_norm(x, dim=-1, keepdim=True))  # rows, no second array


def _gaussian(n: int, s: Shape) -> GaussianEmbedding:
    mean, log_std = _unit(n, s.d), torch.randn(n, s.d).mul_(0.1).sub_(3.0)
    samples = torch.randn(n, s.samples, s.d)  # in place from here: freed memory would hide what scoring takes
    return GaussianEmbedding(mean, log_std, samples.mul_(log_std.exp()[:, None]).add_(mean[:, None]))


def _all_pairs(made: Scene, _: int) -> None:
    for _block in score_blocks(made.similarity, made.images, made.captions):
        pass


def _one_query(made: Scene, n: int) -> None:
    blocks = [scores for *_, scores in score_blocks(made.similarity, made.images[n % len(made.images)], made.captions)]
    _best(torch.cat(blocks, 1))


def _top_10(made: Scene, _: int) -> None:
    scores = torch.empty(len(made.images), len(made.captions), device=made.elements[0].device)
    for rows, columns, block in score_blocks(made.similarity, made.images, made.captions):
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
