"""The run that a preset means for a method and a data set."""

import inspect

from xmr_core.base.errors import BadInput, unknown
from xmr_core.data.prepare import DATASETS, DataConfig
from xmr_core.methods.registry import RECIPES
from xmr_core.study.published_settings import published_settings
from xmr_core.training import TrainConfig
from xmr_core.training.runs.config import RunConfig, resolve_device

PRESETS = ("quick", "study", "published")
SEEDS = {"quick": 1, "study": 5, "published": 2}

# Settings of the matched form; options that a recipe does not have (iterations, say) are left out for it. 'photographs' stands for
# every data set but scenes; its study settings were chosen on Flickr8k's validation split.
_SIZES = {
    ("scenes", "quick"): {
        "size": "quick", "epochs": 8, "lr": 2e-3, "batch_images": 50, "captions_per_image": 2,
        "d": 64, "iterations": 2, "dropout": 0.0,
    },
    ("scenes", "study"): {
        "size": "study", "epochs": 8, "lr": 2e-3, "batch_images": 50, "captions_per_image": 2, "d": 128, "dropout": 0.0,
    },
    ("photographs", "quick"): {
        "epochs": 3, "lr": 2e-3, "batch_images": 128, "captions_per_image": 1, "d": 128, "iterations": 2,
    },
    ("photographs", "study"): {
        "epochs": 20, "lr": 1.5e-3, "batch_images": 64, "captions_per_image": 2, "weight_decay": 5e-2, "cell_drop": 0.5,
        "word_drop": 0.2, "d": 256, "iterations": 2, "dropout": 0.3, "views": 4, "val_images": 250,
    },
}  # fmt: skip


_CROPS = 1000  # different crops of a picture where a network is fine-tuned on pixels


def base_config(
    dataset: str = "scenes",
    data_root: str = "",
    preset: str = "quick",
    method: str = "dive",
    device: str = "auto",
    epochs: int = 0,
    seed: int = 0,
    published_for: str = "",
    **changes,
) -> RunConfig:
    """The run that a preset means for a method and data set; every notebook starts here.

    epochs: 0 keeps the preset's own number. published_for: the corpus whose settings the preset 'published' takes ('f30k',
    'coco', 'cub'; '' the first that the paper has). changes: any field or option that RunConfig.replace knows.
    Raises: BadInput for an unknown dataset, preset, method or device, negative epochs or seed, a corpus without settings.
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
        config = config.replace(form="published", **size, **published_settings(method, published_for, changes))
    else:
        absent = {"iterations"} - set(inspect.signature(RECIPES[method]).parameters)
        config = config.replace(
            **{k: v for k, v in _SIZES["scenes" if dataset == "scenes" else "photographs", preset].items() if k not in absent}
        )
        if dataset == "precomputed":  # no pictures to crop; the papers leave out a fifth of the regions
            config = config.replace(views=0, cell_drop=min(config.cell_drop, 0.2))
        if changes.get("fine_tune") in ("image", "both"):
            config = config.replace(views=_CROPS)
    if epochs:
        config = config.replace(epochs=epochs)
    return config.replace(**changes)
