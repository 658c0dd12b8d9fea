"""What one method gains over another in R-Precision, and whether these queries and seeds can tell."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.analysis.both_directions import gain_rows
from xmr_core.evaluation.stats import seed_interval

COLUMNS = ["method", "than", "gain", "low", "high"]


def precision_gains(
    pairs: Sequence[tuple[str, str]],
    tables: Mapping[str, Sequence[pd.DataFrame]],
    relevance: str = "annotated",
    level: float = 0.95,
) -> pd.DataFrame:
    """Points of R-Precision, the mean of both directions, that a method has more than another, for every pair of names.

    The intervals hold together at `level`: each of m pairs has 1 − (1 − level)/m. With one run for each name they are
    over test images, with which queries are paired; with several they are over seeds, paired in order.

    Args: pairs: (method, than). tables: name → per_query of its run for each seed.
    Returns: columns method, than, gain, low, high, in percent, in the order of the pairs; pairs with a name that has no
        table are left out. Raises: BadInput for other numbers of runs in a pair.

    >>> def table(values):
    ...     lines = {"relevance": "annotated", "direction": ["i2t"] * 4 + ["t2i"] * 4, "query": [*range(4)] * 2}
    ...     return pd.DataFrame(lines | {"image": [*range(4)] * 2, "r_precision": values * 2})
    >>> tables = {"sets": [table([1.0, 1.0, 0.0, 1.0])], "one": [table([0.0, 1.0, 0.0, 1.0])]}
    >>> precision_gains([("sets", "one")], tables).round(1).values.tolist()
    [['sets', 'one', 25.0, -24.0, 74.0]]
    """
    pairs = [pair for pair in pairs if all(map(tables.get, pair))]
    part = 1 - (1 - level) / max(len(pairs), 1)
    rows = [(one, other, *_gain(tables[one], tables[other], relevance, part)) for one, other in pairs]
    return pd.DataFrame(rows, columns=COLUMNS)


def decided_gains(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of precision_gains whose interval leaves out 0.

    >>> table = pd.DataFrame([("a", "b", 2.0, 1.0, 3.0), ("c", "b", 0.5, -1.0, 2.0)], columns=COLUMNS)
    >>> decided_gains(table)["method"].tolist()
    ['a']
    """
    return table[(table["low"] > 0) | (table["high"] < 0)]


def gains_in_words(table: pd.DataFrame) -> str:
    """Whether methods differ: 'Yes' with every gain of precision_gains that is decided; 'Cannot be told here' with the
    largest, where none is.

    >>> table = pd.DataFrame([("a", "b", 2.0, 1.0, 3.0), ("c", "b", -0.5, -2.0, 1.0)], columns=COLUMNS)
    >>> gains_in_words(table)
    'Yes: “a” has 2.0 points more than “b” [1.0, 3.0]'
    >>> gains_in_words(table.iloc[1:])
    'Cannot be told here: the largest difference is that “c” has 0.5 points less than “b” [-2.0, 1.0]'
    >>> gains_in_words(table.iloc[:0])
    'Not trained here'
    """
    if table.empty:
        return "Not trained here"
    sure = decided_gains(table)
    if len(sure):
        return "Yes: " + "; ".join(map(_words, sure.to_dict("records")))
    largest = table.loc[table["gain"].abs().idxmax()]
    return f"Cannot be told here: the largest difference is that {_words(largest)}"


def _words(row: Mapping) -> str:
    more = "more" if row["gain"] >= 0 else "less"
    interval = "(no interval)" if np.isnan(row["low"]) else f"[{row['low']:.1f}, {row['high']:.1f}]"
    return f"“{row['method']}” has {abs(row['gain']):.1f} points {more} than “{row['than']}” {interval}"


def _gain(
    one: Sequence[pd.DataFrame], other: Sequence[pd.DataFrame], relevance: str, level: float
) -> tuple[float, float, float]:
    if len(one) != len(other):
        raise BadInput(f"both methods of a pair need one run for each seed, got {len(one)} and {len(other)}.")
    gains, errors = [], []
    for better, than in zip(one, other, strict=True):
        own = (t[t["relevance"] == relevance] for t in (better, than))
        value = gain_rows(*own, "gain").set_index("metric")["value"].mul(100)
        gains.append(value["gain"])
        errors.append(value["gain_error"])
    if len(gains) > 1:
        return seed_interval(gains, level)
    from scipy.special import ndtri  # takes a tenth of the time of torch to import

    half = float(ndtri((1 + level) / 2)) * errors[0]
    return gains[0], gains[0] - half, gains[0] + half
