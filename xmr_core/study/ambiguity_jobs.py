"""The runs of the ambiguity part: each kind of representation under several objectives, on worlds whose captions say
less and less."""

from collections.abc import Mapping, Sequence

import pandas as pd

from xmr_core.study.protocol import EPOCHS, Job, in_common_form, trial, warm_up

AMBIGUITIES = {0.02: 3, 0.05: 4, 0.1: 5, 0.25: 6, 0.5: 7}  # ambiguity → its world
AMBIGUOUS = ("VSE∞", "DivE", "PCME", "PCME++", "SCAN t-i")  # one vector, a set, distributions, pairs
RATES = (2e-3, 4e-3)
OBJECTIVES = {
    "InfoNCE": {"objective": "infonce"},
    "hinge": {"objective": "triplet", "margin": 0.2, "warmup_epochs": warm_up(EPOCHS)},
    "own": {},
    "SigLIP": {"objective": "siglip"},
}
OF_DISTRIBUTIONS = ("PCME", "PCME++")  # their own loss stands in the place of the hinge
_OF_OTHERS = ("lr", *OBJECTIVES["hinge"])  # what a chosen trial does not say here


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
    the validation split of that world; the lower of equals. Only where both have rows. rows: of results.read.

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


def ambiguity(rows: pd.DataFrame, chosen: Mapping[str, int], seeds: Sequence[int] = range(3)) -> list[Job]:
    """One vector, sets, distributions and pairs under three objectives, on worlds of five ambiguities.

    Seed 0 is run at both RATES, the others at the one that it chose; until it has, they count at the lower. rows: of
    the protocol. chosen: variant → its trial.
    """
    rates, jobs = chosen_rates(rows), []
    for label in (name for name in AMBIGUOUS if name in chosen):
        for name in objectives_of(label):
            tried = {k: v for k, v in trial(label, chosen[label]).items() if k not in _OF_OTHERS}
            if OBJECTIVES[name]:
                tried.pop("temperature", None)
            for value, world in AMBIGUITIES.items():
                fixed = {"epochs": EPOCHS, "world_seed": world, "ambiguity": value, **tried, **OBJECTIVES[name]}
                for seed in seeds:
                    for rate in RATES if seed == 0 else [rates.get((label, name, value), RATES[0])]:
                        config = in_common_form(label, **fixed, lr=rate, seed=seed)
                        jobs.append(Job("ambiguity", label, ambiguity_label(label, name, value, rate), config))
    return jobs
