"""Multiply–adds that one (image, caption) pair costs when a gallery is scored, as one formula for each similarity.

Counted are sums of products over the width of vectors (d, m) or over the elements of a set. One multiply–add counts as
one operation, as in DivE (§4.4), where K²D = 16,384 is printed as "16.4K FLOPs". Not counted are encoders and all else
that is computed once per item (norms, the Gram matrix of an image, sums of samples), and element-wise work such as
exponentials, maxima and the normalisation of attention. torch.utils.flop_counter, which sees matrix products alone and
what is computed once per item too, gives the same for vectors, sets and samples; what authors compute it cannot tell.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial

import pandas as pd

from xmr_core.base.errors import BadInput, unknown


@dataclass(frozen=True)
class Shape:
    """Sizes on which the cost of a pair depends; the defaults are the published ones.

    d: width of vectors. k, l: elements of the image's and the caption's set. regions, words: tokens of SCAN, SGRAF and
    their kin, with start and end marks among the words. m, steps: width of SGRAF's nodes, and its rounds of reasoning.
    samples: J of PCME.
    Raises: BadInput for a size below 1.
    """

    d: int = 1024
    k: int = 4
    l: int = 4
    regions: int = 36
    words: int = 16
    m: int = 256
    steps: int = 3
    samples: int = 7

    def __post_init__(self):
        if min(astuple(self)) < 1:
            raise BadInput(f"sizes of a shape must be at least 1, got {self}.")


def scan(s: Shape, direction: str = "t2i", authors: bool = False) -> int:
    """Stacked cross attention: Q queries (words for t2i, regions for i2t) attend to C contexts (the others).

    As the authors compute it, 2·Q·C·D + 3·Q·D: affinity, attended vectors, and cosines whose three sums (the product
    and two norms) are taken for every pair. As computed here, Q·C·D + Q·C² + 2·Q·C: affinity; ‖attended‖² by the Gram
    matrix of the contexts; and attended · query from the affinities.
    Source: Lee et al., ECCV 2018, eq. 1–9; kuanghuei/SCAN, model.py (cosine_similarity, xattn_score_*).
    Raises: BadInput for an unknown direction.
    """
    q, c = _roles(s, direction)
    if authors:
        return 2 * q * c * s.d + 3 * q * s.d
    return q * c * s.d + q * c**2 + 2 * q * c


def sgraf(s: Shape, reasoner: str = "sgr", direction: str = "t2i", authors: bool = False) -> int:
    """A graph of n = Q + 1 similarity vectors per pair, and the module that turns it into a score.

    Nodes: affinity Q·C·D, attended vectors Q·C·D and their norms Q·D, W (a − y)² n·m·D, norms of nodes n·m.
    'saf': weights n·m, weighted sum n·m and its norm m. 'mean': the score of each node, n·m. 'joint': 'sgr' and 'saf'.
    'sgr', as defined: in each step three linear maps 3·n·m² and two products of nodes 2·n²·m. As computed here, the
    maps of queries and keys are one matrix, 2·n·m² + 2·n²·m, and the last step computes node 0 alone, 2·m² + 2·n·m.
    Each except 'mean' ends in a score, m.
    Source: Diao et al., AAAI 2021 (SGRAF), eq. 1–9. Raises: BadInput for an unknown reasoner or direction.
    """
    q, c = _roles(s, direction)
    n, m = q + 1, s.m
    full_step = (3 if authors else 2) * n * m**2 + 2 * n**2 * m
    last_step = full_step if authors else 2 * m**2 + 2 * n * m
    reading = {"saf": 2 * n * m + 2 * m, "sgr": (s.steps - 1) * full_step + last_step + m, "mean": n * m}
    reading["joint"] = reading["saf"] + reading["sgr"]
    if reasoner not in reading:
        raise unknown("reasoner", reasoner, reading)
    return 2 * q * c * s.d + q * s.d + n * m * s.d + n * m + reading[reasoner]


def _roles(s: Shape, direction: str) -> tuple[int, int]:
    """(queries, contexts)."""
    if direction not in ("t2i", "i2t"):
        raise unknown("direction", direction, ("t2i", "i2t"))
    return (s.words, s.regions) if direction == "t2i" else (s.regions, s.words)


@dataclass(frozen=True)
class Formula:
    """How a similarity is counted. used_by: methods. terms: the formula in symbols. ours: as computed here. authors: as
    the authors compute or define it, where that differs."""

    used_by: str
    terms: str
    ours: Callable[[Shape], int]
    authors: Callable[[Shape], int] | None = None


def _both(used_by: str, terms: str, function: Callable, how: str) -> Formula:
    return Formula(used_by, terms, lambda s: function(s, how), lambda s: function(s, how, authors=True))


_NODES = "(2·N + 1)·L·D + n·m·D + n·m"
_STEPS = "(T − 1)·(2·n·m² + 2·n²·m) + 2·m² + 2·n·m"
_VECTORS, _GAUSSIAN = (lambda s: s.d), "PCME at test time"
_SETS = partial(Formula, terms="K²·D", ours=lambda s: s.k * s.l * s.d)
_SAMPLES = partial(Formula, terms="J²·D", ours=lambda s: s.samples**2 * s.d)
_TOKENS = partial(Formula, terms="N·L·D", ours=lambda s: s.regions * s.words * s.d)
_TWO, _FOUR = Formula(_GAUSSIAN, "2·D", lambda s: 2 * s.d), Formula(_GAUSSIAN, "4·D", lambda s: 4 * s.d)
FORMULAS: dict[str, Formula] = {
    "cosine": Formula("VSE++, VSE∞, VSE+2AD", "D", _VECTORS),
    "order": Formula("VSE++ (option)", "D", _VECTORS),
    "smooth-Chamfer": _SETS("DivE"),
    "Chamfer": _SETS("DivE (ablation)"),
    "MIL": _SETS("PVSE"),
    "MP": _SETS("DivE (ablation)"),
    "Euclidean smooth-Chamfer": _SETS("DivE (option)"),
    "match probability": _SAMPLES("PCME"),
    "average L2": _SAMPLES(_GAUSSIAN),
    **dict.fromkeys(("matmul", "mean only", "min", "max"), Formula(_GAUSSIAN, "D", _VECTORS)),
    **dict.fromkeys(("2-Wasserstein", "ELK", "Bhattacharyya", "KL", "KL (official)"), _TWO),
    **dict.fromkeys(("reverse KL", "reverse KL (official)"), _TWO),
    **dict.fromkeys(("JS", "JS (official)"), _FOUR),
    "CSD": Formula("PCME++", "D", _VECTORS),
    "sum–max": _TOKENS("MaxSim, SCAN (ablation)"),
    "CHAN": _TOKENS("CHAN"),
    "SCAN t-i": _both("SCAN", "N·L·D + L·N² + 2·N·L", scan, "t2i"),
    "SCAN i-t": _both("SCAN", "N·L·D + N·L² + 2·N·L", scan, "i2t"),
    "average": _both("SGRAF (ablation)", f"{_NODES} + n·m", sgraf, "mean"),
    "SAF": _both("SGRAF", f"{_NODES} + 2·n·m + 2·m", sgraf, "saf"),
    "SGR": _both("SGRAF", f"{_NODES} + {_STEPS} + m", sgraf, "sgr"),
    "joint": _both("SGRAF (joint)", "nodes once, read by SAF and by SGR", sgraf, "joint"),
}


def count(method: str, shape: Shape) -> int:
    """Multiply–adds of a pair as computed here. Raises: BadInput for a method without a formula.

    >>> count("smooth-Chamfer", Shape(d=1024, k=4, l=4))
    16384
    """
    if method not in FORMULAS:
        raise unknown("method with a formula", method, FORMULAS)
    return FORMULAS[method].ours(shape)


def table(shape: Shape | None = None) -> pd.DataFrame:
    """All formulas at one shape. Columns: similarity, used by, terms, multiply-adds (as computed here), authors (as
    they compute or define it), × cosine (the latter divided by D).

    >>> table().set_index("similarity")["× cosine"].to_dict()["smooth-Chamfer"]
    16.0
    """
    s = shape or Shape()
    rows = [(name, f.used_by, f.terms, f.ours(s), (f.authors or f.ours)(s)) for name, f in FORMULAS.items()]
    out = pd.DataFrame(rows, columns=["similarity", "used by", "terms", "multiply-adds", "authors"])
    return out.assign(**{"× cosine": out["authors"] / s.d})
