"""How images become what a method reads: one description for those of a corpus and for any others."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from safetensors import SafetensorError, safe_open

from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.safe_open import require_plain, require_trusted
from xmr_core.base.types import Corpus, Features, Pixels
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import import_named
from xmr_core.data.inputs import ImageReader, as_pixels, feature_reader, pixel_reader
from xmr_core.features.cache import Extractor, Reduction, cached_features, identity_of, reduced_features
from xmr_core.features.cells import CellDescriptor
from xmr_core.features.efficientnet_lite import RESOLUTIONS, WAYS, EfficientNetLiteGrid, not_installed, packaged_weights
from xmr_core.features.images import Crop, Fit, TrainingCrops
from xmr_core.features.pretrained import ModelFolder, find_pretrained
from xmr_core.features.pretrained_images import PretrainedGrid, describe_vision

TENSORS, NETWORK = "images.safetensors", "image_model"  # a file, and a folder of a model of transformers
SUFFIXES = (".json", ".txt", ".model", ".safetensors")  # of a model of transformers
_REDUCED = 320  # default width of the principal components of a network's cells


@dataclass(frozen=True)
class Describer:
    """Images, uint8 "n h w 3" of `resolution` → Features or Pixels.

    kind: 'pixels', 'cells', an EfficientNet-Lite, 'pretrained', or the address of an extractor of one's own.
    extractor: None for pixels. reduction: None where cells keep their full width. pixels_fit: how images become squares
    where there is no extractor, which has its own.

    >>> Describer("cells", 16, CellDescriptor(16))(np.zeros((1, 16, 16, 3), np.uint8)).local_feats.shape
    torch.Size([1, 4, 92])
    """

    kind: str
    resolution: int
    extractor: Extractor | None = None
    reduction: Reduction | None = None
    pixels_fit: Fit | None = None

    @property
    def fit(self) -> Fit | None:
        """How images become squares before they are described; None for squashing."""
        return self.pixels_fit if self.extractor is None else getattr(self.extractor, "fit", None)

    def __call__(self, images: UInt8[np.ndarray, "n h w 3"]) -> Features | Pixels:
        return as_pixels(images) if self.extractor is None else self._reduced(self.extractor(images))

    def images_of(self, corpus: Corpus, progress: Callable | None = None) -> ImageReader:
        """Reader of all images of a corpus; frozen features are extracted once and cached on disk."""
        if self.extractor is None:
            return pixel_reader(corpus, self.resolution, fit=self.fit)
        features = cached_features(corpus, self.extractor, progress)
        return lambda rows: self._reduced(features[rows])

    def _reduced(self, features: np.ndarray) -> Features:
        parts = (features, None) if self.reduction is None else self.reduction(features)
        return feature_reader(*parts)(np.arange(len(features)))

    def write(self, folder: Path) -> dict:
        """Write everything it needs into a folder; returns its description, which `read` takes. Raises: CannotWrite."""
        tensors = {f"network.{name}": t for name, t in getattr(self.extractor, "weights", {}).items()}
        if self.reduction is not None:
            learned = vars(self.reduction)
            tensors |= {f"reduction.{name}": torch.from_numpy(np.array(x)) for name, x in learned.items()}
        if tensors:
            files.write_tensors(folder / TENSORS, tensors)
        if self.kind == "pretrained":
            copy_model(self.extractor.folder, folder / NETWORK)
        return {
            "kind": self.kind,
            "resolution": self.resolution,
            "identity": "" if self.extractor is None else self.extractor.identity,
            "reduced": self.reduction is not None,
            "tensors": bool(tensors),
        }

    @classmethod
    def read(cls, folder: Path, description: Mapping) -> "Describer":
        """The one that `write` wrote. Raises: BadInput for an extractor of one's own that cannot be imported here, or
        is not trusted; DamagedFile for tensors that are missing or do not fit."""
        kind, resolution = description["kind"], int(description["resolution"])
        network, learned = (_tensors(folder / TENSORS, prefix) for prefix in ("network.", "reduction."))
        extractor = reduction = None
        if kind in RESOLUTIONS:
            extractor = EfficientNetLiteGrid(kind, weights=network, identity=description["identity"])
        elif kind == "pretrained":
            extractor = PretrainedGrid(str(folder / NETWORK), resolution)
        elif kind != "pixels":
            require_trusted(kind, str(folder))
            extractor = CellDescriptor(resolution) if kind == "cells" else _own_extractor(kind)
        if description["reduced"]:
            if not {"components", "root_mean"} <= set(learned):
                raise DamagedFile(f"{folder / TENSORS} lacks the reduction. Copy the folder again.")
            reduction = Reduction(learned["components"].numpy(), learned["root_mean"].numpy())
        return cls(kind, resolution, extractor, reduction)


def copy_model(source: ModelFolder | str, folder: Path) -> None:
    """Copy what reading a model of transformers needs. Raises: BadInput for pickled weights; CannotWrite."""
    chosen = [path for path in find_pretrained(source).path.iterdir() if path.suffix in SUFFIXES]
    if not any(path.suffix == ".safetensors" for path in chosen):
        raise BadInput(f"{source} has no weights as safetensors, and pickled ones are not shared. Convert them first.")
    for path in files.make_folder(folder).iterdir():  # of another model that lay here
        if path.suffix in SUFFIXES and path.name not in {file.name for file in chosen}:
            path.unlink()
    for path in chosen:
        files.write_atomic(folder / path.name, path.read_bytes())


def _own_extractor(address: str) -> Extractor:
    """An extractor from outside this package; nothing else is called."""
    made = import_named(address, "features")
    names = Extractor.__annotations__
    extractor = made() if isinstance(made, type) and any(hasattr(made, name) for name in names) else None
    if absent := [name for name in names if not hasattr(extractor, name)]:
        raise BadInput(f"{address} is no extractor: it has no attribute {absent[0]!r}. See data.features.Extractor.")
    return extractor


def _tensors(path: Path, prefix: str) -> dict[str, torch.Tensor]:
    """Those of the tensors of a file, if there is one, whose names begin so, without that beginning."""
    try:
        with safe_open(path, "pt") as f:
            tensors = {name.removeprefix(prefix): f.get_tensor(name) for name in f.keys() if name.startswith(prefix)}  # noqa: SIM118
    except FileNotFoundError:
        return {}
    except (SafetensorError, OSError) as e:
        raise DamagedFile(f"{path} is not a whole safetensors file ({e}). Copy it again.") from None
    require_plain(tensors, str(path))
    return tensors


# The images of a corpus: frozen features with their views, or pixels.


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
    "features='auto' takes cells"
    """
    kind = chosen_features(config, corpus)
    if kind in RESOLUTIONS and packaged_weights(kind) is None:
        return f"none for features={config.features!r}: {not_installed(kind)}"
    return f"features={config.features!r} takes {kind} {config.image_model}".rstrip()


