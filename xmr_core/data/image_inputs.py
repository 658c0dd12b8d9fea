"""What a method is given of images: frozen features with their views, or pixels."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import import_named
from xmr_core.data.describer import Describer
from xmr_core.data.features.cells import CellDescriptor
from xmr_core.data.features.efficientnet_lite import RESOLUTIONS, WAYS, EfficientNetLiteGrid
from xmr_core.data.features.feature_cache import Extractor, cached_features, identity_of
from xmr_core.data.features.model_folder import find_pretrained
from xmr_core.data.features.pretrained_grid import PretrainedGrid, describe_vision
from xmr_core.data.features.reduce import reduced_features
from xmr_core.data.images.crops import TrainingCrops
from xmr_core.data.images.files import Crop
from xmr_core.data.inputs import ImageReader, feature_reader, pixel_reader
from xmr_core.data.networks import chosen_features

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
