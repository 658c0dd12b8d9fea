"""What identifies a run: its configuration, and versions of what decides its numbers; and the run that a preset means.

Raise a version when its numbers change, and never for a change of words. The code is hashed too, but only recorded:
tidying code trains nothing again. `tests/contract/test_numerics.py` holds numbers of every stage and method, and fails
when numbers change and the version here (or in the method's own file) does not.

A method from outside the package, and a reader or a frozen extractor without a version, count by the code they run too:
`own_code_version`.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import pandas as pd

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput, require_choice, require_fields
from xmr_core.base.fingerprint import content_hash, is_own_code, is_own_module, own_code_version
from xmr_core.base.machine import resolve_device
from xmr_core.data.batches import CELL_RULES, POSITIVES, UNITS, WORD_RULES
from xmr_core.data.corpora import READERS, corpus_of, reader_of
from xmr_core.data.prepare import DataConfig
from xmr_core.data.scenes.corpus import load_scenes
from xmr_core.evaluation.evaluate import Setting
from xmr_core.features.pretrained import dual_width
from xmr_core.methods.registry import FORMS, full_options, method_spec
from xmr_core.training.loop import TrainConfig

STAGES: dict[str, int] = {
    "training": 2,  # the loop, schedules, stages of fine-tuning, choice of the epoch
    "batches": 1,  # batches and augmentation
    "captions": 1,  # vocabulary, tokenisers, word pieces, word vectors
    "encoders": 2,  # encoders of images and captions
    "evaluation": 1,  # scores, ranks, metrics
    "features": 1,  # reduction, views and pixels; the extractors have versions of their own
}

# Readers of this package, by data set. The world of `scenes` has its own version in the fingerprint of the corpus.
READER_VERSIONS = {name: 1 for name in ("scenes", "flickr8k", "flickr30k", "coco", "cub", "precomputed", "folder")}


def component_versions(method: str, dataset: str) -> dict[str, int | str]:
    """The versions of the components that a method on a data set reaches, by component.

    A method or reader that is not the package's own (a reader may replace one under its name) counts by its code.

    >>> component_versions("dive", "scenes")["reader"]
    1
    """
    return {**STAGES, "method": _method_version(method), "reader": _reader_version(dataset)}


def code_of(method: str, dataset: str) -> str:
    """12 hex digits for the code of this package, and for a method's or reader's own code beside it; recorded with a
    run, no part of its identity."""
    versions = component_versions(method, dataset)
    own = [str(v) for v in (versions["method"], versions["reader"]) if isinstance(v, str)]
    return "-".join([fingerprint.package_hash(), *own])


def _method_version(method: str) -> int | str:
    """The version that the spec says, and the code of all that is the user's own, the file of an address included."""
    spec, module = method_spec(method), method.partition(":")[0] if ":" in method else ""
    parts = [part for part in (spec.matched, spec.published, spec.options) if part is not None and is_own_code(part)]
    codes = [own_code_version(part) for part in parts]
    codes += [fingerprint.own_module_version(module)] if module and is_own_module(module) else []
    named = [code for code in dict.fromkeys(codes) if code]  # of one file most often
    return "-".join([str(spec.version), *named]) if named else spec.version


def _reader_version(dataset: str) -> int | str:
    """The version of a reader of this package; that of its code for any other; 0 for a corpus in memory."""
    reader = reader_of(dataset) if ":" in dataset else {"scenes": load_scenes, **READERS}.get(dataset)
    if reader is None:
        return 0
    return own_code_version(reader) if is_own_code(reader) else READER_VERSIONS.get(dataset) or own_code_version(reader)


