"""What every method reached and what it cost, from rows of results: quality with intervals that carry seeds, worlds and
pictures, beside seconds of training, parameters and milliseconds of scoring."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

from xmr_core.study.choices import chosen_trials
from xmr_core.study.claims_data.claim import RSUM, Measure
from xmr_core.study.comparisons import values_of
from xmr_core.study.convergence import convergence
from xmr_core.study.decision_rows import FOLDER, deciding, protocol_rows
from xmr_core.study.protocol import EPOCHS, LONGER, budget_label, labels

EXHAUSTIVE = Measure("RSUM exhaustive", "exhaustive", "both", "rsum", factor=100)
MEASURES = {"rsum": RSUM, "rsum exhaustive": EXHAUSTIVE}
COLUMNS = [
    "label", "seeds", "rsum", "rsum low", "rsum high", "rsum lowest", "rsum highest", "rsum exhaustive",
    "rsum exhaustive low", "rsum exhaustive high", "epochs", "best epoch", "converged", "gain", "trial",
    "train seconds", "parameters", "scoring ms",
]  # fmt: skip


def mean_interval(values: pd.DataFrame, level: float = 0.95) -> tuple[float, float, float]:
    """(mean over seeds, low, high) of one variant's values.

        half = t_{n−1} √(var(v) / n + mean_s e_s² / W)

    v: values of n seeds on W worlds, e: their standard errors for the choice of test images (NaN counts as none). With
    one seed the interval is that of the images alone, by the normal law; NaN where these have no error either.
    values: a frame of `comparisons.values_of`, with the columns value, error, world.

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


