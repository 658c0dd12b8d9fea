"""Whether training was long enough: what the last quarter of the epochs still adds on the validation split."""

from collections.abc import Sequence

import pandas as pd

COLUMNS = ["label", "runs", "gain", "best", "converged"]
MOST_GAIN, LAST = 2.0, 0.95  # points of RSUM that the last quarter may add; share of the epochs before the best one


def convergence(rows: pd.DataFrame, curves: pd.DataFrame, labels: Sequence[str], epochs: int) -> pd.DataFrame:
    """One line per label that has runs of so many epochs: label, runs, gain, best, converged.

        gain = mean over runs of 100 (max_t v_t − max_{t ≤ 3E/4} v_t),   best = mean of (best epoch + 1) / E

    v_t: RSUM of epoch t on the validation split, as a fraction of 6; E: epochs. converged: gain below 2 points and best
    below 0.95. rows: of results.read. curves: columns run_id, epoch (from 0), value.
    Source: docs/protocol.md#protocol-budget.

    >>> curves = pd.DataFrame({"run_id": "a", "epoch": range(8), "value": [0, 1, 2, 3, 3, 3, 3.01, 3]})
    >>> rows = pd.DataFrame({"run_id": ["a"], "variant": ["DivE"], "epochs": [8], "best_epoch": [6]})
    >>> convergence(rows, curves, ["DivE"], 8)[["gain", "best", "converged"]].round(3).values.tolist()
    [[1.0, 0.875, True]]
    """
    lines = []
    if not len(labels):
        return pd.DataFrame(columns=COLUMNS)
    wanted = rows.loc[rows["variant"].isin(labels) & (rows["epochs"].astype(int) == epochs), "run_id"].unique()
    curves = curves[curves["run_id"].isin(wanted)]
    by_run = {name: part.sort_values("epoch")["value"].astype(float) for name, part in curves.groupby("run_id")}
    for label in labels:
        own = rows[(rows["variant"] == label) & (rows["epochs"].astype(int) == epochs)].drop_duplicates("run_id")
        own = own[own["run_id"].isin(by_run)]
        if not len(own):
            continue
        values = [by_run[name] for name in own["run_id"]]
        gain = sum(100 * (v.max() - v.iloc[: 3 * epochs // 4].max()) for v in values) / len(values)
        best = float((own["best_epoch"].astype(int) + 1).mean() / epochs)
        lines.append((label, len(own), gain, best, bool(gain < MOST_GAIN and best < LAST)))
    return pd.DataFrame(lines, columns=COLUMNS)


def unconverged(rows: pd.DataFrame, curves: pd.DataFrame, labels: Sequence[str], epochs: int) -> list[str]:
    """The labels that need more epochs.

    >>> unconverged(pd.DataFrame(columns=["variant", "epochs", "run_id"]), pd.DataFrame(columns=["run_id"]), [], 8)
    []
    """
    table = convergence(rows, curves, labels, epochs)
    return table.loc[~table["converged"].astype(bool), "label"].tolist()
