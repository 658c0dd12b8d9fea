"""What tuning chose: the trial that each variant keeps, and the one that its ablations take."""

from collections.abc import Mapping

import pandas as pd

from xmr_core.study.claims_data import TRIALS as OWN_TRIALS
from xmr_core.study.protocol import TRIALS, base_of, labels, tuned_label, variants


def chosen_trials(rows: pd.DataFrame) -> dict[str, int]:
    """Variant → its trial of the highest annotated RSUM on the validation split; the earlier one of equals. Only
    variants whose trials all have rows.

    rows: of results.read.

    >>> chosen_trials(pd.DataFrame(columns=["variant", "metric", "value"]))
    {}
    """
    tried = {label: _validated(label, rows) for label in labels()}
    return {label: max(values, key=values.__getitem__) for label, values in tried.items() if len(values) == len(TRIALS)}


def ablation_trial(label: str, rows: pd.DataFrame, chosen: Mapping[str, int]) -> int | None:
    """The trial that an ablation takes: the one that was chosen for what it varies.

    Some methods try another loss in place of their own. If that was chosen, what varies the loss cannot take it: a
    label that says its objective takes the best of the trials that keep the loss (the first, without rows), and one
    that does not say it takes none. None also where nothing was chosen yet.

    >>> ablation_trial("α=1", pd.DataFrame(columns=["variant", "metric", "value"]), {"DivE": 2})
    2
    """
    base, (method, options) = base_of(label), variants()[label]
    other_loss = [n for n, changes in OWN_TRIALS.get(method, {}).items() if "objective" in changes]
    if chosen.get(base) not in other_loss:
        return chosen.get(base)
    if "objective" not in options:
        return None
    values = {n: value for n, value in _validated(base, rows).items() if n not in other_loss}
    return max(values, key=values.__getitem__, default=1)


def _validated(label: str, rows: pd.DataFrame) -> dict[int, float]:
    """Trial → its RSUM on the validation split, of those that have rows, in their order."""
    best = rows[rows["metric"] == "val_rsum"].groupby("variant")["value"].last().astype(float)
    names = {n: tuned_label(label, n) for n in range(1, len(TRIALS) + 1)}
    return {n: float(best[name]) for n, name in names.items() if name in best}
