"""The runs that the protocol asks for, part by part, and which of them have no rows yet."""

import pandas as pd

from xmr_core.training.runs.config import RunConfig, base_config
from xmr_study import protocol
from xmr_study.ambiguity import ambiguity
from xmr_study.protocol import Job, ablation_trial, canonical, chosen_trials, in_common_form, labels, trial
from xmr_study.protocol_results import unconverged

PARTS = ("tuning", "comparison", "longer", "budget", "ambiguity", "flickr8k", "ablations")
_MINILM = ("VSE∞", "DivE")  # on Flickr8k also with another text model


def jobs(rows: pd.DataFrame, curves: pd.DataFrame, flickr8k_root: str = "") -> list[Job]:
    """All runs that can be named with the rows that are there, in the order of PARTS: what tuning has not chosen yet
    has no further runs, and what was not converged is run longer. curves: validation of every epoch.

    >>> none = pd.DataFrame(columns=["variant", "metric", "value", "seed", "run_id"])
    >>> {job.part for job in jobs(none, pd.DataFrame(columns=["run_id", "epoch", "value"]))}
    {'tuning'}
    """
    chosen = chosen_trials(rows)
    again = unconverged(rows, curves, [*chosen], protocol.EPOCHS)
    out = []
    for label in labels():
        for n in range(1, len(protocol.TRIALS) + 1):
            fixed = {"epochs": protocol.TUNING_EPOCHS, "seed": 0, "world_seed": protocol.WORLD, **trial(label, n)}
            out.append(Job("tuning", label, protocol.tuned_label(label, n), in_common_form(label, **fixed)))
    for label, number in chosen.items():
        n_seeds = _n_seeds(label, rows)
        parts = [("comparison", label, protocol.EPOCHS, protocol.SEEDS if label in again else n_seeds)]
        if label in again:
            parts += [("longer", protocol.budget_label(label, protocol.LONGER), protocol.LONGER, n_seeds)]
        parts += [("budget", protocol.budget_label(label, n), n, 2) for n in protocol.SHORTER]
        for part, name, epochs, n in parts:
            out += [Job(part, label, name, _deciding(label, number, seed, epochs)) for seed in range(n)]
    for label in protocol.variants():
        if canonical()[label] == label and label not in labels() and (number := ablation_trial(label, rows, chosen)):
            epochs = protocol.LONGER if protocol.base_of(label) in again else protocol.EPOCHS
            configs = [_deciding(label, number, seed, epochs) for seed in range(_n_seeds(label, rows))]
            out += [Job("ablations", protocol.base_of(label), label, config) for config in configs]
    out += ambiguity(rows, chosen)
    out += flickr8k(flickr8k_root, chosen, rows, curves) if flickr8k_root else []
    return sorted(out, key=lambda job: PARTS.index(job.part))


def unmeasured(wanted: list[Job], rows: pd.DataFrame) -> list[Job]:
    """Those of some jobs without rows of their label, data set and seed."""
    measured = set(zip(rows["variant"], rows["dataset"], rows["seed"].astype(int), strict=True))
    return [job for job in wanted if (job.label, job.config.data.dataset, job.config.train.seed) not in measured]


def flickr8k(data_root: str, chosen: dict[str, int], rows: pd.DataFrame, curves: pd.DataFrame) -> list[Job]:
    """Every tuned variant on photographs, described by the network that everybody can install, and a light one on
    MiniLM. The study preset's learning rate is changed as the chosen trial changes that of the scenes. Where seed 0
    was not converged at FLICKR_EPOCHS, all seeds have FLICKR_LONGER."""
    own = rows[rows["dataset"] == "flickr8k"] if "dataset" in rows else rows[:0]
    where = {"dataset": "flickr8k", "data_root": data_root, "features": "efficientnet_lite0"}
    out = []
    for label, number in chosen.items():
        method, options = protocol.variants()[label]
        common = {n: v for n, v in protocol.COMMON.items() if n in in_common_form(label).options}
        config = base_config(method, **where, preset="study", device="cpu", **common, **options)
        names = {label: config}
        if label in _MINILM:
            names[f"{label}, MiniLM"] = config.replace(text_model="minilm")
        for name, on in names.items():
            run, epochs = name, protocol.FLICKR_EPOCHS
            if unconverged(own, curves, [name], protocol.FLICKR_EPOCHS):
                run, epochs = protocol.budget_label(name, protocol.FLICKR_LONGER), protocol.FLICKR_LONGER
            n_seeds = 3 if protocol.compares_pairs(label) or name != label else 5
            runs = dict.fromkeys([(name, protocol.FLICKR_EPOCHS, 0), *((run, epochs, seed) for seed in range(n_seeds))])
            out += [Job("flickr8k", label, t, _on_photographs(on, label, number, e, seed)) for t, e, seed in runs]
    return out


def _n_seeds(label: str, rows: pd.DataFrame) -> int:
    if label in labels() and not protocol.compares_pairs(label):
        return protocol.MORE_SEEDS
    own = rows[(rows["variant"] == label) & (rows["dataset"] == "scenes")].drop_duplicates("run_id")["train_seconds"]
    more = len(own) >= protocol.SEEDS and own.astype(float).median() < protocol.SHORT
    return protocol.MORE_SEEDS if more else protocol.SEEDS


def _on_photographs(config: RunConfig, label: str, number: int, epochs: int, seed: int) -> RunConfig:
    """A run of the study preset with what a trial of tuning changed."""
    changes = trial(label, number, epochs)
    if "lr" in changes:
        changes["lr"] = config.train.lr * changes["lr"] / in_common_form(label).train.lr
    if "dropout" in changes:
        changes["dropout"] = max(changes["dropout"], config.options["dropout"])
    return config.replace(**changes, epochs=epochs, seed=seed)


def _deciding(label: str, number: int, seed: int, epochs: int) -> RunConfig:
    changes = {"epochs": epochs, **trial(label, number, epochs)}
    return in_common_form(label, **changes, seed=seed, world_seed=protocol.DECIDING[seed % 2])
