"""An index: a library on disk, written in pieces, opened as memory maps, with the model that encodes queries.

A gallery, which is one safetensors file, holds the representations of all images or of all captions.
"""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from torch import Tensor

from xmr_core import __version__
from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput, DamagedFile, XmrError, require_choice
from xmr_core.base.files import atomic, write_record
from xmr_core.base.machine import commit
from xmr_core.base.paths import open_regular
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding, Relevance, Representation, Rows, widened
from xmr_core.data.readers.folder import load_folder
from xmr_core.models import model_folder
from xmr_core.models.model import Model
from xmr_core.retrieval import library as libraries
from xmr_core.retrieval.library import Library, Opened
from xmr_core.training.runs.folder import TrainedRun, load

FORMAT = 4
MANIFEST, ITEMS, MODEL = "index.json", "items.json", "model"  # the last is a folder
IMAGES, CAPTIONS, RELEVANCE = (f"{name}.safetensors" for name in ("images", "captions", "relevance"))
DTYPES = {"float32": torch.float32, "float16": torch.float16}
_OWN = (IMAGES, CAPTIONS, ITEMS, RELEVANCE, MODEL, MANIFEST)  # the list last: it says that all others are there
_ARRAYS = ("image_ids", "caption_ids", "texts")
_WRITTEN = 4096  # items written at a time
_AGAIN = "python -m xmr_core index RUN OUT, with --folder for images of your own"
_FIELDS = {Embedding: ("x",), EmbeddingSet: ("x", "mask"), GaussianEmbedding: ("mean", "log_std", "samples")}
_CODES = {torch.float32: "F32", torch.float16: "F16", torch.bool: "BOOL"}


class _Half(Rows):
    """Half precision on disk, float32 as soon as rows are taken. All scoring takes rows, block by block."""

    def __getitem__(self, rows):
        return super().__getitem__(rows)._map(lambda t: t.float() if t.is_floating_point() else t)


_HALF = {kind: type(f"Half{kind.__name__}", (_Half, kind), {}) for kind in _FIELDS}


def write_gallery(path: Path | str, chunks: Iterable[Representation], n: int, dtype: str = "float32") -> Path:
    """Write a gallery, with one chunk of it in memory at a time. The file is written completely or not at all, and any
    safetensors reader can read it.

    Attention and residuals are not stored.

    Args:
        chunks: the items in order, of one kind and one width. Sets that are smaller than those of the first chunk are
            padded. n: how many items they are together.
        dtype: 'float32', or 'float16' for half the disk space; cosines then differ by up to 0.0005.
    Raises: BadInput for chunks of several kinds or shapes, another number of items, or a number that is NaN or too
        large for float16; CannotWrite where the folder refuses.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_gallery(Path(folder) / "gallery.safetensors", [Embedding(torch.eye(2))], n=2)
    ...     open_gallery(path)[1:].x.tolist()
    [[0.0, 1.0]]
    """
    path, row, kind, places = Path(path), 0, None, {}
    require_choice("dtype", dtype, DTYPES)
    with atomic(path) as temporary, open(temporary, "wb") as f:
        for chunk in chunks:
            kind = kind or next((kind for kind in _FIELDS if isinstance(chunk, kind)), EmbeddingSet)
            if not isinstance(chunk, kind) or row + len(chunk) > n:
                raise BadInput(f"{n:,} items as {kind.__name__} do not end in this {type(chunk).__name__}.")
            places = places or _begin(f, kind, chunk, n, DTYPES[dtype])
            if kind is EmbeddingSet:
                chunk = widened(chunk, places["x"][1][0])
            for name, (start, shape, stored) in places.items():
                f.seek(start + row * math.prod(shape) * stored.itemsize)
                what = f"{name} of items {row:,} to {row + len(chunk) - 1:,}"
                f.write(memoryview(_fitted(getattr(chunk, name), shape, stored, what).numpy()).cast("B"))
            row += len(chunk)
        if row != n or not n:
            raise BadInput(f"{path.name}: {n:,} items were announced and {row:,} came; a gallery needs at least one.")
    return path


Place = tuple[int, tuple[int, ...], torch.dtype]  # first byte of a tensor, shape of an item, type in the file


