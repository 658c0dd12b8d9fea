"""The runs that the protocol asks for, part by part, and which of them have no rows yet."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial

import pandas as pd

from xmr_core.study.ambiguity_jobs import ambiguity
from xmr_core.study.choices import ablation_trial, chosen_trials
from xmr_core.study.convergence import unconverged
from xmr_core.study.photograph_jobs import flickr8k
from xmr_core.study.protocol import (
    DECIDING,
    EPOCHS,
    LONGER,
    MORE_SEEDS,
    SEEDS,
    SHORT,
    SHORTER,
    TRIALS,
    TUNING_EPOCHS,
    WORLD,
    Job,
    base_of,
    budget_label,
    canonical,
    compares_pairs,
    in_common_form,
    labels,
    trial,
    tuned_label,
    variants,
)
from xmr_core.training.runs import RunConfig

PARTS = ("tuning", "comparison", "longer", "budget", "DivE's ablations", "ambiguity", "flickr8k", "ablations")


def tuning() -> list[Job]:
    """Seven trials of every variant on the world of choices.

    >>> len(tuning()) == 7 * len(labels())
    True
    """
    fixed = {"epochs": TUNING_EPOCHS, "seed": 0, "world_seed": WORLD}
    return [
        Job("tuning", label, tuned_label(label, n), in_common_form(label, **{**fixed, **trial(label, n)}))
        for label in labels()
        for n in range(1, len(TRIALS) + 1)
    ]


def comparisons(rows: pd.DataFrame, chosen: dict[str, int], again: Sequence[str] = ()) -> list[Job]:
    """Every tuned variant at convergence on the worlds that decide, and its budget curve. again: those that are run
    longer, of which no more than SEEDS seeds have EPOCHS, for these decide nothing."""
    jobs = []
    for label, number in chosen.items():
        for seed in range(SEEDS if label in again else n_seeds(label, rows)):
            config = _deciding(label, number, seed)
            jobs.append(Job("comparison", label, label, config))
            if seed < 2:
                short = [(n, _deciding(label, number, seed, n)) for n in SHORTER]
                jobs += [Job("budget", label, budget_label(label, n), less) for n, less in short]
    return jobs


def longer(rows: pd.DataFrame, curves: pd.DataFrame, chosen: dict[str, int]) -> list[Job]:
    """Twice the epochs for every variant that was not converged."""
    return [
        Job("longer", label, budget_label(label, LONGER), _deciding(label, chosen[label], seed, LONGER))
        for label in unconverged(rows, curves, [*chosen], EPOCHS)
        for seed in range(n_seeds(label, rows))
    ]


def ablations(rows: pd.DataFrame, curves: pd.DataFrame, chosen: dict[str, int]) -> list[Job]:
    """Every other label of an ablation or a sweep, at the chosen trial and for the epochs of what it varies."""
    jobs, epochs = [], dict.fromkeys(unconverged(rows, curves, [*chosen], EPOCHS), LONGER)
    for label in variants():
        if canonical()[label] == label and label not in labels() and (number := ablation_trial(label, rows, chosen)):
            base, part = base_of(label), "DivE's ablations" if variants()[label][0] == "dive" else "ablations"
            config = partial(_deciding, label, number, epochs=epochs.get(base, EPOCHS))
            jobs += [Job(part, base, label, config(seed)) for seed in range(n_seeds(label, rows))]
    return jobs


def jobs(
    rows: pd.DataFrame,
    curves: pd.DataFrame | None = None,
    flickr8k_root: str = "",
    chosen: Mapping[str, int] | None = None,
) -> list[Job]:
    """All runs that can be named with these rows, in the order of PARTS. curves: validation of every epoch. chosen:
    variant → its trial; what the rows of tuning say when None.

    >>> {job.part for job in jobs(pd.DataFrame(columns=["variant", "metric", "value", "seed"]))}
    {'tuning'}
    """
    chosen = chosen_trials(rows) if chosen is None else dict(chosen)
    curves = pd.DataFrame(columns=["run_id", "epoch", "value"]) if curves is None else curves
    again = unconverged(rows, curves, [*chosen], EPOCHS)
    out = [
        *tuning(),
        *comparisons(rows, chosen, again),
        *longer(rows, curves, chosen),
        *ablations(rows, curves, chosen),
    ]
    out += [*ambiguity(rows, chosen), *(flickr8k(flickr8k_root, chosen, rows, curves) if flickr8k_root else [])]
    return sorted(out, key=lambda job: PARTS.index(job.part))


def missing(
    rows: pd.DataFrame,
    curves: pd.DataFrame | None = None,
    flickr8k_root: str = "",
    chosen: Mapping[str, int] | None = None,
) -> list[Job]:
    """Those of `jobs` without rows of their label, data set and seed.

    >>> len(missing(pd.DataFrame(columns=["variant", "metric", "value", "seed", "dataset"]))) == len(tuning())
    True
    """
    return unmeasured(jobs(rows, curves, flickr8k_root, chosen), rows)


def unmeasured(wanted: Iterable[Job], rows: pd.DataFrame) -> list[Job]:
    """Those of some jobs without rows of their label, data set and seed.

    >>> len(unmeasured(tuning(), pd.DataFrame(columns=["variant", "dataset", "seed"]))) == len(tuning())
    True
    """
    measured = set(zip(rows["variant"], rows["dataset"], rows["seed"].astype(int), strict=True))
    return [job for job in wanted if (job.label, job.config.data.dataset, job.config.train.seed) not in measured]


def n_seeds(label: str, rows: pd.DataFrame) -> int:
    """How many seeds a label has: more for a method of the comparison that compares no pairs, and where a run is short,
    which its first SEEDS runs tell.

    >>> none = pd.DataFrame(columns=["variant", "run_id", "train_seconds"])
    >>> n_seeds("DivE", none), n_seeds("SAF", none), n_seeds("α=1", none)
    (10, 5, 5)
    """
    if label in labels() and not compares_pairs(label):
        return MORE_SEEDS
    own = rows[(rows["variant"] == label) & (rows["dataset"] == "scenes")] if "dataset" in rows else rows
    own = own[own["variant"] == label].drop_duplicates("run_id")["train_seconds"].astype(float)
    return MORE_SEEDS if len(own) >= SEEDS and own.median() < SHORT else SEEDS


def hours(job: Job, rows: pd.DataFrame) -> float | None:
    """How long a run will take on one core: its epochs times the median seconds of an epoch of its variant in the rows
    of its data set; None where they hold none of it.

    >>> rows = pd.DataFrame({"variant": ["DivE"], "run_id": ["a"], "train_seconds": [36.0], "epochs": [2]})
    >>> hours(Job("tuning", "DivE", "DivE, tuning 1", in_common_form("DivE", epochs=10)), rows)
    0.05
    """
    same = rows[(rows["variant"] + ",").str.startswith(job.variant + ",")].drop_duplicates("run_id")
    same = same[same["dataset"] == job.config.data.dataset] if "dataset" in same else same
    if not len(same):
        return None
    seconds = (same["train_seconds"].astype(float) / same["epochs"].astype(float)).median()
    return float(seconds) * job.config.train.epochs / 3600


def _deciding(label: str, number: int, seed: int, epochs: int = EPOCHS) -> RunConfig:
    return _of_trial(label, number, epochs).replace(seed=seed, world_seed=DECIDING[seed % 2])


@cache
def _of_trial(label: str, number: int, epochs: int) -> RunConfig:
    """The run of a label at a trial, for all seeds."""
    return in_common_form(label, epochs=epochs, **trial(label, number, epochs))
