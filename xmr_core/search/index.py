"""Making an index: a folder with encoded images and captions, and with the model that encodes queries."""

from collections.abc import Callable, Iterable, Mapping
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
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Representation
from xmr_core.data.readers.folder import load_folder
from xmr_core.search.files import building, described, json_object, remove, require_own
from xmr_core.search.gallery import write_gallery
from xmr_core.search.library import Library, encoded_images, open_folder, open_library
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

    trained: a run, or a model of xmr.load, which needs no run here. Images alone are encoded and written in chunks, so
    they need not fit into memory; images with captions (docs/data.md) are encoded in one piece. progress: as of
    open_folder. Returns and raises as save_index; raises as open_folder.
    """
    corpus = load_folder(images)
    source = Source("folder", str(Path(images).expanduser().resolve()), corpus.fingerprint)
    if len(corpus.captions):
        return save_index(open_folder(trained, images, progress=progress), trained, folder, source, dtype)
    model, n = as_model(trained), len(corpus.images)
    chunks = encoded_images(model, model.raw.images_of(corpus, progress), n)
    items = {"label": model.method.name, "pixels": True, "image_ids": corpus.images.index.tolist()}
    items |= {"caption_ids": [], "texts": []}
    return _write(folder, model, source, dtype, {IMAGES: (chunks, n)}, items, {})


def save_index(
    library: Library, trained: TrainedRun | Model, folder: Path | str, source: Source, dtype: str = "float32"
) -> Path:
    """Write a library as an index. Returns the folder, which is an index once it holds index.json, written last.

    An older index in the folder is replaced. trained: the run or model whose method encoded the library; the model goes
    into the index, so that it opens anywhere. dtype: 'float32', or 'float16' for
    half the disk space.
    Raises: BadInput for a library of another method than the run's; CannotWrite where the folder refuses.
    """
    model = as_model(trained)
    weights, ours = model.method.state_dict(), library.method.state_dict()
    if weights.keys() != ours.keys() or not all(torch.equal(weights[n].cpu(), ours[n].cpu()) for n in weights):
        name = model.about.get("run", model.label)
        raise BadInput(f"the library was not encoded by the method of {name}; open it from that run or model.")
    galleries = {IMAGES: library.images} | ({} if library.captions is None else {CAPTIONS: library.captions})
    items = {"label": library.label, "pixels": library.pixels is not None}
    items |= {name: getattr(library, name).tolist() for name in ("image_ids", "caption_ids", "texts")}
    items["splits"] = None if library.splits is None else library.splits.tolist()
    chunks = {name: (_chunks(r), len(r)) for name, r in galleries.items()}
    return _write(folder, model, source, dtype, chunks, items, library.relevance_sets)


def _chunks(items: Representation) -> Iterable[Representation]:
    return (items[start : start + _WRITTEN] for start in range(0, len(items), _WRITTEN))


def require_index_place(folder: Path) -> None:
    """Refuse a folder in which an index would replace files that are of none. Raises: BadInput."""
    ours = (folder / "lock").exists() or {"format", "seal"} <= json_object(folder / MANIFEST).keys()
    require_own(folder, (MANIFEST, *GALLERIES, ITEMS, RELEVANCE, MODEL), ours, "index")


def _write(
    folder: Path | str,
    model: Model,
    source: Source,
    dtype: str,
    galleries: Mapping[str, tuple[Iterable[Representation], int]],
    items: dict,
    relevances: Mapping[str, Relevance],
) -> Path:
    folder = Path(folder).expanduser()
    require_index_place(folder)
    with building(folder):
        own = (MANIFEST, *GALLERIES, ITEMS, RELEVANCE)  # the list first, so that a killed process leaves no index
        remove(folder, own, remainders=own)
        for name, (chunks, n) in galleries.items():
            write_gallery(folder / name, chunks, n, dtype)
        files.write_json(folder / ITEMS, {**items, "relevance_sets": list(relevances)})
        arrays = {
            f"{kind}/{name}": np.ascontiguousarray(getattr(r, name))
            for kind, r in relevances.items()
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
