"""The runs that the protocol asks for, part by part, and which of them have no rows yet."""

from collections.abc import Mapping
from functools import partial

import pandas as pd

from xmr_core.methods.registry import method_spec
from xmr_core.study.ambiguity_jobs import ambiguity
from xmr_core.study.convergence import unconverged
from xmr_core.study.presets import base_config
from xmr_core.study.protocol import (
    COMMON,
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
    chosen_trials,
    in_common_form,
    labels,
    trial,
    tuned_label,
    variants,
)

PARTS = ("tuning", "comparison", "longer", "budget", "DivE's ablations", "ambiguity", "flickr8k", "ablations")
FLICKR_SEEDS, LIGHT_SEEDS = 3, 5


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


def comparisons(rows: pd.DataFrame, chosen: dict[str, int]) -> list[Job]:
    """Every tuned variant at convergence on the worlds that decide, and its budget curve."""
    jobs = []
    for label, number in chosen.items():
        for seed in range(n_seeds(label, rows)):
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
        if canonical()[label] == label and label not in labels() and (base := base_of(label)) in chosen:
            if "objective" in method_spec(variants()[label][0]).trials.get(chosen[base], {}):
                continue  # they vary a loss that the chosen trial has put away (docs/protocol.md#protocol-changes)
            part = "DivE's ablations" if variants()[label][0] == "dive" else "ablations"
            config = partial(_deciding, label, chosen[base], epochs=epochs.get(base, EPOCHS))
            jobs += [Job(part, base, label, config(seed)) for seed in range(n_seeds(label, rows))]
    return jobs


def flickr8k(data_root: str, chosen: dict[str, int]) -> list[Job]:
    """Every tuned variant on photographs, described by the network that everybody can install, and a light one on
    MiniLM. The study preset's learning rate is changed as the chosen trial changes that of the scenes."""
    make = partial(base_config, dataset="flickr8k", data_root=data_root, preset="study", device="cpu")
    jobs = []
    for label, number in chosen.items():
        method, options = variants()[label]
        common = {n: v for n, v in COMMON.items() if n in in_common_form(label).options}
        config = make(method, features="efficientnet_lite0", **common, **options)
        changes = trial(label, number, config.train.epochs)
        if "lr" in changes:
            changes["lr"] = config.train.lr * changes["lr"] / in_common_form(label).train.lr
        if "dropout" in changes:
            changes["dropout"] = max(changes["dropout"], config.options["dropout"])
        pairs = method in ("scan", "sgraf", "maxsim", "chan")
        for seed in range(FLICKR_SEEDS if pairs else LIGHT_SEEDS):
            jobs.append(Job("flickr8k", label, label, config.replace(**changes, seed=seed)))
            if label in ("VSE∞", "DivE") and seed < FLICKR_SEEDS:
                words = config.replace(**changes, seed=seed, text_model="minilm")
                jobs.append(Job("flickr8k", label, f"{label}, MiniLM", words))
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
    out = [*tuning(), *comparisons(rows, chosen), *longer(rows, curves, chosen), *ablations(rows, curves, chosen)]
    out += [*ambiguity(rows, chosen), *(flickr8k(flickr8k_root, chosen) if flickr8k_root else [])]
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
    measured = set(zip(rows["variant"], rows["dataset"], rows["seed"].astype(int), strict=True))
    wanted = jobs(rows, curves, flickr8k_root, chosen)
    return [job for job in wanted if (job.label, job.config.data.dataset, job.config.train.seed) not in measured]


def n_seeds(label: str, rows: pd.DataFrame) -> int:
    """How many seeds a label has: more where its run is short, which its first SEEDS runs tell.

    >>> n_seeds("DivE", pd.DataFrame(columns=["variant", "run_id", "train_seconds"]))
    5
    """
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


def _deciding(label: str, number: int, seed: int, epochs: int = EPOCHS):
    fixed = {"seed": seed, "world_seed": DECIDING[seed % 2], "epochs": epochs}
    return in_common_form(label, **fixed, **trial(label, number, epochs))