_ADDED = ("compile", "micro_batch", "accumulate", "checkpointing")  # once no fields: a run without them is as before
SCHEME = 2  # of identities: configuration and component versions; ids of scheme 1 hashed the code
_LIMITS = {
    "batch_images": (2, 1_000_000), "captions_per_image": (1, 10_000), "cell_drop": (0, 0.999999),
    "word_drop": (0, 0.999999), "erase": (0, 0.999999), "val_images": (0, 100_000_000), "processes": (1, 4096),
    "hard_negatives": (0, 1000),
}  # fmt: skip


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's numbers, and nothing else.

    method, options: see methods.registry.build. form: 'matched', or 'published' as the paper had it.
    batch_images, captions_per_image, unit, positives: the batches (data.batches.Batches). cell_drop, cell_rule,
    word_drop, word_rule, erase: what is left out of training inputs (data.batches.Augmentation). val_images: how many
    images of the validation split, with their captions, choose the epoch; 0 for all. device: where it trains, as torch
    names it ('cpu', 'cuda:1', 'mps'); 'auto' becomes the accelerator that is here, or 'cpu'.
    hard_negatives: how many images whose captions a model takes for an image's own follow it in a batch; 0 draws all
    images at random. mined_by: the id of the run that finds them, once; '' for the model that learns, anew before each
    epoch but the first. True pairs that the corpus knows are left out.
    processes: how many train it together (torchrun); another number gives other last bits, as threads do.

    >>> RunConfig().replace(alpha=8.0, epochs=3).options
    {'alpha': 8.0}
    """

    data: DataConfig = DataConfig()
    method: str = "dive"
    form: str = "matched"
    options: Mapping[str, object] = field(default_factory=dict)
    batch_images: int = 100
    captions_per_image: int = 2
    unit: str = "images"
    positives: str = "annotated"
    cell_drop: float = 0.0
    cell_rule: str = "each"
    word_drop: float = 0.0
    word_rule: str = "unknown"
    erase: float = 0.0
    val_images: int = 0
    hard_negatives: int = 0
    mined_by: str = ""
    train: TrainConfig = TrainConfig()
    device: str = "cpu"
    processes: int = 1

    def __post_init__(self):
        choices = {"form": FORMS, "unit": UNITS, "positives": POSITIVES}
        choices |= {"cell_rule": CELL_RULES, "word_rule": WORD_RULES}
        require_fields(self, _LIMITS, choices)
        if self.hard_negatives and self.unit != "images":
            raise BadInput(f"hard_negatives needs unit='images', got {self.unit!r}.")
        if self.device == "auto":  # what it means here is part of the run's identity
            object.__setattr__(self, "device", resolve_device("auto"))

    def replace(self, **changes) -> "RunConfig":
        """A copy with changes, checked at once.

        A name may be a field of this class, of TrainConfig, of DataConfig (in this order, where two have it), or an
        option of the method. Raises: BadInput for a name that is none of these, or a value out of range; it suggests a
        near name. Also for a method with an option that is named like a setting.
        """
        own, train, data = ({f.name for f in fields(kind)} for kind in (RunConfig, TrainConfig, DataConfig))
        spec, settings = method_spec(changes.get("method", self.method)), own | train | data
        offered = {*spec.options.names()}
        if taken := sorted(settings & offered):
            raise BadInput(f"the option {taken[0]} of {spec.id} is also a setting of every run; give it another name.")
        for name in changes:
            where = f"the fields of RunConfig, TrainConfig, DataConfig and method_spec({spec.id!r}).options"
            require_choice(f"option of {spec.id}", name, settings | offered, where)

        def part(names: set[str]) -> dict:
            return {name: value for name, value in changes.items() if name in names}

        options = {**changes.get("options", self.options), **part(offered)}
        spec.make_options(changes.get("form", self.form), options)  # which checks them
        # fields of one class change together, because some values are allowed only beside others
        made = replace(self, **part(own))
        of_train, of_data = replace(made.train, **part(train - own)), replace(made.data, **part(data - train - own))
        return replace(made, train=of_train, data=of_data, options=options)

    @property
    def setting(self) -> Setting:
        """What stands beside the run's numbers in tables."""
        data, train = self.data, self.train
        size, world = (data.size, data.world_seed) if data.dataset == "scenes" else ("", 0)
        return Setting(self.method, self.form, data.dataset, size, train.seed, train.epochs, world)

    def identity(self, prepared_identity: Mapping[str, str | int]) -> dict[str, Any]:
        """The JSON-able value whose hash names the run. Files count by their content, not by where they lie.

        The versions of torch and of the processor are recorded and are no part of it: they change the last bits of a
        number and not what it means, and an update must not cost hours of training. The device is part of it, because
        another device trains at another precision (TrainConfig.precision 'auto').
        """
        return {
            "scheme": SCHEME,
            "method": self.method,
            "form": self.form,
            "options": full_options(self.method, self.form, dict(self.options)),
            "batches": [self.batch_images, self.captions_per_image, self.unit, self.positives],
            "augment": [self.cell_drop, self.cell_rule, self.word_drop, self.word_rule, self.erase],
            "val_images": self.val_images,
            **({"mining": [self.hard_negatives, self.mined_by]} if self.hard_negatives else {}),
            "train": {name: v for name, v in asdict(self.train).items() if v or name not in _ADDED},
            "word_dim": self.data.word_dim,
            "data": dict(prepared_identity),
            "versions": component_versions(self.method, self.data.dataset),
            "device": self.device.partition(":")[0],  # which of several equal ones does not matter
            **({"processes": self.processes} if self.processes > 1 else {}),
        }

    def run_id(self, identity: object) -> str:
        """The readable name of the run with an identity: 'dive-scenes-s0-1a2b3c4d5e'."""
        return readable_id(method_spec(self.method).id, self.data.dataset, self.train.seed, identity)