@dataclass(frozen=True)
class ImageInputs:
    """The images of a corpus as a method reads them.

    read: image rows → features or pixels. identity: names features and networks by content. sizes: those of the images
    in methods.Inputs. describer: any images, read the same way; None for a corpus of region features, whose detector is
    not part of this package.
    """

    read: ImageReader
    identity: str
    sizes: dict[str, object]
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
        sizes = {"image_width": width, "cells": cells, "ordered_cells": ordered, "resolution": 224}
        return ImageInputs(feature_reader(corpus.features), f"regions-{corpus.image_fingerprint}", sizes)
    resolution = int(corpus.about.get("resolution", 224))
    if kind == "pretrained" and not config.image_model:
        raise BadInput(f"features='pretrained' needs image_model, a vision model of transformers. {WAYS}.")
    learns = kind == "pretrained" and config.fine_tunes("image")
    if kind != "pixels" and not learns:
        return _frozen(config, corpus, kind, _extractor(kind, config, resolution, device), progress)
    network, identity = "", "pixels"
    if learns:
        network, identity = describe_vision(config.image_model), find_pretrained(config.image_model).identity
        resolution = json.loads(network)["scaling"]["resolution"]
    read = pixel_reader(corpus, resolution, _crops_by_view if config.views else None)
    sizes = {"image_width": 0, "cells": 0, "resolution": resolution, "image_network": network}
    return ImageInputs(read, identity, sizes, Describer("pixels", resolution))


def _extractor(kind: str, config: DataConfig, resolution: int, device: torch.device | str | None) -> Extractor:
    if kind == "cells":
        return CellDescriptor(resolution)
    if kind in RESOLUTIONS:
        return EfficientNetLiteGrid(kind, device)
    return PretrainedGrid(config.image_model, device=device) if kind == "pretrained" else _own_extractor(kind)


def _frozen(
    config: DataConfig, corpus: Corpus, kind: str, extractor: Extractor, progress: Callable | None
) -> ImageInputs:
    array, pooled, identity = cached_features(corpus, extractor, progress), None, identity_of(extractor)
    train, views = corpus.rows("train")[0], []
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
    sizes = {
        "image_width": array.shape[2],
        "cells": array.shape[1],
        "global_width": 0 if pooled is None else pooled.shape[1],
        "resolution": extractor.resolution,
    }
    describer = Describer(kind, extractor.resolution, extractor, reduction)
    return ImageInputs(feature_reader(array, pooled, view_arrays, train), identity, sizes, describer)


def _crops_by_view(rows: np.ndarray, view: np.ndarray) -> list[Crop]:
    """For pixels: view 0 is the image itself, view v the v-th crop."""
    return [TrainingCrops(int(v))(np.array([row]))[0] if v else Crop() for row, v in zip(rows, view, strict=True)]
