"""An index: a folder with everything encoded once, and the method that encodes queries."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import filelock
import numpy as np
import torch
from safetensors.numpy import save as save_arrays

from xmr_core import __version__
from xmr_core.base import paths
from xmr_core.base.errors import BadInput
from xmr_core.base.provenance import commit
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Representation
from xmr_core.data.readers.folder import load_folder
from xmr_core.search.files import described, start_anew, write_manifest
from xmr_core.search.gallery import read_header, write_gallery
from xmr_core.search.library import Library, open_folder, open_library
from xmr_core.training.runs import TrainedRun

FORMAT = 1
MANIFEST, IMAGES, CAPTIONS, ITEMS, RELEVANCE, METHOD = (
    "index.json", "images.safetensors", "captions.safetensors", "items.json", "relevance.safetensors", "method.safetensors",
)  # fmt: skip
GALLERIES = (IMAGES, CAPTIONS)
_CHUNK = 256  # items encoded at a time, as explore does: the same bits
_WRITTEN = 4096  # items written at a time


@dataclass(frozen=True)
class Source:
    """What was indexed. kind: 'split' of the run's own corpus, or 'folder'. name: of the split, or the folder's path. fingerprint: of the corpus."""

    kind: str
    name: str
    fingerprint: str


def index_split(run: TrainedRun, folder: Path | str, split: str = "test", dtype: str = "float32") -> Path:
    """Encode a split of a run's own corpus into an index. Returns and raises as save_index, and as explore.open_library."""
    return save_index(open_library(run, split=split), run, folder, Source("split", split, run.prepared().corpus.fingerprint), dtype)


def index_folder(run: TrainedRun, pictures: Path | str, folder: Path | str, dtype: str = "float32", progress: Callable | None = None) -> Path:
    """Encode all pictures of a folder and its sub-folders into an index.

    Pictures alone are encoded and written in pieces, so that they need not fit into memory; a folder with captions (data.folder) is
    encoded whole. progress: as of explore.open_folder. Returns and raises as save_index, and as explore.open_folder.
    """
    corpus = load_folder(pictures)
    source = Source("folder", str(Path(pictures).expanduser().resolve()), corpus.fingerprint)
    if len(corpus.captions):
        return save_index(open_folder(run, pictures, progress=progress), run, folder, source, dtype)
    method, n = run.method(), len(corpus.images)
    inputs = run.prepared().images_of(corpus, progress)

    def encoded():
        for at in range(0, n, _CHUNK):
            with torch.inference_mode():
                yield method.encode_images(inputs(np.arange(at, min(at + _CHUNK, n))).to(method.device)).to("cpu")

    told = {"label": run.config.method, "pixels": True, "image_ids": corpus.images.index.tolist(), "caption_ids": [], "texts": []}
    return _write(folder, run, source, dtype, {IMAGES: (encoded(), n)}, told, {})


def save_index(library: Library, run: TrainedRun, folder: Path | str, source: Source, dtype: str = "float32") -> Path:
    """Write a library as an index. Returns the folder; it counts as an index once index.json stands in it, which is written last.

    An index that was there is replaced. run: whose method encoded the library. dtype: 'float32', or 'float16' for half the disk.
    Raises: BadInput for a library of another method than the run's; CannotWrite where the folder refuses.
    """
    weights = run.weights()
    ours = library.method.state_dict()
    if weights.keys() != ours.keys() or not all(torch.equal(weights[name], ours[name].cpu()) for name in weights):
        raise BadInput(f"the library was not encoded by the method of run {run.id}; open it from that run.")
    sides = {IMAGES: library.images} | ({} if library.captions is None else {CAPTIONS: library.captions})
    told = {
        "label": library.label, "pixels": library.pixels is not None,
        **{name: getattr(library, name).tolist() for name in ("image_ids", "caption_ids", "texts")},
    }  # fmt: skip
    return _write(folder, run, source, dtype, {name: (_pieces(r), len(r)) for name, r in sides.items()}, told, library.judges)


def _pieces(items: Representation) -> Iterable[Representation]:
    return (items[at : at + _WRITTEN] for at in range(0, len(items), _WRITTEN))


def _write(
    folder: Path | str,
    run: TrainedRun,
    source: Source,
    dtype: str,
    sides: Mapping[str, tuple[Iterable[Representation], int]],
    told: dict,
    judges: Mapping[str, Relevance],
) -> Path:
    folder = paths.make_folder(Path(folder).expanduser())
    with filelock.FileLock(folder / "lock"):  # two builds at once would mix their files
        start_anew(folder / MANIFEST, (*GALLERIES, ITEMS, RELEVANCE, METHOD))
        for name, (chunks, n) in sides.items():
            write_gallery(folder / name, chunks, n, dtype)
        paths.write_json(folder / ITEMS, {**told, "judges": list(judges)})
        # judgments are pairs of positions, caption × image
        pairs = {f"{kind}/{name}": getattr(r, name) for kind, r in judges.items() for name in ("indptr", "indices")}
        paths.write_atomic(folder / RELEVANCE, save_arrays({name: np.ascontiguousarray(a) for name, a in pairs.items()}))
        run.export(folder / METHOD)
        names = [*sides, ITEMS, RELEVANCE, METHOD]
        tensors = {name: {t: [code, *shape] for t, (shape, code, _) in read_header(folder / name)[2].items()} for name in sides}
        write_manifest(
            folder / MANIFEST,
            {
                "format": FORMAT,
                "code": {"xmr_core": __version__, "git_commit": commit()[0]},
                "run": run_identity(run),
                "source": asdict(source),
                "items": {"images": len(told["image_ids"]), "captions": len(told["caption_ids"])},
                "dtype": dtype,
                "tensors": tensors,
                "files": {name: described(folder / name) for name in names},
            },
        )
    return folder


def run_identity(run: TrainedRun) -> dict:
    """What ties an index to one trained method: another training, even of the same id, has other weights."""
    config = run.config
    return {
        "id": run.id, "method": config.method, "form": config.form, "options": dict(config.options), "dataset": config.data.dataset,
        "weights": run.provenance.files["model.safetensors"],
    }  # fmt: skip
