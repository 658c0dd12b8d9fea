"""When sets, distributions, pairs of elements and hard negatives pay: what each gains over one vector, or over InfoNCE,
on worlds of growing ambiguity."""

import numpy as np
import pandas as pd

from xmr_core.study.ambiguity_jobs import AMBIGUOUS, ambiguity_label, chosen_rates
from xmr_core.study.method_results import mean_interval

BASE = "VSE∞"  # one vector
KINDS = {"DivE": "sets", "PCME": "distributions", "PCME++": "distributions", "SCAN t-i": "pairs of elements"}
LOSSES = {"hinge": "hard negatives", "own": "own losses"}
GAIN_COLUMNS = ["what", "label", "against", "ambiguity", "seeds", "gain", "low", "high", "lowest", "highest"]
POINT_COLUMNS = ["label", "objective", "ambiguity", "rate", "seed", "rsum", "error"]
DECIDES = 3  # seeds that a verdict on one ambiguity needs


def ambiguity_points(rows: pd.DataFrame, relevance: str = "exhaustive") -> pd.DataFrame:
    """RSUM of every run of the ambiguity part, in percent, and its standard error for the choice of test images (NaN
    where the rows have none); POINT_COLUMNS. Of two learning rates it is the chosen one (ambiguity_jobs.chosen_rates);
    there is none before both have been run.

    relevance: the answers that count; 'exhaustive' counts every true one. rows: of results.read.

    >>> ambiguity_points(pd.DataFrame(columns=["variant", "metric", "relevance", "seed", "value"])).empty
    True
    """
    named = {ambiguity_label(*key, rate): (*key, rate) for key, rate in chosen_rates(rows).items()}
    own = rows[rows["variant"].isin(named) & (rows["relevance"] == relevance)]
    rsum, error = (_of_metric(own, metric) for metric in ("rsum", "rsum_error"))
    lines = [
        (*named[variant], seed, value, error.get((variant, seed), np.nan)) for (variant, seed), value in rsum.items()
    ]
    return pd.DataFrame(lines, columns=POINT_COLUMNS)


def ambiguity_gains(points: pd.DataFrame) -> pd.DataFrame:
    """What each choice gains at each ambiguity, paired by seed, with the 95 % interval of a mean that carries seeds and
    test images (method_results.mean_interval; NaN with one seed, which has that of the images alone and would look
    surer than two), and the lowest and the highest gain of a seed; GAIN_COLUMNS.

    A representation is compared with one vector, both under InfoNCE; the hinge with hardest negatives, and the own loss
    of distributions, with InfoNCE, for each method that has both. The images of both values count as independent, which
    makes the interval wider than it has to be. points: of ambiguity_points.

    >>> ambiguity_gains(pd.DataFrame(columns=POINT_COLUMNS)).empty
    True
    """
    table = points.set_index(["label", "objective", "ambiguity", "seed"])[["rsum", "error"]].sort_index()

    def values(label: str, objective: str, ambiguity: float) -> pd.DataFrame:
        try:
            return table.loc[label, objective, ambiguity]
        except KeyError:
            return table.iloc[:0].droplevel([0, 1, 2])

    pairs = [(kind, label, "InfoNCE", BASE, "InfoNCE") for label, kind in KINDS.items()]
    pairs += [(kind, label, name, label, "InfoNCE") for name, kind in LOSSES.items() for label in AMBIGUOUS]
    lines = []
    for what, label, objective, other, its_objective in pairs:
        for ambiguity in sorted(set(points["ambiguity"])):
            theirs = values(other, its_objective, ambiguity).add_suffix(" other")
            paired = values(label, objective, ambiguity).join(theirs, how="inner")
            if len(paired):
                against = its_objective if label == other else other
                error = np.hypot(paired["error"], paired["error other"])
                gain = pd.DataFrame(
                    {"value": paired["rsum"] - paired["rsum other"], "error": error, "world": ambiguity}
                )
                ends = float(gain["value"].min()), float(gain["value"].max())
                mean, *interval = mean_interval(gain)
                interval = interval if len(gain) > 1 else [np.nan, np.nan]
                lines.append((what, label, against, ambiguity, len(gain), mean, *interval, *ends))
    return pd.DataFrame(lines, columns=GAIN_COLUMNS)


