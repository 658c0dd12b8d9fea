"""How large: `quick` answers in a minute on two cores, `study` is what reports/ was made with, `published` is the papers' scale."""

import inspect

from xmr_core.errors import BadInput, unknown
from xmr_core.prepare import DATASETS, DataConfig
from xmr_core.recipes import RECIPES
from xmr_core.runs.config import RunConfig, resolve_device
from xmr_core.train import TrainConfig

PRESETS = ("quick", "study", "published")
SEEDS = {"quick": 1, "study": 5, "published": 2}

# Settings of the matched form; options that a recipe does not have (iterations, say) are left out for it.
_SIZES = {
    ("scenes", "quick"): {
        "size": "quick", "epochs": 8, "lr": 2e-3, "batch_images": 50, "captions_per_image": 2,
        "d": 64, "iterations": 2, "dropout": 0.0,
    },
    ("scenes", "study"): {
        "size": "study", "epochs": 8, "lr": 2e-3, "batch_images": 50, "captions_per_image": 2, "d": 128, "dropout": 0.0,
    },
    ("flickr8k", "quick"): {
        "epochs": 3, "lr": 2e-3, "batch_images": 128, "captions_per_image": 1, "d": 128, "iterations": 2,
    },
    ("flickr8k", "study"): {
        "epochs": 30, "lr": 2e-3, "batch_images": 128, "captions_per_image": 2, "weight_decay": 5e-2, "cell_drop": 0.5,
        "word_drop": 0.2, "d": 256, "iterations": 2, "dropout": 0.3,
    },
}  # fmt: skip

# What the papers trained with (METHODS (b)); used by preset 'published' only.
_PUBLISHED = {
    "vse++": {
        "epochs": 30, "lr": 2e-4, "weight_decay": 0.0, "clip": 2.0, "schedule": "step", "decay_every": 15, "warmup_steps": 0,
        "batch_images": 128, "captions_per_image": 1, "unit": "captions", "positives": "diagonal", "word_dim": 300,
    },
    "pvse": {
        "epochs": 30, "lr": 2e-4, "weight_decay": 0.0, "clip": 2.0, "schedule": "constant", "warmup_steps": 0,
        "batch_images": 256, "captions_per_image": 1, "unit": "captions", "positives": "diagonal", "word_dim": 300,
    },
    "pcme": {
        "epochs": 30, "lr": 2e-4, "weight_decay": 0.0, "clip": 2.0, "schedule": "cosine", "warmup_steps": 0,
        "batch_images": 128, "captions_per_image": 1, "unit": "captions", "positives": "diagonal", "word_dim": 300, "word_drop": 0.1,
    },
    "scan": {
        "epochs": 30, "lr": 2e-4, "weight_decay": 0.0, "clip": 2.0, "schedule": "step", "decay_every": 15, "warmup_steps": 0,
        "batch_images": 128, "captions_per_image": 1, "unit": "captions", "positives": "diagonal", "word_dim": 300,
    },
    "sgraf": {  # of SAF; SGR has 40 epochs and decays at 30
        "epochs": 30, "lr": 2e-4, "weight_decay": 0.0, "clip": 2.0, "schedule": "step", "decay_every": 20, "warmup_steps": 0,
        "batch_images": 128, "captions_per_image": 1, "unit": "captions", "positives": "diagonal", "word_dim": 300,
    },
    "vse-infty": {
        "epochs": 25, "lr": 5e-4, "weight_decay": 1e-2, "clip": 2.0, "schedule": "step", "decay_every": 15, "warmup_steps": 0,
        "batch_images": 128, "captions_per_image": 1, "unit": "captions", "positives": "diagonal", "word_dim": 300,
        "cell_drop": 0.2, "word_drop": 0.2,
    },
    "vse+2ad": {
        "epochs": 25, "lr": 5e-4, "weight_decay": 1e-2, "clip": 2.0, "schedule": "step", "decay_every": 15, "warmup_steps": 0,
        "batch_images": 128, "captions_per_image": 1, "unit": "captions", "positives": "diagonal", "word_dim": 300,
        "cell_drop": 0.2, "word_drop": 0.2,
    },
    "dive": {
        "epochs": 80, "lr": 1e-3, "weight_decay": 1e-4, "clip": 1.0, "schedule": "cosine", "warmup_steps": 0,
        "batch_images": 200, "captions_per_image": 5, "word_dim": 300,
    },
}  # fmt: skip


def base_config(
    dataset: str = "scenes",
    data_root: str = "",
    preset: str = "quick",
    method: str = "dive",
    device: str = "auto",
    epochs: int = 0,
    seed: int = 0,
    **changes,
) -> RunConfig:
    """The run that a preset means for a method and data set; every notebook starts here.

    epochs: 0 keeps the preset's own number. changes: any field or option that RunConfig.but knows.
    Raises: BadInput for an unknown dataset, preset, method or device, negative epochs or seed.
    """
    for kind, given, known in (("dataset", dataset, DATASETS), ("preset", preset, PRESETS), ("method", method, RECIPES)):
        if given not in known:
            raise unknown(kind, given, known)
    if epochs < 0 or seed < 0:
        raise BadInput(f"epochs and seed must be 0 or more (epochs 0 = the preset's number), got epochs={epochs}, seed={seed}.")
    config = RunConfig(
        data=DataConfig(dataset=dataset, data_root=data_root), method=method, train=TrainConfig(seed=seed), device=resolve_device(device)
    )
    if preset == "published":
        size = {"size": "large"} if dataset == "scenes" else {}
        config = config.but(form="published", **size, **_PUBLISHED[method])
    else:
        absent = {"iterations"} - set(inspect.signature(RECIPES[method]).parameters)
        config = config.but(**{k: v for k, v in _SIZES[dataset, preset].items() if k not in absent})
    if epochs:
        config = config.but(epochs=epochs)
    return config.but(**changes)
