"""The variants of a method of the protocol, and the curve over a setting that a paper sweeps."""

from collections.abc import Sequence

import pandas as pd

from xmr_core.study.decision_rows import deciding
from xmr_core.study.method_results import mean_interval, method_results, seed_values
from xmr_core.study.protocol import SEEDS, canonical, variants


def variant_results(rows: pd.DataFrame, method: str, curves: pd.DataFrame | None = None) -> pd.DataFrame:
    """`method_results` of every variant of a method that has rows on the worlds of scenes that decide. rows: of
    decision_rows.protocol_rows."""
    names = [name for name, (its_method, _) in variants().items() if its_method == method and canonical()[name] == name]
    return method_results(deciding(rows[rows["dataset"] == "scenes"]), names, curves)


def swept(rows: pd.DataFrame, symbol: str, settings: Sequence[float]) -> pd.DataFrame:
    """RSUM of every seed at every value of a setting: columns setting, seed, rsum, low, high (of the mean over the
    seeds, 95 %). Only seeds that all values with SEEDS runs have; values with fewer runs are left out.

    rows: of decision_rows.protocol_rows. symbol: of the labels, such as 'α' of 'α=16'.

    >>> swept(pd.DataFrame(columns=["variant", "dataset", "world"]), "α", (1, 16)).empty
    True
    """
    values = seed_values(deciding(rows[rows["dataset"] == "scenes"])) if len(rows) else {}
    own = {x: values[f"{symbol}={x:g}"] for x in settings if len(values.get(f"{symbol}={x:g}", ())) >= SEEDS}
    common = sorted(set.intersection(*(set(table.index) for table in own.values()))) if own else []
    lines = []
    for x, table in own.items():
        _, low, high = mean_interval(table.loc[common])
        lines += [(x, seed, float(table.loc[seed, "value"]), low, high) for seed in common]
    return pd.DataFrame(lines, columns=["setting", "seed", "rsum", "low", "high"])
