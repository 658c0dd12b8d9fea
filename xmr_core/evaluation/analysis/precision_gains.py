"""What one method gains over another in R-Precision, and whether these queries and seeds can tell."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.stats import image_error, seed_interval

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


def _gain(
    one: Sequence[pd.DataFrame], other: Sequence[pd.DataFrame], relevance: str, level: float
) -> tuple[float, float, float]:
    if len(one) != len(other):
        raise BadInput(f"both methods of a pair need one run for each seed, got {len(one)} and {len(other)}.")
    gains = [_difference(*pair, relevance) for pair in zip(one, other, strict=True)]
    means = [sum(float(values.mean()) for values, _ in parts) for parts in gains]
    if len(means) > 1:
        return seed_interval(means, level)
    from scipy.special import ndtri  # takes a tenth of the time of torch to import

    half = float(ndtri((1 + level) / 2)) * image_error(gains[0])
    return means[0], means[0] - half, means[0] + half


def _difference(better: pd.DataFrame, than: pd.DataFrame, relevance: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each direction half of what each query gains in percent, and its image: the sum of means is the gain."""
    own = (table[table["relevance"] == relevance] for table in (than, better))
    paired = pd.merge(*own, on=["direction", "query"], suffixes=("", " of better"), validate="one_to_one")
    gain = 50 * (paired["r_precision of better"] - paired["r_precision"])
    return [(gain[part.index].to_numpy(float), part["image"].to_numpy()) for _, part in paired.groupby("direction")]
