"""Which features 'auto' means for the images of a corpus, said before anything is computed."""

from xmr_core.base.types import Corpus
from xmr_core.data.config import DataConfig
from xmr_core.data.features.efficientnet_lite import RESOLUTIONS, not_installed, packaged_weights


def chosen_features(config: DataConfig, corpus: Corpus) -> str:
    """The features that a configuration means, with 'auto' resolved: an entry of FEATURES, or an address.

    >>> from xmr_core.data.scenes import load_scenes
    >>> chosen_features(DataConfig(), load_scenes("tiny"))
    'cells'
    """
    if config.features != "auto":
        return config.features
    if config.image_model:
        return "pretrained"
    if corpus.features is not None:
        return "regions"
    return "cells" if config.dataset == "scenes" else "efficientnet_lite0"


def planned_network(config: DataConfig, corpus: Corpus) -> str:
    """What will describe the images of a corpus, in a line for people; where nothing can, the line says what helps.

    >>> from xmr_core.data.scenes import load_scenes
    >>> planned_network(DataConfig(), load_scenes("tiny"))
    "features='auto' takes cells, the built-in descriptor, which needs no weights"
    """
    kind = chosen_features(config, corpus)
    if kind in RESOLUTIONS and packaged_weights(kind) is None:
        return f"none for features={config.features!r}: {not_installed(kind)}"
    described = dict.fromkeys(RESOLUTIONS, ", frozen, with the weights of its installed package") | {
        "regions": ", the features that the corpus brings",
        "cells": ", the built-in descriptor, which needs no weights",
    }
    return f"features={config.features!r} takes {kind}{described.get(kind, f' {config.image_model}')}".rstrip()
