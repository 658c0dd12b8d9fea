"""The runs that the protocol asks for on Flickr8k."""

import pandas as pd

from xmr_core.study.convergence import unconverged
from xmr_core.study.presets import base_config
from xmr_core.study.protocol import (
    COMMON,
    FLICKR_EPOCHS,
    FLICKR_LONGER,
    Job,
    budget_label,
    compares_pairs,
    in_common_form,
    trial,
    variants,
)
from xmr_core.training.runs import RunConfig

SEEDS, LIGHT_SEEDS = 3, 5
_MINILM = ("VSE∞", "DivE")


def flickr8k(data_root: str, chosen: dict[str, int], rows: pd.DataFrame, curves: pd.DataFrame) -> list[Job]:
    """Every tuned variant on photographs, described by the network that everybody can install, and a light one on
    MiniLM. The study preset's learning rate is changed as the chosen trial changes that of the scenes. Where seed 0
    was not converged at FLICKR_EPOCHS, all seeds have FLICKR_LONGER."""
    own = rows[rows["dataset"] == "flickr8k"] if "dataset" in rows else rows[:0]
    where = {"dataset": "flickr8k", "data_root": data_root, "features": "efficientnet_lite0"}
    jobs = []
    for label, number in chosen.items():
        method, options = variants()[label]
        common = {n: v for n, v in COMMON.items() if n in in_common_form(label).options}
        config = base_config(method, **where, preset="study", device="cpu", **common, **options)
        names = {label: config}
        if label in _MINILM:
            names[f"{label}, MiniLM"] = config.replace(text_model="minilm")
        for name, on in names.items():
            seeds = SEEDS if compares_pairs(label) or name != label else LIGHT_SEEDS
            run, epochs = name, FLICKR_EPOCHS
            if unconverged(own, curves, [name], FLICKR_EPOCHS):
                run, epochs = budget_label(name, FLICKR_LONGER), FLICKR_LONGER
            runs = dict.fromkeys([(name, FLICKR_EPOCHS, 0), *((run, epochs, seed) for seed in range(seeds))])
            jobs += [Job("flickr8k", label, t, _on_photographs(on, label, number, e, seed)) for t, e, seed in runs]
    return jobs


def _on_photographs(config: RunConfig, label: str, number: int, epochs: int, seed: int) -> RunConfig:
    """A run of the study preset with what a trial of tuning changed."""
    changes = trial(label, number, epochs)
    if "lr" in changes:
        changes["lr"] = config.train.lr * changes["lr"] / in_common_form(label).train.lr
    if "dropout" in changes:
        changes["dropout"] = max(changes["dropout"], config.options["dropout"])
    return config.replace(**changes, epochs=epochs, seed=seed)
