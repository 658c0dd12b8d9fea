"""What the rows of the protocol before say: budgets of epochs, and swept settings."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

from xmr_study import tidy
from xmr_study.protocol import canonical
from xmr_study.tidy import latest

FOLDER = tidy.carried("reports") / "protocol"
DECIDING, SEEDS = (1, 2), 5


def protocol_rows(folder: Path = FOLDER) -> pd.DataFrame:
    """All rows of its runs but those of tuning and of photographs, which are in the history."""
    return tidy.read(folder / "results.csv")


def ablation_rows(folder: Path = FOLDER) -> pd.DataFrame:
    """All rows for what varies DivE: its control is that of an AMD EPYC (third/), on which its variants were trained,
    and not that of the comparison, which has 6 points more by another processor's chance."""
    rows, control = protocol_rows(folder), protocol_rows(folder / "third")
    return pd.concat([rows[~rows["variant"].isin(control["variant"].unique())], control], ignore_index=True)


def deciding(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that compare methods, on the worlds on which nothing was chosen: the longest runs of every label, also
    under every other label that means the same run.

    >>> deciding(pd.DataFrame(columns=list(tidy.COLUMNS))).empty
    True
    """
    longest = rows["epochs"] == rows.groupby("variant")["epochs"].transform("max")
    named = [name for name in rows["variant"].unique() if {*name.split(" + ")} <= {*canonical()}]  # and ensembles
    own = rows[longest & rows["world"].astype(int).isin(DECIDING) & rows["variant"].isin(named)]
    aliases = [(label, first) for label, first in canonical().items() if label != first]
    more = [own[own["variant"] == first].assign(variant=label) for label, first in aliases]
    return pd.concat([own, *more], ignore_index=True)


def seed_values(rows: pd.DataFrame, relevance: str = "annotated") -> dict[str, pd.DataFrame]:
    """Variant → frame by seed of its RSUM in percent: value, error (of the choice of test images; NaN without one),
    world. rows: of one corpus."""
    own = latest(rows[(rows["relevance"] == relevance) & rows["metric"].isin(["rsum", "rsum_error"])])
    own = own.assign(value=100 * own["value"].astype(float), seed=own["seed"].astype(int))
    errors = own.loc[own["metric"] != "rsum", ["variant", "seed", "value"]].rename(columns={"value": "error"})
    table = own[own["metric"] == "rsum"].merge(errors, on=["variant", "seed"], how="left")
    by_variant = table.groupby("variant", sort=False)
    return {name: own.set_index("seed")[["value", "error", "world"]].sort_index() for name, own in by_variant}


def mean_interval(values: pd.DataFrame, level: float = 0.95) -> tuple[float, float, float]:
    """(mean over seeds, low, high) of one variant's values.

        half = t_{n−1} √(var(v) / n + mean_s e_s² / W)

    v: values of n seeds on W worlds, e: their standard errors for the choice of test images (NaN counts as none). With
    one seed the interval is that of the images alone, by the normal law; NaN where these have no error either.
    values: a frame with the columns value, error, world.

    >>> seeds = pd.DataFrame({"value": [3.0, 5.0, 4.0], "error": np.nan, "world": 0})
    >>> [round(v, 2) for v in mean_interval(seeds)]
    [4.0, 1.52, 6.48]
    """
    n, mean = len(values), float(values["value"].mean())
    images = float(values["error"].astype(float).fillna(0.0).pow(2).mean() / values["world"].nunique())
    if n > 1:
        half = student.ppf((1 + level) / 2, n - 1) * np.sqrt(values["value"].var(ddof=1) / n + images)
    else:
        half = student.ppf((1 + level) / 2, np.inf) * np.sqrt(images) if images else np.nan
    return mean, float(mean - half), float(mean + half)


def budget_points(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Annotated RSUM of a name on the worlds of scenes that decide after each budget of epochs, each a run of its own:
    label, epochs, seeds, rsum (mean). Only seeds that all budgets of a name have; a name with one budget is left out.
    rows: of protocol_rows.

    >>> budget_points(pd.DataFrame(columns=["variant", "world", "epochs"]), ["DivE"]).empty
    True
    """
    rows, lines = rows[rows["world"].astype(int).isin(DECIDING)], []
    for name in names:
        budgets = rows[rows["variant"] == name].groupby("epochs")
        values = {epochs: seed_values(own)[name]["value"] for epochs, own in budgets}
        common = sorted(set.intersection(*({*value.index} for value in values.values()))) if len(values) > 1 else []
        lines += [(name, n, len(common), value[common].mean()) for n, value in values.items() if common]
    return pd.DataFrame(lines, columns=["label", "epochs", "seeds", "rsum"])


def swept(rows: pd.DataFrame, symbol: str, settings: Sequence[float]) -> pd.DataFrame:
    """RSUM of every seed at every value of a setting: columns setting, seed, rsum, low, high (of the mean over the
    seeds, 95 %). Only seeds that all values with SEEDS runs have; values with fewer runs are left out.

    rows: of protocol_rows. symbol: of the labels, such as 'α' of 'α=16'.

    >>> swept(pd.DataFrame(columns=["variant", "world"]), "α", (1, 16)).empty
    True
    """
    values = seed_values(deciding(rows)) if len(rows) else {}
    own = {x: values[f"{symbol}={x:g}"] for x in settings if len(values.get(f"{symbol}={x:g}", ())) >= SEEDS}
    common = sorted(set.intersection(*(set(table.index) for table in own.values()))) if own else []
    lines = []
    for x, table in own.items():
        _, low, high = mean_interval(table.loc[common])
        lines += [(x, seed, float(table.loc[seed, "value"]), low, high) for seed in common]
    return pd.DataFrame(lines, columns=["setting", "seed", "rsum", "low", "high"], dtype=float)
