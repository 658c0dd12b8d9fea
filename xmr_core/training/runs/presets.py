"""The run that a preset means: `quick` answers in a minute, `study` is larger, with five seeds, `published` is the
papers' scale.
"""

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.machine import resolve_device
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import corpus_of, reader_of
from xmr_core.methods.registry import method_spec
from xmr_core.training.loop import TrainConfig
from xmr_core.training.runs.config import RunConfig

PRESETS = ("quick", "study", "published")

# Settings of the matched form; options that a method does not have (iterations, say) are left out for it. 'photographs'
# stands for every data set but scenes; its study settings were chosen on Flickr8k's validation split.
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
_OPTIONS = ("d", "iterations", "dropout")  # which of these settings are options of methods
_LEAST_STEPS = 140  # of `quick` on photographs: what its three epochs are on Flickr8k
_CROPS = 1000  # different crops of an image where a network is fine-tuned on pixels


def base_config(
    method: str = "dive",
    *,
    dataset: str = "scenes",
    data_root: str = "",
    preset: str = "quick",
    device: str = "auto",
    epochs: int | None = None,
    seed: int = 0,
    published_for: str = "",
    **changes,
) -> RunConfig:
    """The run that a preset means for a method and a data set; every notebook starts here.

    method: an id ('dive') or an address ('mypackage.mine:SPEC'). epochs: None keeps the preset's number; `quick` takes
    more, and smaller batches, where a corpus of one's own has few images, for which it is read. published_for: the
    corpus whose settings the preset 'published' takes ('f30k', 'coco', 'cub'; '' the first that the paper has).
    changes: any field or option that RunConfig.replace knows.
    Raises: BadInput for an unknown dataset, preset, method, option or device, a value of another type, epochs below 1,
    a negative seed, a corpus without published settings, or one for another preset.

    >>> base_config("scan", preset="study", device="cpu", seed=3).train.seed
    3
    """
    for name, value in {"dataset": dataset, "data_root": data_root, "preset": preset, "method": method}.items():
        if not isinstance(value, str):
            raise BadInput(f"{name} must be a word, got {value!r}.")
    require_choice("preset", preset, PRESETS)
    if published_for and preset != "published":
        raise BadInput(f"published_for={published_for!r} belongs to preset='published', got preset={preset!r}.")
    drawn = dataset == "scenes"
    if not drawn:
        reader_of(dataset)
    spec, data = method_spec(method), DataConfig(dataset=dataset, data_root=data_root)
    config = RunConfig(data=data, method=method, train=TrainConfig(seed=seed), device=resolve_device(device))
    if preset == "published":
        size = {"size": "large"} if drawn else {}
        config = config.replace(form="published", **size, **spec.published_settings(published_for, changes))
    else:
        sizes = _SIZES["scenes" if drawn else "photographs", preset]
        absent = set(_OPTIONS) - set(spec.options.names(changes.get("form", "matched")))
        config = config.replace(**{k: v for k, v in sizes.items() if k not in absent})
        if dataset == "precomputed":  # no images to crop; the papers leave out a fifth of the regions
            config = config.replace(views=0, cell_drop=min(config.cell_drop, 0.2))
        if changes.get("fine_tune") in ("image", "both"):
            config = config.replace(views=_CROPS)
    config = config.replace(**({} if epochs is None else {"epochs": epochs}), **changes)
    return _for_few_images(config) if preset == "quick" and epochs is None and "batch_images" not in changes else config


def _for_few_images(config: RunConfig) -> RunConfig:
    """The quick run with at least _LEAST_STEPS steps, in four batches an epoch or more. Only a corpus of one's own can
    be so small; one that cannot be read is refused where it is used."""
    if config.data.dataset not in ("folder", "precomputed") and ":" not in config.data.dataset:
        return config
    try:
        images = len(corpus_of(config.data).rows("train")[0])
    except Exception:  # also of a reader of one's own
        return config
    batch = min(config.batch_images, max(8, images // 4))
    steps = max(1, images // batch)
    return config.replace(batch_images=batch, epochs=max(config.train.epochs, -(-_LEAST_STEPS // steps)))
