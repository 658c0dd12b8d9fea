"""Making an index: a folder with encoded images and captions, and with the model that encodes queries."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save as save_arrays

from xmr_core import __version__
from xmr_core.base import files
from xmr_core.base.errors import BadInput
from xmr_core.base.files import write_record
from xmr_core.base.provenance import commit
from xmr_core.base.types import Representation
from xmr_core.data.readers.folder import load_folder
from xmr_core.search.files import building, described, json_object, remove, require_own
from xmr_core.search.gallery import write_gallery
from xmr_core.search.library import Library, encoded_images, folder_library, open_library
from xmr_core.search.load import as_model
from xmr_core.search.model import Model
from xmr_core.search.model_folder import CONFIG, read_config, write_model
from xmr_core.training.runs import TrainedRun

FORMAT = 4
MANIFEST, ITEMS, MODEL = "index.json", "items.json", "model"  # the last is a folder
IMAGES, CAPTIONS, RELEVANCE = (f"{name}.safetensors" for name in ("images", "captions", "relevance"))
GALLERIES = (IMAGES, CAPTIONS)
_WRITTEN = 4096  # items written at a time


@dataclass(frozen=True)
class Source:
    """What was indexed. kind: 'split' of a run's own corpus, or 'folder'. name: of the split, or the folder's path.
    fingerprint: of the corpus."""

    kind: str
    name: str
    fingerprint: str


def index_split(run: TrainedRun, folder: Path | str, split: str = "test", dtype: str = "float32") -> Path:
    """Encode a split of a run's own corpus into an index. Returns and raises as save_index; raises as open_library."""
    source = Source("split", split, run.prepared().corpus.fingerprint)
    return save_index(open_library(run, split=split), run, folder, source, dtype)


def index_folder(
    trained: TrainedRun | Model,
    images: Path | str,
    folder: Path | str,
    dtype: str = "float32",
    progress: Callable | None = None,
) -> Path:
    """Encode all images of a folder and its sub-folders into an index.

    trained: a run, or a model of xmr.load, which needs no run here. Images are encoded and written in chunks, so they
    need not fit into memory. progress: as of open_folder. Returns and raises as save_index; raises as open_folder.
    """
    model, corpus = as_model(trained), load_folder(images)
    source = Source("folder", str(Path(images).expanduser().resolve()), corpus.fingerprint)
    library = folder_library(model, corpus, progress=progress)
    return save_index(library, model, folder, source, dtype, encoded_images(library))


def save_index(
    library: Library,
    trained: TrainedRun | Model,
    folder: Path | str,
    source: Source,
    dtype: str = "float32",
    images: Iterable[Representation] | None = None,
) -> Path:
    """Write a library as an index. Returns the folder, which is an index once it holds index.json, written last.

    An older index in the folder is replaced. trained: the run or model whose method encoded the library; it goes into
    the index, so that this opens anywhere. dtype: 'float32', or 'float16' for half the disk space. images: those of the
    library in chunks, where it does not hold them itself.
    Raises: BadInput for a library of another method than the run's; CannotWrite where the folder refuses.
    """
    model = as_model(trained)
    weights, ours = model.method.state_dict(), library.method.state_dict()
    if weights.keys() != ours.keys() or not all(torch.equal(weights[n].cpu(), ours[n].cpu()) for n in weights):
        name = model.about.get("run", model.label)
        raise BadInput(f"the library was not encoded by the method of {name}; open it from that run or model.")
    galleries = {IMAGES: (images or _chunks(library.images), len(library.image_ids))}
    if library.captions is not None:
        galleries[CAPTIONS] = _chunks(library.captions), len(library.caption_ids)
    items = {"label": library.label, "pixels": library.pixels is not None}
    items |= {name: getattr(library, name).tolist() for name in ("image_ids", "caption_ids", "texts")}
    items["splits"] = None if library.splits is None else library.splits.tolist()
    items["relevance_sets"] = list(library.relevance_sets)
    folder = Path(folder).expanduser()
    require_index_place(folder)
    with building(folder):
        own = (MANIFEST, *GALLERIES, ITEMS, RELEVANCE)  # the list first, so that a killed process leaves no index
        remove(folder, own, remainders=own)
        for name, (chunks, n) in galleries.items():
            write_gallery(folder / name, chunks, n, dtype)
        files.write_json(folder / ITEMS, items)
        arrays = {
            f"{kind}/{name}": np.ascontiguousarray(getattr(r, name))
            for kind, r in library.relevance_sets.items()
            for name in ("indptr", "indices")
        }
        files.write_atomic(folder / RELEVANCE, save_arrays(arrays))
        write_model(model, folder / MODEL)
        of_model = (f"{MODEL}/{name}" for name in (CONFIG, *read_config(folder / MODEL)["files"]))
        write_record(
            folder / MANIFEST,
            {
                "format": FORMAT,
                "code": {"xmr_core": __version__, "git_commit": commit()[0]},
                "source": asdict(source),
                "dtype": dtype,
                "files": {name: described(folder / name) for name in (*galleries, ITEMS, RELEVANCE, *of_model)},
            },
        )
    return folder


def _chunks(items: Representation) -> Iterable[Representation]:
    return (items[start : start + _WRITTEN] for start in range(0, len(items), _WRITTEN))


def require_index_place(folder: Path) -> None:
    """Refuse a folder in which an index would replace files that are of none. Raises: BadInput."""
    ours = (folder / "lock").exists() or {"format", "seal"} <= json_object(folder / MANIFEST).keys()
    require_own(folder, (MANIFEST, *GALLERIES, ITEMS, RELEVANCE, MODEL), ours, "index")
