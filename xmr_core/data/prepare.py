"""Which features 'auto' means for the images of a corpus, said before anything is computed."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.metadata import version

import numpy as np
import torch
from torch import nn

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput
from xmr_core.base.types import SPLITS, Corpus
from xmr_core.data.batches import Split
from xmr_core.data.caption_inputs import caption_inputs
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import DATASETS, READERS, corpus_of, import_named
from xmr_core.data.feature_extractor import Describer
from xmr_core.data.inputs import ImageReader, feature_reader, pixel_reader
from xmr_core.data.raw_inputs import RawInputs
from xmr_core.features.cache import Extractor, cached_features, identity_of, reduced_features
from xmr_core.features.cells import CellDescriptor
from xmr_core.features.efficientnet_lite import RESOLUTIONS, WAYS, EfficientNetLiteGrid, not_installed, packaged_weights
from xmr_core.features.images import Crop, TrainingCrops
from xmr_core.features.pretrained import find_pretrained
from xmr_core.features.pretrained_images import PretrainedGrid, describe_vision
from xmr_core.methods.common import Inputs


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


# What a method is given of images: frozen features with their views, or pixels.


_REDUCED = 320  # default width of the principal components of a network's cells


@dataclass(frozen=True)
class ImageInputs:
    """The images of a corpus as a method reads them.

    read: image rows → features or pixels. identity: names features and networks by content. width: of the local
    features, 0 for pixels. cells: local features per image. global_width: of the global feature, 0 for none.
    ordered: the cells have a fixed place. network: description (JSON) of a pretrained model that learns, or ''.
    describer: any images, uint8 "n h w 3" of this resolution, read the same way; None for a corpus of region features,
    whose detector is not part of this package.
    """

    read: ImageReader
    identity: str
    width: int = 0
    cells: int = 0
    global_width: int = 0
    ordered: bool = True
    views: int = 0
    network: str = ""
    resolution: int = 224
    describer: Describer | None = None


def image_inputs(
    config: DataConfig, corpus: Corpus, progress: Callable | None = None, device: torch.device | str | None = None
) -> ImageInputs:
    """Extract (once; cached) or open what the config names. Raises: BadInput for options that do not fit together."""
    kind = chosen_features(config, corpus)
    lacking = corpus.features if kind == "regions" else corpus.read_pixels
    if lacking is None or (kind == "regions" and config.views):
        raise BadInput(
            f"features={kind!r} and views={config.views} do not fit {config.dataset}: 'regions' needs a corpus that "
            "brings features, and all others, and views, one that brings images. Use features='auto' and views=0."
        )
    if kind == "regions":
        _, cells, width = corpus.features.shape
        ordered = bool(corpus.about.get("ordered_cells", False))
        identity = f"regions-{corpus.image_fingerprint}"
        return ImageInputs(feature_reader(corpus.features), identity, width, cells, ordered=ordered)
    resolution = int(corpus.about.get("resolution", 224))
    if kind == "pretrained" and not config.image_model:
        raise BadInput(f"features='pretrained' needs image_model, a vision model of transformers. {WAYS}.")
    if kind != "pixels" and not (kind == "pretrained" and config.fine_tunes("image")):
        return _frozen(config, corpus, kind, _extractor(kind, config, resolution, device), progress)
    network, identity = "", "pixels"
    if kind == "pretrained":
        network, identity = describe_vision(config.image_model), find_pretrained(config.image_model).identity
        resolution = json.loads(network)["scaling"]["resolution"]
    return ImageInputs(
        pixel_reader(corpus, resolution, _crops_by_view if config.views else None),
        identity,
        views=config.views,
        network=network,
        resolution=resolution,
        describer=Describer("pixels", resolution),
    )


def _extractor(kind: str, config: DataConfig, resolution: int, device: torch.device | str | None) -> Extractor:
    if kind == "cells":
        return CellDescriptor(resolution)
    if kind in RESOLUTIONS:
        return EfficientNetLiteGrid(kind, device)
    if kind == "pretrained":
        return PretrainedGrid(config.image_model, device=device)
    extractor = import_named(kind, "features")()
    if absent := [name for name in Extractor.__annotations__ if not hasattr(extractor, name)]:
        raise BadInput(f"the extractor {kind} has no attribute {absent[0]!r}. Give it what data.Extractor lists.")
    return extractor


def _frozen(
    config: DataConfig, corpus: Corpus, kind: str, extractor: Extractor, progress: Callable | None
) -> ImageInputs:
    array, pooled, identity = cached_features(corpus, extractor, progress), None, identity_of(extractor)
    train = corpus.rows("train")[0]
    views = []
    for crops in map(TrainingCrops, range(1, config.views + 1)):
        views.append((cached_features(corpus, extractor, progress, train, crops), f"{identity}-{crops.identity}"))
    width = config.reduce
    if width is None:
        is_network = isinstance(extractor, EfficientNetLiteGrid | PretrainedGrid)
        width = min(_REDUCED, array.shape[2]) if is_network else 0
    reduction, view_arrays = None, [(view, None) for view, _ in views]
    if width:
        (array, pooled), view_arrays, identity, reduction = reduced_features(corpus, array, identity, width, views)
    if views:
        identity = fingerprint.content_hash([identity, *[view_identity for _, view_identity in views]])

    return ImageInputs(
        feature_reader(array, pooled, view_arrays, train),
        identity,
        width=array.shape[2],
        cells=array.shape[1],
        global_width=0 if pooled is None else pooled.shape[1],
        views=config.views,
        resolution=extractor.resolution,
        describer=Describer(kind, extractor.resolution, extractor, reduction, config.image_model),
    )


def _crops_by_view(rows: np.ndarray, view: np.ndarray) -> list[Crop]:
    """For pixels: view 0 is the image itself, view v the v-th crop."""
    return [TrainingCrops(int(v))(np.array([row]))[0] if v else Crop() for row, v in zip(rows, view, strict=True)]


# From a data set's name to everything a method needs: corpus, cached features, words, splits and input sizes.


__all__ = ["DATASETS", "READERS", "SPLITS", "DataConfig", "Prepared", "prepare", "prepare_corpus"]

_REMEMBERED = 4  # prepared corpora of a process
_recent: "dict[tuple, Prepared]" = {}  # by configuration, what reads it, and the device


@dataclass(frozen=True)
class Prepared(RawInputs):
    """A corpus ready for training, which also reads images and sentences from outside.

    splits: 'train', 'val', 'test' → Split. identity: names corpus, features, words and sizes by content.
    coverage: share of the words of the training captions that have a word vector from a file, None without a file.
    """

    corpus: Corpus
    splits: dict[str, Split]
    identity: dict[str, str | int]
    config: DataConfig
    coverage: float | None

    def load_pretrained(self, method: nn.Module) -> None:
        """Load the weights of the pretrained models that a new method fine-tunes; it is built with random ones."""
        for kind, encoder in (("image", "image_encoder"), ("text", "caption_encoder")):
            if self.config.fine_tunes(kind):
                getattr(method, encoder).load_weights(getattr(self.config, f"{kind}_model"))


def prepare(
    config: DataConfig | Corpus, progress: Callable | None = None, device: torch.device | str | None = None
) -> Prepared:
    """Read, extract (once; cached on disk) and index a corpus. Equal configs in one process share one result.

    config: what to read, or a Corpus in memory (as `prepare_corpus`). progress: wraps lists of batches that are
    extracted; tqdm by default. device: where networks extract, None for the CPU. Other devices give features that
    differ in their last bits, and share the cache.
    Raises: BadInput for an unknown dataset or features, missing files, an empty split, or an empty caption.

    >>> import numpy as np
    >>> from xmr_core import data
    >>> prepared = data.prepare(data.from_arrays(np.eye(10), ["a dog", "two cats"] * 5))
    >>> prepared.splits["train"].images_at(np.array([0, 1])).local_feats.shape
    torch.Size([2, 1, 10])
    """
    if isinstance(config, Corpus):
        return prepare_corpus(config, progress=progress, device=device)
    key = (config, READERS.get(config.dataset), str(device or "cpu"))  # a reader may be registered anew
    if key not in _recent:
        _recent[key] = prepare_corpus(corpus_of(config), config, progress, device)
        while len(_recent) > _REMEMBERED:
            _recent.pop(next(iter(_recent)))
    return _recent[key]


def prepare_corpus(
    corpus: Corpus,
    config: DataConfig | None = None,
    progress: Callable | None = None,
    device: torch.device | str | None = None,
) -> Prepared:
    """Extract (once; cached on disk) and index a corpus in memory; `prepare` with its result not remembered.

    config: features and words; by default those of an empty DataConfig. Raises: as `prepare`.

    >>> from xmr_core.data.scenes import load_scenes
    >>> prepare_corpus(load_scenes("tiny"), DataConfig(size="tiny", features="pixels"), progress=iter).inputs.resolution
    64
    """
    config = config or DataConfig(dataset=corpus.name, corpus=corpus.fingerprint)
    for split in SPLITS:
        if not all(map(len, corpus.rows(split))):
            drawn = "by a hash" in str(corpus.about.get("splits", ""))  # chance: of 20 images, one folder in eight
            remedy = "Write a column 'split' beside the captions, or give more images" if drawn else "Check its lists"
            raise BadInput(
                f"{config.dataset} has no images with captions in its {split} split{', drawn by a hash' * drawn}. "
                f"{remedy} in {config.data_root!r} (`python -m xmr_core check` shows what was read)."
            )
    captions = caption_inputs(config, corpus, progress, device)
    images = image_inputs(config, corpus, progress, device)
    splits = {}
    for split in SPLITS:
        i, t = corpus.rows(split)
        views, classes = images.views if split == "train" else 0, None
        if "class" in corpus.images:
            classes = corpus.images["class"].iloc[i].astype("category").cat.codes.to_numpy()
        relevance = corpus.relevance_sets["annotated"](split)
        splits[split] = Split(i, t, images.read, captions.of_rows(t), relevance, views, classes)
    inputs = Inputs(
        image_width=images.width,
        cells=images.cells,
        vocabulary=len(captions.vocabulary.words) if captions.vocabulary else 0,
        word_dim=captions.vectors.shape[1] if captions.vectors is not None else config.word_dim,
        word_vectors=captions.vectors,
        ordered_cells=images.ordered,
        resolution=images.resolution,
        global_width=images.global_width,
        text_width=captions.width,
        image_network=images.network,
        text_network=captions.network,
    )
    sizes = {f.name: getattr(inputs, f.name) for f in fields(inputs) if f.name != "word_vectors"}
    identity = {"corpus": corpus.fingerprint, "features": images.identity, **captions.identity, **sizes}
    if images.network or captions.network:  # another version may build another network from the same description
        identity["transformers"] = version("transformers")
    return Prepared(
        inputs, captions.vocabulary, captions.pieces, images.describer, captions.read, corpus, splits, identity, config,
        captions.coverage, nearest=captions.nearest,
    )  # fmt: skip
