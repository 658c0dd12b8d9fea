"""Multiply–adds that one (image, caption) pair costs when a gallery is scored, as one formula for each similarity.

Counted are sums of products over the width of vectors (d, m) or over the elements of a set. One multiply–add counts as
one operation, as in DivE (§4.4), where K²D = 16,384 is printed as "16.4K FLOPs". Not counted are encoders and all else
that is computed once per item (norms, the Gram matrix of an image, sums of samples), and element-wise work such as
exponentials, maxima and the normalisation of attention. torch.utils.flop_counter, which sees matrix products alone and
what is computed once per item too, gives the same for vectors, sets and samples; what authors compute it cannot tell.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile, require_choice
from xmr_study.tidy import carried


@dataclass(frozen=True)
class Shape:
    """Sizes on which the cost of a pair depends; the defaults are the published ones.

    d: width of vectors. k, l: elements of the image's and the caption's set. regions, words: tokens of SCAN, SGRAF and
    their kin, with start and end marks among the words. m, steps: width of SGRAF's nodes, and its rounds of reasoning.
    samples: J of PCME.
    """

    d: int = 1024
    k: int = 4
    l: int = 4
    regions: int = 36
    words: int = 16
    m: int = 256
    steps: int = 3
    samples: int = 7


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
    require_choice("reasoner", reasoner, reading)
    return 2 * q * c * s.d + q * s.d + n * m * s.d + n * m + reading[reasoner]


def _roles(s: Shape, direction: str) -> tuple[int, int]:
    """(queries, contexts)."""
    require_choice("direction", direction, ("t2i", "i2t"))
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
    require_choice("method with a formula", method, FORMULAS)
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


# The table of measured costs: what benchmarks/cost.py writes.


_PLACE = ["machine", "threads", "torch"]
COLUMNS = (
    "what", "method", "varied", "value", "images", "captions", "seconds", "bare_seconds", "ratio", "extra_gib",
    "multiply_adds", *_PLACE, "commit", "date_utc",
)  # fmt: skip


def read(path: Path | str) -> pd.DataFrame:
    """The table in a file of benchmarks/cost.py. Raises: BadInput where there is none; DamagedFile when it is not such
    a table."""
    path = files.existing(path, "the table of measured costs")
    texts = dict.fromkeys(("what", "method", "varied", "machine", "torch", "commit", "date_utc"), str)
    try:
        rows = pd.read_csv(path, dtype=texts, keep_default_na=False)[list(COLUMNS)]
        whole = (rows[["seconds", "bare_seconds", "multiply_adds"]].astype(float) > 0).all(axis=None)
    except (ValueError, KeyError) as e:
        raise DamagedFile(f"{path} is not a table of costs ({e}). Make it again: python benchmarks/cost.py.") from None
    if not whole:
        raise DamagedFile(f"{path} has numbers that are not positive. Make it again: python benchmarks/cost.py.")
    return rows


def study_rows() -> pd.DataFrame:
    """The committed measurements, reports/cost.csv."""
    return read(carried("reports") / "cost.csv")


def of_one_machine(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the machine, threads and torch of the newest row."""
    newest = rows.iloc[rows["date_utc"].argmax()]
    return rows[(rows[_PLACE] == newest[_PLACE]).all(axis=1)].reset_index(drop=True)


# What measured rows say: how time grows with size, how near each method comes to the bare matrix product, and how
# the measurements compare with a paper's. rows: of `read`, of one machine.


LEAST_SIZES = 3


class Exponent(NamedTuple):
    """seconds ≈ e^shift · size^value; low and high bound value in 95 % of cases if the scatter about the line is
    normal."""

    value: float
    low: float
    high: float
    shift: float


def fit_exponent(sizes: Sequence[float], seconds: Sequence[float], level: float = 0.95) -> Exponent:
    """The slope of a straight line through log size and log seconds, with its Student interval.

    sizes, seconds: one of each per measurement; sizes may repeat. The exponent of time can be below that of the
    multiply–adds, because there is a fixed cost (starting a kernel) that matters for small sizes only.
    Raises: BadInput for fewer than 3 different sizes, or a value that is not positive and finite.

    >>> round(fit_exponent([1, 2, 4], [3.0, 12.0, 48.0]).value, 6)
    2.0
    """
    points = np.array([sizes, seconds], float)
    if not (np.isfinite(points) & (points > 0)).all() or np.unique(points[0]).size < LEAST_SIZES:
        raise BadInput(f"an exponent needs at least {LEAST_SIZES} different sizes, and positive, finite numbers.")
    from scipy import stats  # takes half as long to import as torch

    line = stats.linregress(*np.log(points))
    half = stats.t.ppf((1 + level) / 2, points.shape[1] - 2) * line.stderr
    return Exponent(float(line.slope), float(line.slope - half), float(line.slope + half), float(line.intercept))