def all_options(config: RunConfig) -> pd.DataFrame:
    """What can be given as name=value for the method of a configuration: columns name, value (that of the
    configuration), of ('method', 'run', 'training' or 'data') and help (the line of the documentation).

    >>> all_options(RunConfig(method="dive")).set_index("name").loc["d"].tolist()
    [128, 'method', 'width of the joint space']
    """
    spec = method_spec(config.method)
    made, names = spec.make_options(config.form, config.options), spec.options.names(config.form)
    helps = {f.name: f.metadata["help"] for f in fields(spec.options)}
    rows = [(name, getattr(made, name), "method", text) for name, text in helps.items() if name in names]
    for kind, part in (("run", config), ("training", config.train), ("data", config.data)):
        names = [f.name for f in fields(part) if f.name not in ("data", "train", "method", "options", "corpus")]
        own, said = f"(?:{'|'.join(names)})", " ".join(type(part).__doc__.split())  # names, a colon, and a sentence
        about = re.findall(rf"\b({own}(?:, {own})*): (.*?)[.;] ", said)
        helps = {name: text for together, text in about for name in together.split(", ")}
        rows += [(name, getattr(part, name), kind, helps.get(name, "")) for name in names]
    return pd.DataFrame(rows, columns=["name", "value", "of", "help"])


def readable_id(method: str, dataset: str, seed: int, identity: object) -> str:
    """Method, data set, seed, and 10 hex digits for an identity.

    >>> readable_id("vse++", "scenes", 0, {})[:-10]
    'vsepp-scenes-s0-'
    """
    return "-".join((id_word(method), id_word(dataset), f"s{seed}", content_hash(identity)[:10]))


def id_word(word: str) -> str:
    """A method or a data set as it stands in the id of a run.

    >>> id_word("vse++"), id_word("mine:read")
    ('vsepp', 'mine_read')
    """
    return re.sub(r"[^\w.-]+", "_", word.replace("+", "p"))


# `quick` answers in a minute, `study` is larger, with five seeds, `published` is the papers' scale
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
    changes: any field or option that RunConfig.replace knows. With dual_model, d is the width of its own vectors.
    Raises: BadInput for an unknown dataset, preset, method, option or device, a value of another type, epochs below 1,
    a negative seed, a corpus without published settings, or one for another preset.

    >>> base_config("scan", preset="study", device="cpu", seed=3).train.seed
    3
    """
    require_choice("preset", preset, PRESETS)
    if published_for and preset != "published":
        raise BadInput(f"published_for={published_for!r} belongs to preset='published', got preset={preset!r}.")
    spec, data, drawn = method_spec(method), DataConfig(dataset=dataset, data_root=data_root), dataset == "scenes"
    if not drawn:
        reader_of(dataset)
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
        if changes.get("fine_tune") in ("image", "both") or changes.get("dual_model"):
            config = config.replace(views=_CROPS)
        if changes.get("dual_model") and "d" not in absent:
            config = config.replace(d=dual_width(changes["dual_model"]))
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
