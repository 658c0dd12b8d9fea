"""What a varied setting does to a method of the protocol: every variant beside the one control, paired by seed, and the
curve over a setting that a paper sweeps."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import t as student

from xmr_core.study.claims_data.claim import RSUM, Claim
from xmr_core.study.comparisons import comparisons, values_of
from xmr_core.study.decision_rows import deciding
from xmr_core.study.image_values import ImageValues
from xmr_core.study.method_results import mean_interval
from xmr_core.study.protocol import SEEDS, canonical, variants

COLUMNS = ["label", "seeds", "rsum", "rsum low", "rsum high", "difference", "low", "high", "epochs"]


def beside_control(
    rows: pd.DataFrame, method: str = "dive", control: str = "DivE", images: ImageValues | None = None
) -> pd.DataFrame:
    """One line for each other variant of a method that has rows on the worlds that decide, the best first; COLUMNS.

    rsum: mean over the variant's seeds with its interval (method_results.mean_interval). difference: variant minus
    control over the seeds that both have, with a 95 % interval that carries seeds and test images as a comparison of a
    claim does, but is not corrected for how many there are; NaN with one seed. images: of the runs' test images.
    rows: of decision_rows.protocol_rows.

    >>> beside_control(pd.DataFrame(columns=["variant", "dataset", "world"])).empty
    True
    """
    values = _values(rows)
    if not values:
        return pd.DataFrame(columns=COLUMNS)
    epochs = rows[rows["dataset"] == "scenes"].groupby("variant")["epochs"].max()
    lines = []
    for label, (spec, _) in variants().items():
        if spec != method or canonical()[label] != label or label == control or label not in values:
            continue
        mean, low, high = mean_interval(values[label])
        line = {"label": label, "seeds": len(values[label]), "rsum": mean, "rsum low": low, "rsum high": high}
        for c in comparisons(Claim("beside", "ours", "–", (label,), (control,)), values, images):
            half = student.ppf(0.975, c.degrees) * c.error if c.seeds > 1 else np.nan
            line |= {"difference": c.effect, "low": c.effect - half, "high": c.effect + half}
        lines.append(line | {"epochs": int(epochs[label])})
    return pd.DataFrame(lines, columns=COLUMNS).sort_values("rsum", ascending=False, ignore_index=True)


def swept(rows: pd.DataFrame, symbol: str, settings: Sequence[float]) -> pd.DataFrame:
    """RSUM of every seed at every value of a setting: columns setting, seed, rsum, low, high (of the mean over the
    seeds, 95 %). Only seeds that all values with SEEDS runs have; values with fewer runs are left out.

    rows: of decision_rows.protocol_rows. symbol: of the labels, such as 'α' of 'α=16'.

    >>> swept(pd.DataFrame(columns=["variant", "dataset", "world"]), "α", (1, 16)).empty
    True
    """
    values = _values(rows)
    own = {x: values[f"{symbol}={x:g}"] for x in settings if len(values.get(f"{symbol}={x:g}", ())) >= SEEDS}
    common = sorted(set.intersection(*(set(table.index) for table in own.values()))) if own else []
    lines = []
    for x, table in own.items():
        _, low, high = mean_interval(table.loc[common])
        lines += [(x, seed, float(table.loc[seed, "value"]), low, high) for seed in common]
    return pd.DataFrame(lines, columns=["setting", "seed", "rsum", "low", "high"])


def swept_sentence(table: pd.DataFrame, symbol: str, paper: float, what: str) -> str:
    """The curve of `swept` in one sentence; '' unless the paper's value and two others are there.

    >>> points = [(1, 0, 420.0), (16, 0, 480.0), (64, 0, 485.0)]
    >>> table = pd.DataFrame(points, columns=["setting", "seed", "rsum"])
    >>> swept_sentence(table, "α", 16, "the scale of smooth-Chamfer")
    "DivE's RSUM over α, the scale of smooth-Chamfer (1 seed): 420.0 at 1, 480.0 at 16 (the paper's), 485.0 at 64."
    """
    means = table.groupby("setting")["rsum"].mean()
    if len(means) < 3 or paper not in means:
        return ""
    said = [f"{v:.1f} at {x:g}" + " (the paper's)" * (x == paper) for x, v in means.items()]
    seeds = table["seed"].nunique()
    return f"DivE's RSUM over {symbol}, {what} ({seeds} seed{'s' * (seeds > 1)}): {', '.join(said)}."


def _values(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Label → annotated RSUM by seed, of the worlds of scenes that decide."""
    own = deciding(rows[rows["dataset"] == "scenes"]) if len(rows) else rows
    return next(iter(values_of(own, RSUM).values()), {}) if len(own) else {}
