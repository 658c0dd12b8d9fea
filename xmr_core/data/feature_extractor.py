"""How raw images become what a method reads, as one object that can be written to a folder and read again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from safetensors import SafetensorError, safe_open

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import write_tensors
from xmr_core.base.safe_open import require_plain, require_trusted
from xmr_core.base.types import Corpus, Features, Pixels
from xmr_core.data.corpora import import_named
from xmr_core.data.inputs import ImageReader, as_pixels, feature_reader, pixel_reader
from xmr_core.features.cache import Extractor, Reduction, cached_features
from xmr_core.features.cells import CellDescriptor
from xmr_core.features.efficientnet_lite import RESOLUTIONS, EfficientNetLiteGrid
from xmr_core.features.images import Fit
from xmr_core.features.pretrained import find_pretrained
from xmr_core.features.pretrained_images import PretrainedGrid

TENSORS, NETWORK = "images.safetensors", "image_model"  # a file, and a folder of a model of transformers
SUFFIXES = (".json", ".txt", ".model", ".safetensors")  # of a model of transformers


@dataclass(frozen=True)
class Describer:
    """Images, uint8 "n h w 3" of `resolution` → Features or Pixels.

    kind: 'pixels', 'cells', an EfficientNet-Lite, 'pretrained', or the address of an extractor of one's own.
    extractor: None for pixels. reduction: None where cells keep their full width. source: of a pretrained network.
    pixels_fit: how images become squares where there is no extractor, which has its own.

    >>> Describer("cells", 16, CellDescriptor(16))(np.zeros((1, 16, 16, 3), np.uint8)).local_feats.shape
    torch.Size([1, 4, 92])
    """

    kind: str
    resolution: int
    extractor: Extractor | None = None
    reduction: Reduction | None = None
    source: str = ""
    pixels_fit: Fit | None = None

    @property
    def fit(self) -> Fit | None:
        """How images become squares before they are described; None for squashing."""
        return self.pixels_fit if self.extractor is None else getattr(self.extractor, "fit", None)

    def __call__(self, images: UInt8[np.ndarray, "n h w 3"]) -> Features | Pixels:
        if self.extractor is None:
            return as_pixels(images)
        return self._reduced(self.extractor(images))

    def images_of(self, corpus: Corpus, progress: Callable | None = None) -> ImageReader:
        """Reader of all images of a corpus; frozen features are extracted once and cached on disk."""
        if self.extractor is None:
            return pixel_reader(corpus, self.resolution, fit=self.fit)
        features = cached_features(corpus, self.extractor, progress)
        return lambda rows: self._reduced(features[rows])

    def write(self, folder: Path) -> dict:
        """Write everything it needs into a folder; returns its description, which `read` takes. Raises: CannotWrite."""
        tensors = {}
        if hasattr(self.extractor, "weights"):
            tensors |= {f"network.{n}": t.detach().cpu().contiguous() for n, t in self.extractor.weights().items()}
        if self.reduction is not None:
            tensors |= {f"reduction.{name}": torch.from_numpy(x) for name, x in self.reduction.numbers().items()}
        if tensors:
            write_tensors(folder / TENSORS, tensors)
        if self.kind == "pretrained":
            copy_model(self.source, folder / NETWORK)
        return {
            "kind": self.kind,
            "resolution": self.resolution,
            "identity": "" if self.extractor is None else self.extractor.identity,
            "reduced": self.reduction is not None,
            "tensors": bool(tensors),
        }

    @classmethod
    def read(cls, folder: Path, description: Mapping) -> "Describer":
        """The one that `write` wrote. Raises: BadInput for an extractor of one's own that cannot be imported here;
        DamagedFile for tensors that are missing or do not fit."""
        kind, resolution = description["kind"], int(description["resolution"])
        network, learned = (_tensors(folder / TENSORS, prefix) for prefix in ("network.", "reduction."))
        extractor, reduction, source = None, None, ""
        try:
            if kind in RESOLUTIONS:
                extractor = EfficientNetLiteGrid.from_weights(kind, network, description["identity"])
            elif kind == "cells":
                extractor = CellDescriptor(resolution)
            elif kind == "pretrained":
                source = str(folder / NETWORK)
                extractor = PretrainedGrid(source, resolution=resolution)
            elif kind != "pixels":
                extractor = _own_extractor(kind, folder)
            if description["reduced"]:
                reduction = Reduction.from_numbers({name: t.numpy() for name, t in learned.items()})
        except KeyError as e:
            raise DamagedFile(f"{folder / TENSORS} lacks {e}. Copy the folder again.") from None
        return cls(kind, resolution, extractor, reduction, source)

    def _reduced(self, features: np.ndarray) -> Features:
        parts = (features, None) if self.reduction is None else self.reduction(features)
        return feature_reader(*parts)(np.arange(len(features)))


def copy_model(name: str, folder: Path) -> None:
    """Copy what reading a model of transformers (a local folder or a hub name) needs. Raises: BadInput for pickled
    weights; CannotWrite."""
    source = find_pretrained(name).path
    files.make_folder(folder)
    chosen = [path for path in source.iterdir() if path.suffix in SUFFIXES]
    if not any(path.suffix == ".safetensors" for path in chosen):
        raise BadInput(f"{source} has no weights as safetensors, and pickled ones are not shared. Convert them first.")
    for path in folder.iterdir():  # of another model that lay here
        if path.suffix in SUFFIXES and path.name not in {file.name for file in chosen}:
            path.unlink()
    for path in chosen:
        files.write_atomic(folder / path.name, path.read_bytes())


def _own_extractor(address: str, source: Path) -> Extractor:
    """Nothing but an extractor is called, whatever a folder names, and that only if its user trusts the module."""
    require_trusted(address, str(source))
    made = import_named(address, "features")
    if not isinstance(made, type) or not all(hasattr(made, name) for name in ("identity", "shape", "resolution")):
        raise BadInput(f"{address!r} is no extractor (data.features.feature_cache.Extractor). Do not use this folder.")
    return made()


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