def ambiguity_table(points: pd.DataFrame) -> pd.DataFrame:
    """RSUM of each variant and objective at each ambiguity, the mean over seeds, with the chosen learning rate;
    '–' where it is missing. points: of ambiguity_points.

    >>> key = {"label": "DivE", "objective": "hinge", "ambiguity": 0.1, "rate": 0.002, "seed": 0, "error": 1.0}
    >>> ambiguity_table(pd.DataFrame([key | {"rsum": 412.34}])).to_dict("records")
    [{'method': 'DivE', 'objective': 'hinge', '0.1': '412.3 (0.002)'}]
    """
    cells: dict[tuple[str, str], dict[str, str]] = {}
    order = sorted(set(points["ambiguity"]))
    for (label, objective, ambiguity, rate), own in points.groupby(
        ["label", "objective", "ambiguity", "rate"], sort=False
    ):
        cells.setdefault((label, objective), {})[f"{ambiguity:g}"] = f"{own['rsum'].mean():.1f} ({rate:g})"
    lines = [
        {"method": label, "objective": objective} | {f"{a:g}": by_value.get(f"{a:g}", "–") for a in order}
        for (label, objective), by_value in cells.items()
    ]
    return pd.DataFrame(lines, columns=["method", "objective", *(f"{a:g}" for a in order)])


def ambiguity_sentences(gains: pd.DataFrame) -> list[str]:
    """One sentence for each choice and method: where on the scale of ambiguity it pays, that is, where the interval of
    its gain lies above 0, with the gains at both ends. Nothing is said of gains of fewer than DECIDES seeds.

    >>> line = {"what": "sets", "label": "DivE", "against": "VSE∞", "seeds": 3, "gain": 9.0, "low": 4.0, "high": 14.0}
    >>> low, high = line | {"ambiguity": 0.02}, line | {"ambiguity": 0.5, "gain": -1.0, "low": -9.0, "high": 7.0}
    >>> print(*ambiguity_sentences(pd.DataFrame([low, high])))
    DivE (sets) gains on VSE∞ at ambiguity 0.02: +9.0 [+4.0, +14.0] at 0.02, -1.0 [-9.0, +7.0] at 0.5.
    """
    out = []
    decided = gains[gains["seeds"] >= DECIDES]
    for (what, label, against), own in decided.groupby(["what", "label", "against"], sort=False):
        own = own.sort_values("ambiguity")
        pays, costs = own[own["low"] > 0]["ambiguity"], own[own["high"] < 0]["ambiguity"]
        parts = [
            f"{verb} at ambiguity {_listed(where)}"
            for verb, where in ((f"gains on {against}", pays), (f"loses to {against}", costs))
            if len(where)
        ]
        verdict = " and ".join(parts) or f"is not told apart from {against} at any ambiguity"
        ends = own.iloc[np.unique([0, len(own) - 1])]
        numbers = ", ".join(
            f"{r.gain:+.1f} [{r.low:+.1f}, {r.high:+.1f}] at {r.ambiguity:g}" for r in ends.itertuples()
        )
        out.append(f"{label} ({what}) {verdict}: {numbers}.")
    return out


def _listed(values: pd.Series) -> str:
    """0.02, 0.05 and 0.1 as text."""
    *first, last = [f"{v:g}" for v in values]
    return f"{', '.join(first)} and {last}" if first else last


def _of_metric(rows: pd.DataFrame, metric: str) -> dict[tuple[str, int], float]:
    """(variant, seed) → the latest value of a metric, in percent."""
    own = rows[rows["metric"] == metric].drop_duplicates(["variant", "seed"], keep="last")
    return {(r.variant, int(r.seed)): 100 * float(r.value) for r in own[["variant", "seed", "value"]].itertuples()}
