"""What the ambiguity runs of the protocol before show: worlds whose captions say less and less."""

import numpy as np
import pandas as pd

from xmr_study.protocol_results import mean_interval, seed_values

AMBIGUITIES = {0.02: 3, 0.05: 4, 0.1: 5, 0.25: 6, 0.5: 7}  # ambiguity → its world
AMBIGUOUS = ("VSE∞", "DivE", "PCME", "PCME++", "SCAN t-i")  # one vector, a set, distributions, pairs
RATES = (2e-3, 4e-3)
OBJECTIVES = ("InfoNCE", "hinge", "own", "SigLIP")
OF_DISTRIBUTIONS = ("PCME", "PCME++")  # their own loss stands in the place of the hinge


def objectives_of(label: str) -> list[str]:
    """The names of the three objectives under which a variant is run.

    >>> objectives_of("DivE"), objectives_of("PCME")
    (['InfoNCE', 'hinge', 'SigLIP'], ['InfoNCE', 'own', 'SigLIP'])
    """
    left_out = "hinge" if label in OF_DISTRIBUTIONS else "own"
    return [name for name in OBJECTIVES if name != left_out]


def ambiguity_label(label: str, objective: str, value: float, rate: float) -> str:
    """What the rows of a run are called.

    >>> ambiguity_label("DivE", "hinge", 0.1, 0.002)
    'DivE, hinge at 0.002, ambiguity 0.1'
    """
    return f"{label}, {objective} at {rate:g}, ambiguity {value:g}"


def chosen_rates(rows: pd.DataFrame) -> dict[tuple[str, str, float], float]:
    """(variant, objective, ambiguity) → the learning rate of RATES whose run of seed 0 has the higher annotated RSUM on
    the validation split of that world; the lower of equals. Only where both have rows. rows: of tidy.read.

    >>> chosen_rates(pd.DataFrame(columns=["variant", "metric", "seed", "value"]))
    {}
    """
    own = rows[(rows["metric"] == "val_rsum") & (rows["seed"].astype(float) == 0)]
    best = own.groupby("variant")["value"].last().astype(float)
    out = {}
    for label in AMBIGUOUS:
        for name in objectives_of(label):
            for value in AMBIGUITIES:
                tried = {rate: best.get(ambiguity_label(label, name, value, rate)) for rate in RATES}
                if None not in tried.values():
                    out[label, name, value] = max(RATES, key=lambda rate: tried[rate])
    return out


# When sets, distributions, pairs of elements and hard negatives pay: what each gains over one vector, or over
# InfoNCE, on worlds of growing ambiguity.


BASE = "VSE∞"  # one vector
KINDS = {"DivE": "sets", "PCME": "distributions", "PCME++": "distributions", "SCAN t-i": "pairs of elements"}
LOSSES = {"hinge": "hard negatives", "own": "own losses"}
GAIN_COLUMNS = ["what", "label", "against", "ambiguity", "seeds", "gain", "low", "high", "lowest", "highest"]


def ambiguity_points(rows: pd.DataFrame) -> pd.DataFrame:
    """RSUM by all true answers of every run of the ambiguity part: columns label, objective, ambiguity, rate, seed,
    value (percent), error (for the choice of test images; NaN without one). Of two learning rates it is the chosen one
    (`chosen_rates`); there is none before both have been run. rows: of tidy.read.

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
    test images (protocol_results.mean_interval; NaN with one seed, which has that of the images alone and would look
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