def _begin(f: BinaryIO, kind: type, first: Representation, n: int, dtype: torch.dtype) -> dict[str, Place]:
    """Write the header. Returns name → its place."""
    places, header, end = {}, {"__metadata__": {"kind": kind.__name__}}, 0
    for name in _FIELDS[kind]:  # masks come last, so that numbers of 4 bytes begin at multiples of 4
        if (tensor := getattr(first, name)) is not None:
            shape, stored, start = tuple(tensor.shape[1:]), torch.bool if name == "mask" else dtype, end
            places[name], end = (start, shape, stored), start + n * math.prod(shape) * stored.itemsize
            header[name] = {"dtype": _CODES[stored], "shape": [n, *shape], "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)  # the format allows blanks after the header
    f.write(len(text).to_bytes(8, "little") + text)
    return {name: (8 + len(text) + offset, *rest) for name, (offset, *rest) in places.items()}


def _fitted(tensor: Tensor, shape: tuple, stored: torch.dtype, what: str) -> Tensor:
    """A chunk as it is stored. Raises: BadInput for rows of another shape, NaN, or numbers too large for float16."""
    if tuple(tensor.shape[1:]) != shape:
        raise BadInput(f"{what}: rows of {tuple(tensor.shape[1:])} do not fit those of the first chunk, {shape}.")
    out = tensor.detach().cpu().to(stored).contiguous()
    if out.isnan().any():
        raise BadInput(f"{what} hold NaN. Check their features, or the weights that made them.")
    if stored is torch.float16 and (out.isinf() & tensor.cpu().isfinite()).any():
        raise BadInput(f"{what} hold numbers beyond 65,504, the largest of float16. Use dtype='float32'.")
    return out


def open_gallery(path: Path | str) -> Representation:
    """The gallery in a file, memory-mapped: rows are read when they are taken, and a slice of rows copies nothing.

    Writing to the tensors changes neither the file nor other processes (copy on write). A file must not become shorter
    while it is open: the system ends a process that reads a mapped page that no longer exists. Rows of a gallery in
    half precision are float32.
    Raises: DamagedFile for a file that is missing, not a gallery, or shorter or longer than its header says.
    """
    path = Path(path)
    try:
        open_regular(path).close()  # safetensors would wait for a pipe
        with safe_open(path, "pt") as f:
            kind = {kind.__name__: kind for kind in _FIELDS}[f.metadata()["kind"]]
            tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118
        if not _fit_together(kind, tensors):
            raise ValueError("it has tensors that no gallery has")
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as e:
        raise DamagedFile(f"{path} cannot be opened as a gallery ({e}). Copy it again, or build it again.") from None
    half = any(tensor.dtype == torch.float16 for tensor in tensors.values())
    return (_HALF[kind] if half else kind)(**tensors)


def _fit_together(kind: type, tensors: dict[str, Tensor]) -> bool:
    """Whether all tensors have the types and shapes of one gallery: as many items, and a mask as wide as the sets."""
    axes = {"mask": 2, "samples": 3, "x": 3 if kind is EmbeddingSet else 2}
    named = {*_FIELDS[kind]} - {"samples"} <= {*tensors} <= {*_FIELDS[kind]}
    fit = [t.ndim == axes.get(n, 2) and (t.dtype in DTYPES.values()) == (n != "mask") for n, t in tensors.items()]
    return named and all(fit) and len({t.shape[: 2 if kind is EmbeddingSet else 1] for t in tensors.values()}) == 1


def index_split(run: TrainedRun, folder: Path | str, split: str = "test", dtype: str = "float32") -> Path:
    """Encode a split of a run's own corpus into an index. Returns and raises as save_index; raises as open_library."""
    return save_index(libraries.open_library(run, split=split), folder, dtype)


def index_folder(trained: TrainedRun | Model, images: Path | str, folder: Path | str, dtype: str = "float32") -> Path:
    """Encode all images of a folder and its sub-folders into an index.

    trained: a run, or a model of xmr.load, which needs no run here. Images are encoded and written in chunks, so they
    need not fit into memory. Image files that cannot be read are left out, and listed in index.json. Returns and raises
    as save_index; warns and raises as open_folder.
    """
    if Path(folder).resolve() == Path(images).resolve():
        raise BadInput(f"an index in {folder} would lie among the images. Choose another folder for it.")
    return save_index(libraries.folder_library(trained, images), folder, dtype)


def save_index(library: Library, folder: Path | str, dtype: str = "float32") -> Path:
    """Write a library, with its model, as an index. Returns the folder, which is an index once it holds index.json,
    written last. An older index in the folder can be used until it is replaced at the end.

    dtype: 'float32', or 'float16' for half the disk space. Raises: BadInput for a folder with files of these names that
        are of no index; CannotWrite where the folder refuses.
    """
    folder = files.named(folder, "index")
    ours = {"format", "seal"} <= model_folder.json_object(folder / MANIFEST).keys()
    model_folder.require_own(folder, _OWN, ours, "index")
    galleries = {IMAGES: libraries.encoded_images(library) if library.images is None else _chunks(library.images)}
    if library.captions is not None:
        galleries[CAPTIONS] = _chunks(library.captions)
    items = {"label": library.label, "pixels": library.pixels is not None}
    items |= {name: getattr(library, name).tolist() for name in _ARRAYS}
    items["splits"] = None if library.splits is None else library.splits.tolist()
    items["relevance_sets"], arrays = list(library.relevance_sets), {}
    for kind, relevance in library.relevance_sets.items():
        for name in ("indptr", "indices"):
            arrays[f"{kind}/{name}"] = np.ascontiguousarray(getattr(relevance, name))
    with files.rebuilt(folder, _OWN) as place:
        for name, chunks in galleries.items():
            write_gallery(place / name, chunks, len(library.ids(Path(name).stem)), dtype)
        files.write_json(place / ITEMS, items)
        files.write_atomic(place / RELEVANCE, save_arrays(arrays))
        listed = model_folder.write_into(place / MODEL, library.model, folder / MODEL)
        of_model = (model_folder.CONFIG, *listed)
        written = (*galleries, ITEMS, RELEVANCE, *(f"{MODEL}/{name}" for name in of_model))
        about = {"format": FORMAT, "code": {"xmr_core": __version__, "git_commit": commit()[0]}}
        about |= {"source": library.source, "skipped": dict(library.skipped), "dtype": dtype}
        about["files"] = {name: model_folder.described(place / name) for name in written}
        write_record(place / MANIFEST, about)
    return folder


def _chunks(items: Representation) -> Iterable[Representation]:
    return (items[start : start + _WRITTEN] for start in range(0, len(items), _WRITTEN))


@files.settled(_OWN)
def open_index(folder: Path | str, verify: bool = False, images: Path | str = "") -> Library:
    """An index as a library, for rank and search. Items are memory-mapped, so a million images open in about a second,
    most of which is spent on their names.

    Sentences and images as queries need only the files of the index, which hold the model. Showing indexed images, and
    explaining by their cells, reads the images themselves at first use: those of a folder from where they were, or from
    `images` if they were moved; those of a run's own split from that run.
    verify: compare the digests of all files, also of those of more than 1 GiB, whose sizes and headers are looked at
    anyway. While another process builds the index again, the old one is opened until the new one is whole.

    Raises: BadInput for a folder without a finished index, or one of another format; DamagedFile for a file that is
        missing, cut or altered. Every message says what to do.
    """
    folder = files.existing(folder, "index")
    try:
        about = model_folder.read_manifest(folder / MANIFEST, FORMAT, _AGAIN)
        model_folder.check_files(folder, about["files"], _AGAIN, verify, (ITEMS, RELEVANCE, IMAGES))
        model, items = model_folder.read_model(folder / MODEL, verify=False), files.read_json(folder / ITEMS)
        galleries = [open_gallery(folder / name) if name in about["files"] else None for name in (IMAGES, CAPTIONS)]
        ids, caption_ids, texts = (np.array(items[name], object) for name in _ARRAYS)
        splits = None if items.get("splits") is None else np.array(items["splits"], object)
        arrays = load_arrays((folder / RELEVANCE).read_bytes())
        relevances = {
            kind: Relevance(arrays[f"{kind}/indptr"], arrays[f"{kind}/indices"], caption_ids, ids)
            for kind in items["relevance_sets"]
        }
        pairs = zip((*galleries, texts), (ids, caption_ids, caption_ids), strict=True)
        if any(held is not None and len(held) != len(named) for held, named in pairs):
            raise ValueError(f"{ITEMS} does not fit the galleries")
        source = {name: str(about["source"][name]) for name in ("kind", "name", "fingerprint")}
        skipped = dict(about.get("skipped", {}))
        return Library(
            items["label"], model, *galleries, ids, caption_ids, texts, relevances,
            **libraries.readers(lambda: _opened(model, source, images, skipped), items["pixels"]), splits=splits,
            source=source, skipped=skipped, folder=folder, about=about,
        )  # fmt: skip
    except XmrError:
        raise
    except Exception as e:  # what hostile lists and arrays can raise is not limited
        reason = f"{type(e).__name__}: {str(e)[:100]}"
        raise DamagedFile(f"{folder} is no index of this package ({reason}). Build it: {_AGAIN}.") from None


def _opened(model: Model, source: dict, moved: Path | str, skipped: dict) -> Opened:
    """The indexed images themselves."""
    name, run_id = source["name"], str(model.about.get("run", ""))
    if source["kind"] == "folder":
        if not Path(place := moved or name).expanduser().is_dir():
            raise BadInput(f"the indexed images are not in {place} any more. Give their place: images=FOLDER.")
        opened = libraries.of_folder(model, load_folder(place), skipped)
    else:
        try:
            run = load(run_id)
        except BadInput:
            where = f"the {name} split of run {run_id}, which is not in {paths.root() / 'runs'}"
            raise BadInput(f"the images of this index are those of {where}. Set XMR_HOME to its folder.") from None
        opened = libraries.of_split(run.prepared(), name)
    if opened[0].fingerprint != source["fingerprint"]:
        raise BadInput(f"{name} has changed since it was indexed. Build the index again: {_AGAIN}.")
    return opened