def exponents(rows: pd.DataFrame, what: str = "all pairs") -> pd.DataFrame:
    """How the time of each method grows with each size that was varied.

    Columns: method, varied, sizes (how many), exponent, low, high (95 %), counted (the exponent of the multiply–adds
    over the same sizes; 1 for the gallery). Methods with fewer than 3 sizes are left out. what: which of WHATS.
    """
    out = []
    for (method, varied), part in rows[rows["what"] == what].groupby(["method", "varied"], sort=False):
        if part["value"].nunique() < LEAST_SIZES:
            continue
        time = fit_exponent(part["value"], part["seconds"])
        counted = fit_exponent(part["value"], part["multiply_adds"] * part["images"] * part["captions"])
        out.append((method, varied, len(part), time.value, time.low, time.high, counted.value))
    return pd.DataFrame(out, columns=["method", "varied", "sizes", "exponent", "low", "high", "counted"])


def speeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Every method at its largest gallery.

    Columns: method, captions, multiply-adds (of a pair), ns per pair, × cosine counted, × cosine timed, × product
    (scoring divided by the bare product of the same elements), ms a query, queries per second (one at a time), extra
    GiB (of scoring block by block).
    """
    largest = rows[rows["varied"] == "captions"]
    largest = largest.loc[largest.groupby(["what", "method"], sort=False)["value"].idxmax()]
    every, one = (largest[largest["what"] == what].set_index("method") for what in ("all pairs", "one query"))
    pair = every["seconds"] / every["images"] / every["captions"]
    columns = {
        "captions": every["captions"],
        "multiply-adds": every["multiply_adds"],
        "ns per pair": 1e9 * pair,
        "× cosine counted": every["multiply_adds"] / every.loc["cosine", "multiply_adds"],
        "× cosine timed": pair / pair["cosine"],
        "× product": every["ratio"],
        "ms a query": 1e3 * one["seconds"],
        "queries per second": 1 / one["seconds"],
        "extra GiB": every["extra_gib"],
    }
    return pd.DataFrame(columns).loc[every.index].reset_index()


def beside_print(rows: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """A paper's comparison beside ours: columns similarity, method, printed ms, printed ratio, our ms, our ratio,
    × product, pairs.

    printed: columns similarity, method, milliseconds; its first row is the unit of both ratios. Methods that were not
    measured are left out.
    """
    ours = rows[rows["varied"] == "paper"].set_index("method")
    shown = printed[printed["similarity"].isin(ours.index)].reset_index(drop=True)
    ours = ours.reindex(shown["similarity"]).reset_index(drop=True)
    times = {"printed": shown["milliseconds"], "our": 1e3 * ours["seconds"]}
    out = shown[["similarity", "method"]].copy()
    for whose, ms in times.items():
        out[f"{whose} ms"], out[f"{whose} ratio"] = ms, ms / ms[:1].sum()
    return out.assign(**{"× product": ours["ratio"], "pairs": ours["images"] * ours["captions"]})


def verdicts(printed: pd.DataFrame, shape: Shape | None = None) -> pd.DataFrame:
    """Whether DivE's printed costs follow from the formulas and from each other: columns figure, printed, least, most,
    verdict.

    least, most: the range that the formulas give; a ratio of printed figures has the range from which these were
    rounded. The range of a printed figure is half a unit of its last digit that is not zero. A figure follows if the
    two ranges overlap. The paper prints no caption length, so the cost of SCAN alone is open, and its verdict says
    which mean length would give it. printed: paper_tables.dive_cost(). Source: DivE, §4.4 and App. B.1.
    """
    s = shape or Shape()
    counted = table(s).set_index("similarity")["authors"]
    cost, relative = (printed.set_index("similarity")[column] for column in ("multiply-adds", "relative cost"))
    vse, dive, scan = (counted[name] for name in ("cosine", "smooth-Chamfer", "SCAN t-i"))
    low, high = cost["SCAN t-i"] - 5_000, cost["SCAN t-i"] + 5_000  # printed as 1.24M
    lines = [  # figure, printed, half a unit of it, least, most
        ("DivE, a pair", cost["smooth-Chamfer"], 50, dive, dive),
        ("DivE : VSE", relative["smooth-Chamfer"], 0.5, dive / vse, dive / vse),
        ("SCAN, a pair", cost["SCAN t-i"], None, scan, scan),
        ("SCAN : DivE", relative["SCAN t-i"] / relative["smooth-Chamfer"], 5, low / dive, high / dive),
        ("SCAN : VSE", relative["SCAN t-i"], 5, low / vse, high / vse),
    ]
    words = [c * s.words / scan for c in (low, high)]  # the count is proportional to them
    out = []
    for figure, value, half, least, most in lines:
        follows = half is not None and least <= value + half and most >= value - half
        word = f"open: captions of {words[0]:.1f} to {words[1]:.1f} words would give it"
        out.append((figure, value, least, most, word if half is None else "follows" if follows else "does not follow"))
    return pd.DataFrame(out, columns=["figure", "printed", "least", "most", "verdict"])