def method_results(
    rows: pd.DataFrame,
    names: Sequence[str],
    curves: pd.DataFrame | None = None,
    trials: Mapping[str, int] | None = None,
    scoring: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """One line per name that has rows, the best annotated RSUM first; COLUMNS.

    rows: of one corpus, of results.read. best epoch: mean over runs, counted from 1. converged, gain (what the last
    quarter of the epochs added, points): of study.convergence, empty without curves. trial: the one that tuning chose,
    0 where there was none. rsum low and high are the ends of the interval, lowest and highest those of the seeds. train
    seconds: median over runs. scoring: columns label, ms (1,000 images against 5,000 captions).

    >>> method_results(pd.DataFrame(columns=["variant"]), ["DivE"]).empty
    True
    """
    lines = []
    named = rows[rows["variant"].isin(names)] if len(rows) else rows
    own = {key: next(iter(values_of(named, measure).values()), {}) for key, measure in MEASURES.items() if len(named)}
    for name in names:
        if not own or name not in own["rsum"]:
            continue
        line: dict[str, object] = {"label": name, "seeds": len(own["rsum"][name])}
        for key, by_label in own.items():
            if name in by_label:
                line |= dict(zip((key, f"{key} low", f"{key} high"), mean_interval(by_label[name]), strict=True))
        seeds = own["rsum"][name]["value"]
        line |= {"rsum lowest": float(seeds.min()), "rsum highest": float(seeds.max())}
        runs = named[named["variant"] == name].drop_duplicates("run_id")
        epochs = int(runs["epochs"].astype(int).max())
        state = convergence(rows, curves, [name], epochs) if curves is not None else ()
        line |= {
            "epochs": epochs,
            "best epoch": float((runs["best_epoch"].astype(int) + 1).mean()),
            "converged": bool(state["converged"].iloc[0]) if len(state) else None,
            "gain": float(state["gain"].iloc[0]) if len(state) else float("nan"),
            "trial": (trials or {}).get(name, 0),
            "train seconds": float(runs["train_seconds"].astype(float).median()),
            "parameters": int(runs["parameters"].astype(int).median()),
        }
        lines.append(line)
    table = pd.DataFrame(lines).reindex(columns=COLUMNS)
    if scoring is not None and len(table):
        table["scoring ms"] = table["label"].map(scoring.set_index("label")["ms"])
    return table.sort_values("rsum", ascending=False, ignore_index=True) if len(table) else table


def protocol_results(dataset: str = "scenes", folder: Path = FOLDER) -> pd.DataFrame:
    """`method_results` of the protocol's own rows on one data set; no line where there are none yet.

    folder: holds results.csv with runs.csv, curves.csv, and scoring.csv where scoring was timed.

    >>> protocol_results("no such data set").empty
    True
    """
    every = protocol_rows(folder)
    rows = deciding(every)
    curves, scoring = (
        pd.read_csv(folder / name) if (folder / name).exists() else None for name in ("curves.csv", "scoring.csv")
    )
    return method_results(rows[rows["dataset"] == dataset], labels(), curves, chosen_trials(every), scoring)


def dominated(table: pd.DataFrame, cost: str, quality: str = "rsum") -> pd.Series:
    """Which lines another one makes needless: at least as good, at most as dear, and better in one of both. False where
    a number is missing.

    >>> dominated(pd.DataFrame({"rsum": [9.0, 8.0, 7.0], "ms": [5.0, 1.0, 2.0]}), "ms").tolist()
    [False, False, True]
    """
    value, price = table[quality].astype(float).to_numpy(), table[cost].astype(float).to_numpy()
    no_worse = (value[None] >= value[:, None]) & (price[None] <= price[:, None])
    better = (value[None] > value[:, None]) | (price[None] < price[:, None])
    return pd.Series((no_worse & better).any(axis=1), index=table.index)


def budget_points(rows: pd.DataFrame, names: Sequence[str], budgets: Sequence[int] = ()) -> pd.DataFrame:
    """Annotated RSUM of a name after each budget of epochs, each a run of its own: label, epochs, seeds, seconds
    (epochs times the median seconds of an epoch in the longest runs, for the others may come from another machine),
    rsum (mean), low, high (its lowest and its highest seed: of the two that a budget has, an interval of 95 % would be
    13 standard errors wide), by seed (its values, in the order of the seeds). Only seeds that all budgets of a name
    have; a name with one budget has no curve, and is left out.

    The rows of a budget are labelled "NAME, N epochs"; those without such an ending have their own number.

    >>> budget_points(pd.DataFrame(columns=["variant"]), ["DivE"]).empty
    True
    """
    columns = ["label", "epochs", "seeds", "seconds", "rsum", "low", "high", "by seed"]
    lines = []
    for name in names if len(rows) else ():
        allowed = [name, *(budget_label(name, n) for n in (*budgets, 8, 24, EPOCHS, LONGER))]
        part = rows[rows["variant"].isin(allowed)]
        if not len(part):
            continue
        by_budget = {}
        for epochs, group in part.groupby(part["epochs"].astype(int)):
            values = next(iter(values_of(group.assign(variant=name), RSUM).values()), {}).get(name)
            if values is not None:
                by_budget[epochs] = values, group
        if len(by_budget) < 2:
            continue
        common = set.intersection(*(set(values.index) for values, _ in by_budget.values()))
        longest = by_budget[max(by_budget)][1].drop_duplicates("run_id")
        pace = float((longest["train_seconds"].astype(float) / longest["epochs"].astype(int)).median())
        for epochs, (values, _) in by_budget.items():
            own = values[values.index.isin(common)]
            if len(own):
                value = own["value"].astype(float)
                each = tuple(value.sort_index())
                lines.append((name, epochs, len(own), epochs * pace, value.mean(), value.min(), value.max(), each))
    return pd.DataFrame(lines, columns=columns)


def at_equal_time(points: pd.DataFrame, reference: str = "VSE∞", epochs: int = EPOCHS) -> pd.DataFrame:
    """What each method reaches in the time that the reference takes for so many epochs: label, seeds, seconds, rsum,
    epochs (that this time buys), note; the best first. Empty without that run of the reference.

    Between two budgets of a curve, a straight line over the logarithm of seconds; beyond its last budget, the last
    value; before its first, none. points: of budget_points. Source: docs/protocol.md#protocol-cost.

    >>> line = {"seeds": 2, "low": 0.0, "high": 0.0}
    >>> points = pd.DataFrame([line | {"label": n, "epochs": e, "seconds": s, "rsum": v} for n, e, s, v in
    ...     [("VSE∞", 72, 100.0, 300.0), ("SGR", 8, 50.0, 200.0), ("SGR", 32, 200.0, 240.0)]])
    >>> at_equal_time(points)[["label", "rsum", "epochs"]].round(0).values.tolist()
    [['VSE∞', 300.0, 72.0], ['SGR', 220.0, 16.0]]
    """
    columns = ["label", "seeds", "seconds", "rsum", "epochs", "note"]
    unit = points[(points["label"] == reference) & (points["epochs"] == epochs)]
    if not len(unit):
        return pd.DataFrame(columns=columns)
    budget, lines = float(unit["seconds"].iloc[0]), []
    for label, own in points.groupby("label", sort=False):
        own, seeds = own.sort_values("seconds"), int(own["seeds"].min())
        seconds, values = np.log(own["seconds"].to_numpy(float)), own["rsum"].to_numpy(float)
        bought = float(np.exp(np.interp(np.log(budget), seconds, np.log(own["epochs"].to_numpy(float)))))
        if budget < own["seconds"].iloc[0]:
            note = f"its shortest run so far takes {own['seconds'].iloc[0]:.0f} s"
            lines.append((label, seeds, budget, np.nan, np.nan, note))
        else:
            note = "its longest run takes less" if budget > own["seconds"].iloc[-1] else ""
            reached = float(np.interp(np.log(budget), seconds, values))
            lines.append((label, seeds, budget, reached, bought, note))
    out = pd.DataFrame(lines, columns=columns)
    return out.sort_values("rsum", ascending=False, ignore_index=True, na_position="last")
