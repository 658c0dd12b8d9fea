"""When sets, distributions, pairs of elements and hard negatives pay: what each gains over one vector, or over InfoNCE,
on worlds of growing ambiguity."""

import numpy as np
import pandas as pd

from xmr_core.study.ambiguity_jobs import AMBIGUITIES, AMBIGUOUS, ambiguity_label, chosen_rates
from xmr_core.study.method_results import mean_interval, seed_values

BASE = "VSE∞"  # one vector
KINDS = {"DivE": "sets", "PCME": "distributions", "PCME++": "distributions", "SCAN t-i": "pairs of elements"}
LOSSES = {"hinge": "hard negatives", "own": "own losses"}
GAIN_COLUMNS = ["what", "label", "against", "ambiguity", "seeds", "gain", "low", "high", "lowest", "highest"]


def ambiguity_points(rows: pd.DataFrame) -> pd.DataFrame:
    """RSUM by all true answers of every run of the ambiguity part: columns label, objective, ambiguity, rate, seed,
    value (percent), error (for the choice of test images; NaN without one). Of two learning rates it is the chosen one
    (ambiguity_jobs.chosen_rates); there is none before both have been run. rows: of results.read.

    >>> ambiguity_points(pd.DataFrame(columns=["variant", "metric", "relevance", "seed", "value"])).empty
    True
    """
    named = {ambiguity_label(*key, rate): (*key, rate) for key, rate in chosen_rates(rows).items()}
    lines = []
    for variant, own in seed_values(rows[rows["variant"].isin(named)], "exhaustive").items() if named else ():
        lines += [(*named[variant], seed, r["value"], r["error"]) for seed, r in own.iterrows()]
    return pd.DataFrame(lines, columns=["label", "objective", "ambiguity", "rate", "seed", "value", "error"])


def ambiguity_gains(points: pd.DataFrame) -> pd.DataFrame:
    """What each choice gains at each ambiguity, paired by seed, with the 95 % interval of a mean that carries seeds and
    test images (method_results.mean_interval; NaN with one seed, which has that of the images alone and would look
    surer than two), and the lowest and the highest gain of a seed; GAIN_COLUMNS.

    A representation is compared with one vector, both under InfoNCE; the hinge with hardest negatives, and the own loss
    of distributions, with InfoNCE, for each method that has both. The images of both values count as independent, which
    makes the interval wider than it has to be. points: of ambiguity_points.
    """
    table = points.set_index(["label", "objective", "ambiguity", "seed"])[["value", "error"]].sort_index()
    pairs = [(KINDS[label], (label, "InfoNCE"), (BASE, "InfoNCE"), BASE) for label in KINDS]
    pairs += [(LOSSES[loss], (label, loss), (label, "InfoNCE"), "InfoNCE") for loss in LOSSES for label in AMBIGUOUS]
    lines = []
    for what, own, other, against in pairs:
        for ambiguity in AMBIGUITIES:
            try:
                mine, theirs = (table.loc[(*key, ambiguity)] for key in (own, other))
            except KeyError:  # no such run
                continue
            paired = mine.join(theirs.add_suffix(" other"), how="inner")
            error = np.hypot(paired["error"], paired["error other"])
            gain = pd.DataFrame({"value": paired["value"] - paired["value other"], "error": error, "world": ambiguity})
            mean, *interval = mean_interval(gain)
            interval = interval if len(gain) > 1 else [np.nan, np.nan]
            ends = gain["value"].min(), gain["value"].max()
            lines.append((what, own[0], against, ambiguity, len(gain), mean, *interval, *ends))
    return pd.DataFrame(lines, columns=GAIN_COLUMNS)
