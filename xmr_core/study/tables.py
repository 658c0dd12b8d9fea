"""Tables of runs: one row per run, means over seeds, ensembles and verdicts. The notebooks share them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput, unknown
from xmr_core.evaluation.results import Evaluated, rsum_interval
from xmr_core.evaluation.stats import decided, seed_interval
from xmr_core.training.runs import TrainedRun
from xmr_core.training.runs.ensemble import ensemble_of


def run_table(runs: Sequence[Evaluated], labels: Sequence) -> pd.DataFrame:
    """One row per run, in percent: label, seed, RSUM per relevance set with its interval over images, recalls,
    R-Precision, log circular variance, training seconds, parameters."""
    rows = []
    for run, label in zip(runs, labels, strict=True):
        row = {"label": label, "seed": run.setting.seed}
        for kind in run.per_query["relevance"].unique():
            mean, low, high = rsum_interval(run.per_query, kind)
            row |= {f"rsum {kind}": mean, f"rsum {kind} low": low, f"rsum {kind} high": high}
            values = run.metrics[run.metrics["relevance"] == kind].set_index(["direction", "metric", "k"])["value"]
            row |= {f"{d} R@{k} {kind}": 100 * values[d, "recall", k] for d in ("i2t", "t2i") for k in (1, 5, 10)}
            row |= {f"{d} R-P {kind}": 100 * values[d, "r_precision", 0] for d in ("i2t", "t2i")}
        spread = run.metrics[run.metrics["metric"] == "log_circular_variance"]["value"]
        row |= {"log variance": spread.mean() if len(spread) else np.nan, "train seconds": run.provenance.train_seconds}
        row |= {"parameters": run.provenance.parameters}
        rows.append(row)
    return pd.DataFrame(rows)


def seed_means(table: pd.DataFrame, columns: Sequence[str], level: float = 0.95) -> pd.DataFrame:
    """Mean over seeds of each label, in order of appearance, with its 95 % interval as 'c low' and 'c high' for each
    column c.

    With one seed the interval of an RSUM is the one over images of run_table; other columns then have none (NaN).

    >>> table = pd.DataFrame({"label": ["DivE", "DivE"], "seed": [0, 1], "rsum": [300.0, 310.0]})
    >>> seed_means(table, ["rsum"])["rsum"].tolist()
    [305.0]
    """
    rows = []
    for label, group in table.groupby("label", sort=False):
        row = {"label": label, "seeds": len(group)}
        for column in columns:
            mean, low, high = seed_interval(group[column], level)
            if len(group) == 1 and f"{column} low" in group:
                low, high = group[f"{column} low"].iloc[0], group[f"{column} high"].iloc[0]
            row |= {column: mean, f"{column} low": low, f"{column} high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def ensemble_runs(runs: Sequence[TrainedRun], labels: Sequence[str], formula: str) -> list[tuple[str, Evaluated]]:
    """Ensembles of finished runs: [(label, run), …], the label being the formula.

    formula: labels joined by ' + '. Different labels are combined seed by seed ('SAF + SGR' is SGRAF); one label
    repeated takes that many different seeds at a time ('DivE + DivE'), the last ones left out where they do not come
    out even.
    Raises: BadInput for fewer than two parts, a label without runs, or too few seeds.
    """
    parts = [part.strip() for part in formula.split(" + ")]
    by_label = {
        label: [run for run, its_label in zip(runs, labels, strict=True) if its_label == label]
        for label in dict.fromkeys(labels)
    }
    for part in parts:
        if part not in by_label:
            raise unknown("part of an ensemble", part, by_label)
    if len(parts) < 2:
        raise BadInput(f"an ensemble needs at least two parts joined by ' + ', got {formula!r}.")
    if len(set(parts)) == 1:
        members, n = by_label[parts[0]], len(parts)
        groups = [members[start : start + n] for start in range(0, len(members) - n + 1, n)]
    elif len(set(parts)) == len(parts):
        of_seed = [{run.setting.seed: run for run in by_label[part]} for part in parts]
        groups = [
            [members[seed] for members in of_seed] for seed in of_seed[0] if all(seed in members for members in of_seed)
        ]
    else:
        raise BadInput(f"the parts of {formula!r} must be all different or all the same.")
    if not groups:
        raise BadInput(f"{formula!r} needs more seeds than there are.")
    return [(formula, ensemble_of(group)) for group in groups]


def verdict(better: pd.DataFrame, worse: pd.DataFrame, column: str) -> tuple[str, float, float, float]:
    """Whether `better` is above `worse` in a column, seed by seed: (word, mean difference, low, high).

    The word is held or contradicted when the 95 % interval of the paired difference over seeds leaves out 0, else
    undecided; with fewer than 3 seeds it is always undecided.

    >>> sets = pd.DataFrame({"seed": [0, 1, 2], "rsum": [300.0, 310.0, 305.0]})
    >>> one = pd.DataFrame({"seed": [0, 1, 2], "rsum": [280.0, 291.0, 284.0]})
    >>> verdict(sets, one, "rsum")[0]
    'held'
    """
    pairs = better.merge(worse, on="seed", suffixes=("", " other"))
    mean, low, high = seed_interval(pairs[column] - pairs[f"{column} other"])
    return decided(low, high, len(pairs)), mean, low, high
