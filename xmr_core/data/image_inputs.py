"""The image side of what a method is given: frozen features with their views, or pixels."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from xmr_core.base import paths
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus, Features, Pixels
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import find
from xmr_core.data.features.cells import CellDescriptor
from xmr_core.data.features.feature_cache import Extractor, cached_features, identity_of
from xmr_core.data.features.mobilenet_v2 import MobileNetV2Grid
from xmr_core.data.features.model_folder import find_pretrained
from xmr_core.data.features.pretrained_grid import PretrainedGrid, describe_vision
from xmr_core.data.features.reduced_features import reduced_features
from xmr_core.data.images.crops import TrainingCrops
from xmr_core.data.images.files import Crop
from xmr_core.data.inputs import ImageReader, as_pixels, feature_reader, pixel_reader

_REDUCED = 320  # width of the principal components of a network's cells, unless another is asked for


@dataclass(frozen=True)
class ImageInputs:
    """read: image rows → features or pixels. width 0: pixels. network: configuration (JSON) of a pretrained model that learns, or ''.
    describe: any pictures, uint8 "n side side 3", the same way; None where the corpus brings regions, whose detector nobody has here.
    of: all pictures of another corpus, the same way, kept on disk; takes progress too."""

    read: ImageReader
    identity: str
    width: int = 0
    cells: int = 0
    whole_width: int = 0
    ordered: bool = True
    views: int = 0
    network: str = ""
    side: int = 224
    describe: Callable[[np.ndarray], Features | Pixels] | None = None
    of: Callable[..., ImageReader] | None = None


def image_inputs(
    config: DataConfig, corpus: Corpus, progress: Callable | None = None, device: torch.device | str | None = None
) -> ImageInputs:
    """Extract (once; cached) or open what the config asks for. Raises: BadInput for what does not go together or is not there."""
    kind = _kind(config, corpus)
    if kind == "regions":
        if corpus.features is None:
            raise BadInput(f"{config.dataset} brings no region features; use features='auto'.")
        if config.views:
            raise BadInput("views are crops of pictures, and this corpus brings features only; leave views at 0.")
        _, cells, width = corpus.features.shape
        identity = f"regions-{corpus.picture_fingerprint}"
        return ImageInputs(feature_reader(corpus.features), identity, width, cells, ordered=bool(corpus.about.get("ordered_cells", False)))
    if corpus.read_pixels is None:
        raise BadInput(f"{config.dataset} brings features and no pictures; features={kind!r} needs pictures. Use features='auto'.")
    own_side = int(corpus.about.get("side", 224))
    if kind == "pixels" or (kind == "pretrained" and config.fine_tunes("image")):
        network, identity, side = "", "pixels", own_side
        if kind == "pretrained":
            network, identity = describe_vision(config.image_model), find_pretrained(config.image_model).identity
            side = json.loads(network)["scaling"]["side"]
        reader = pixel_reader(corpus, side, _crops_by_view if config.views else None)
        other = lambda corpus, progress=None: pixel_reader(corpus, side)  # noqa: E731
        return ImageInputs(reader, identity, views=config.views, network=network, side=side, describe=as_pixels, of=other)
    return _frozen(config, corpus, _extractor(kind, config, own_side, device), progress)


def _kind(config: DataConfig, corpus: Corpus) -> str:
    if config.features != "auto":
        return config.features
    if config.image_model:
        return "pretrained"
    if corpus.features is not None:
        return "regions"
    return "cells" if config.dataset == "scenes" else "mobilenet_v2"


def _extractor(kind: str, config: DataConfig, side: int, device: torch.device | str | None) -> Extractor:
    if kind == "cells":
        return CellDescriptor(side)
    if kind == "mobilenet_v2":
        path = find(config.weights, config.data_root, "weights", "*mobilenet*v2*.safetensors")
        if path is None:
            raise BadInput(
                "no MobileNetV2 weights found in data_root, its folder 'weights' or beside it. Give the file: weights=FILE.safetensors, "
                "or another network: image_model=FOLDER."
            )
        return MobileNetV2Grid(path, device)
    if not config.image_model:
        raise BadInput("features='pretrained' needs image_model: a folder or hub name of a vision model of transformers.")
    return PretrainedGrid(config.image_model, device=device)


def _frozen(config: DataConfig, corpus: Corpus, extractor: Extractor, progress: Callable | None) -> ImageInputs:
    array, whole, identity = cached_features(corpus, extractor, progress), None, identity_of(extractor)
    train = corpus.rows("train")[0]
    views = []
    for number in range(1, config.views + 1):
        crops = TrainingCrops(number)
        views.append((cached_features(corpus, extractor, progress, train, crops), f"{identity}-{crops.identity}"))
    width = config.reduce if config.reduce >= 0 else (0 if isinstance(extractor, CellDescriptor) else min(_REDUCED, array.shape[2]))
    looks = [(view, None) for view, _ in views]
    if width:
        (array, whole), looks, identity, reduction = reduced_features(corpus, array, identity, width, views)
    if views:
        identity = paths.content_hash([identity, *[of for _, of in views]])

    def describe(pixels: np.ndarray) -> Features:
        seen, overall = reduction(extractor(pixels)) if width else (extractor(pixels), None)
        return feature_reader(seen, overall)(np.arange(len(seen)))

    def of(other: Corpus, progress: Callable | None = None) -> ImageReader:
        found = cached_features(other, extractor, progress)

        def read(rows: np.ndarray) -> Features:
            seen, overall = reduction(found[rows]) if width else (found[rows], None)
            return feature_reader(seen, overall)(np.arange(len(rows)))

        return read

    return ImageInputs(
        feature_reader(array, whole, looks, train),
        identity,
        array.shape[2],
        array.shape[1],
        0 if whole is None else whole.shape[1],
        views=config.views,
        side=extractor.side,
        describe=describe,
        of=of,
    )


def _crops_by_view(rows: np.ndarray, view: np.ndarray) -> list[Crop]:
    """For pixels: view 0 is the whole picture, view v the v-th crop."""
    return [TrainingCrops(int(v))(np.array([row]))[0] if v else Crop() for row, v in zip(rows, view, strict=True)]
