"""What measured rows say: how time grows with size, how near each method comes to the bare matrix product, and how the
measurements compare with a paper's. rows: of sweeps.read, of one machine."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from xmr_core.base.errors import BadInput
from xmr_core.study.cost.flops import Shape, table

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
    line = stats.linregress(*np.log(points))
    half = stats.t.ppf((1 + level) / 2, points.shape[1] - 2) * line.stderr
    return Exponent(float(line.slope), float(line.slope - half), float(line.slope + half), float(line.intercept))


def exponents(rows: pd.DataFrame, what: str = "all pairs") -> pd.DataFrame:
    """How the time of each method grows with each size that was varied.

    Columns: method, varied, sizes (how many), exponent, low, high (95 %), counted (the exponent of the multiply–adds
    over the same sizes; 1 for the gallery). Methods with fewer than 3 sizes are left out. what: which of timing.WHATS.
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
    Raises: BadInput when no gallery size was measured for the cosine.
    """
    largest = rows[rows["varied"] == "captions"]
    largest = largest.loc[largest.groupby(["what", "method"], sort=False)["value"].idxmax()]
    every, one = (largest[largest["what"] == what].set_index("method") for what in ("all pairs", "one query"))
    if "cosine" not in every.index:
        raise BadInput("there is no row of the cosine to compare with: python benchmarks/cost.py --method cosine.")
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
