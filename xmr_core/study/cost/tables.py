"""What measured rows say: how time grows with size, how near each method comes to the bare product, and beside a paper's print."""

import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.study.cost.exponent import LEAST_SIZES, fit_exponent
from xmr_core.study.cost.flops import Shape, implied_words, table


def exponents(rows: pd.DataFrame, what: str = "all pairs") -> pd.DataFrame:
    """How the time of each method grows with each size: columns method, varied, sizes (how many), exponent, low, high (95 %), and counted, the
    exponent of the multiply–adds over the same sizes (of a gallery: 1). Methods with fewer than 3 sizes are left out."""
    out = []
    for (method, varied), part in rows[rows["what"] == what].groupby(["method", "varied"], sort=False):
        if part["value"].nunique() < LEAST_SIZES:
            continue
        time = fit_exponent(part["value"], part["seconds"])
        counted = fit_exponent(part["value"], part["multiply_adds"] * part["pictures"] * part["captions"])
        out.append((method, varied, len(part), time.value, time.low, time.high, counted.value))
    return pd.DataFrame(out, columns=["method", "varied", "sizes", "exponent", "low", "high", "counted"])


def speeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Every method at its largest gallery: columns method, captions, multiply-adds (of a pair), ns per pair, × cosine counted, × cosine timed,
    × product (scoring over the bare product of the same elements), ms a query, queries per second (one at a time), extra GiB (of scoring blockwise).

    Raises: BadInput when no gallery size was measured for the cosine.
    """
    mine = rows[rows["varied"] == "captions"]
    mine = mine.loc[mine.groupby(["what", "method"], sort=False)["value"].idxmax()]
    every, one = (mine[mine["what"] == what].set_index("method") for what in ("all pairs", "one query"))
    if "cosine" not in every.index:
        raise BadInput(
            "there is no row of the cosine over gallery sizes to compare with. Make one: python benchmarks/cost.py --method cosine."
        )
    pair = every["seconds"] / every["pictures"] / every["captions"]
    out = pd.DataFrame(
        {
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
    )
    return out.loc[every.index].reset_index()


def beside_print(rows: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """The paper's comparison: columns similarity, method, printed ms, printed ratio, our ms, our ratio, × product, pairs.

    printed: columns similarity, method, milliseconds, its first row the unit of both ratios. Methods that were not measured are left out.
    """
    mine = rows[rows["varied"] == "paper"].set_index("method")
    both = printed[printed["similarity"].isin(mine.index)].reset_index(drop=True)
    seconds = mine["seconds"].reindex(both["similarity"]).to_numpy()
    return pd.DataFrame(
        {
            "similarity": both["similarity"],
            "method": both["method"],
            "printed ms": both["milliseconds"],
            "printed ratio": both["milliseconds"] / both["milliseconds"].iloc[:1].sum(),
            "our ms": 1e3 * seconds,
            "our ratio": seconds / seconds[:1].sum(),
            "× product": mine["ratio"].reindex(both["similarity"]).to_numpy(),
            "pairs": (mine["pictures"] * mine["captions"]).reindex(both["similarity"]).to_numpy(),
        }
    )


def verdicts(printed: pd.DataFrame, shape: Shape | None = None) -> pd.DataFrame:
    """Whether DivE's printed costs follow from the formulas, and from each other: columns figure, printed, least, most, verdict.

    least, most: what the formulas give for it; a ratio of printed figures ranges over what these were rounded from. A figure follows if the two
    ranges meet, its own being half a unit of its last digit but zeros. No length of a caption is printed, so the cost of SCAN alone is open: the
    verdict says which mean length would give it. printed: published.dive_cost(). Source: DivE, §4.4 and App. B.1.
    """
    s = shape or Shape()
    counted = table(s).set_index("similarity")["authors"]
    cost, relative = (printed.set_index("similarity")[column] for column in ("multiply-adds", "relative cost"))
    vse, dive = counted["cosine"], counted["smooth-Chamfer"]
    low, high = cost["SCAN t2i"] - 5_000, cost["SCAN t2i"] + 5_000  # printed as 1.24M
    lines = [  # figure, printed, half a unit of it, least, most
        ("DivE, a pair", cost["smooth-Chamfer"], 50, dive, dive),
        ("DivE : VSE", relative["smooth-Chamfer"], 0.5, dive / vse, dive / vse),
        ("SCAN, a pair", cost["SCAN t2i"], None, counted["SCAN t2i"], counted["SCAN t2i"]),
        ("SCAN : DivE", relative["SCAN t2i"] / relative["smooth-Chamfer"], 5, low / dive, high / dive),
        ("SCAN : VSE", relative["SCAN t2i"], 5, low / vse, high / vse),
    ]
    words = f"open: captions of {implied_words(low, s):.1f} to {implied_words(high, s):.1f} words would give it"
    told = []
    for figure, said, half, least, most in lines:
        follows = half is not None and least <= said + half and most >= said - half
        told.append((figure, said, least, most, words if half is None else "follows" if follows else "does not follow"))
    return pd.DataFrame(told, columns=["figure", "printed", "least", "most", "verdict"])
