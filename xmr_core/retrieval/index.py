"""The representations of all items of a gallery in one safetensors file: written in pieces, opened as a memory map."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from torch import Tensor

from xmr_core import __version__
from xmr_core.base import files, paths
from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput, DamagedFile, XmrError
from xmr_core.base.files import atomic, write_record
from xmr_core.base.machine import commit
from xmr_core.base.relevance import Relevance
from xmr_core.base.safe_open import open_regular
from xmr_core.base.types import (
    Corpus,
    Embedding,
    EmbeddingSet,
    Features,
    GaussianEmbedding,
    Pixels,
    Representation,
    Rows,
    widened,
)
from xmr_core.data.inputs import ImageReader
from xmr_core.data.readers.folder import load_folder
from xmr_core.models.load import as_model
from xmr_core.models.model import Model
from xmr_core.models.model_folder import (
    CONFIG,
    building,
    check_files,
    described,
    json_object,
    read_config,
    read_manifest,
    read_model,
    remove,
    require_own,
    write_model,
)
from xmr_core.retrieval.library import Library, encoded_images, folder_library, open_library
from xmr_core.training.runs.folder import TrainedRun, load

DTYPES = {"float32": torch.float32, "float16": torch.float16}
_FIELDS = {Embedding: ("x",), EmbeddingSet: ("x", "mask"), GaussianEmbedding: ("mean", "log_std", "samples")}
_KIND = {kind.__name__: kind for kind in _FIELDS}
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
                raise BadInput(
                    f"{path.name}: {n:,} items as {kind.__name__} were announced; "
                    f"after {row:,} came {len(chunk):,} as {type(chunk).__name__}."
                )
            places = places or _begin(f, kind, chunk, n, DTYPES[dtype])
            if kind is EmbeddingSet:
                chunk = widened(chunk, places["x"][1][0])
            for name, (start, shape, stored) in places.items():
                what = f"{name} of items {row:,} to {row + len(chunk) - 1:,}"
                f.seek(start + row * math.prod(shape) * stored.itemsize)
                f.write(memoryview(_fitted(getattr(chunk, name), shape, stored, what).numpy()).cast("B"))
            row += len(chunk)
        if row != n or not n:
            raise BadInput(f"{path.name}: {n:,} items were announced and {row:,} came; a gallery needs at least one.")
    return path


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
            kind = _KIND[f.metadata()["kind"]]
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
    return (
        {*_FIELDS[kind]} - {"samples"} <= {*tensors} <= {*_FIELDS[kind]}
        and all(t.ndim == axes.get(name, 2) for name, t in tensors.items())
        and all(t.dtype in ([torch.bool] if name == "mask" else DTYPES.values()) for name, t in tensors.items())
        and len({len(t) for t in tensors.values()}) == 1
        and ("mask" not in tensors or tensors["mask"].shape == tensors["x"].shape[:2])
    )


def _begin(
    f, kind: type, first: Representation, n: int, dtype: torch.dtype
) -> dict[str, tuple[int, tuple[int, ...], torch.dtype]]:
    """Write the header. Returns name → (byte at which its numbers begin, shape of an item, type in the file)."""
    places, header, start = {}, {"__metadata__": {"kind": kind.__name__}}, 0
    for name in _FIELDS[kind]:  # masks come last, so that numbers of 4 bytes begin at multiples of 4
        if (tensor := getattr(first, name)) is None:
            continue
        shape, stored = tuple(tensor.shape[1:]), torch.bool if name == "mask" else dtype
        places[name], end = (start, shape, stored), start + n * math.prod(shape) * stored.itemsize
        header[name] = {"dtype": _CODES[stored], "shape": [n, *shape], "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)  # the format allows blanks after the header
    f.write(len(text).to_bytes(8, "little") + text)
    return {name: (8 + len(text) + offset, *rest) for name, (offset, *rest) in places.items()}


def _fitted(tensor: Tensor, shape: tuple, stored: torch.dtype, what: str) -> Tensor:
    """A chunk as it is stored. Raises: BadInput for rows of another shape, NaN, or numbers too large for float16."""
    if tuple(tensor.shape[1:]) != shape:
        raise BadInput(f"{what}: rows of {tuple(tensor.shape[1:])} do not fit those of the first chunk, {shape}.")
    if tensor.is_floating_point() and tensor.isnan().any():
        raise BadInput(f"{what} hold NaN. Check their features, or the weights that made them.")
    out = tensor.detach().cpu().to(stored).contiguous()
    if stored is torch.float16 and (out.isinf() & tensor.cpu().isfinite()).any():
        raise BadInput(f"{what} hold numbers beyond 65,504, the largest of float16. Use dtype='float32'.")
    return out


# Making an index: a folder with encoded images and captions, and with the model that encodes queries.


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


# Opening an index: a Library whose items stay on disk until they are scored.


_AGAIN = "python -m xmr_core index RUN OUT, with --folder for images of your own"


@dataclass(frozen=True)
class Index(Library):
    """A library from disk. folder: of the index. about: the contents of index.json."""

    folder: Path = Path()
    about: dict = field(default_factory=dict)

    def digest(self, modality: str) -> str:
        """Digest of the file that holds 'images' or 'captions'."""
        return self.about["files"][IMAGES if modality == "images" else CAPTIONS]["digest"]


def open_index(folder: Path | str, verify: bool | None = None, images: Path | str = "") -> Index:
    """An index as a library, for rank and search. Items are memory-mapped, so a million images open in about a second,
    most of which is spent on their names.

    Sentences and images as queries need only the files of the index, which hold the model. Showing indexed images, and
    explaining by their cells, reads the images themselves at first use: those of a folder from where they were, or from
    `images` if they were moved; those of a run's own split from that run.
    verify: True compares the digests of all files; None those of files up to 1 GiB, and of larger galleries the size
    and the header; False leaves out the galleries. Files that another process replaces meanwhile do not match their
    digests: open the folder again.

    Raises: BadInput for a folder without a finished index, or one of another format; DamagedFile for a file that is
        missing, cut or altered. Every message says what to do.
    """
    folder = files.existing(folder, "index")
    try:
        return _open(folder, verify, images)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, SafetensorError) as e:
        if isinstance(e, XmrError):
            raise
        reason = f"{type(e).__name__}: {str(e)[:100]}"
        raise DamagedFile(f"{folder} is no index of this package ({reason}). Build it: {_AGAIN}.") from None


def _open(folder: Path, verify: bool | None, images: Path | str) -> Index:
    about = read_manifest(folder / MANIFEST, FORMAT, _AGAIN)
    check_files(folder, about["files"], GALLERIES, verify, _AGAIN)
    model = read_model(folder / MODEL, verify=False)  # its files were checked with the others
    galleries = {name: open_gallery(folder / name) for name in GALLERIES if name in about["files"]}
    items = files.read_json(folder / ITEMS)
    ids, caption_ids, texts = (_objects(items[name]) for name in ("image_ids", "caption_ids", "texts"))
    arrays = load_arrays((folder / RELEVANCE).read_bytes())
    relevances = {
        kind: Relevance(arrays[f"{kind}/indptr"], arrays[f"{kind}/indices"], caption_ids, ids)
        for kind in items["relevance_sets"]
    }
    n = {IMAGES: len(ids), CAPTIONS: len(caption_ids)}
    if len(texts) != len(caption_ids) or any(len(gallery) != n[name] for name, gallery in galleries.items()):
        raise DamagedFile(f"{folder / ITEMS} does not fit the galleries beside it. Build it again: {_AGAIN}.")
    source = _Images(model, Source(**about["source"]), images)
    return Index(
        items["label"], model.method, model.raw, galleries[IMAGES], galleries.get(CAPTIONS), ids, caption_ids,
        texts, relevances, source.inputs, *((source.pixels, source.path) if items["pixels"] else (None, None)),
        None if items.get("splits") is None else _objects(items["splits"]), folder, about,
    )  # fmt: skip


class _Images:
    """The indexed images themselves, opened at first use."""

    def __init__(self, model: Model, source: Source, moved: Path | str = ""):
        self._model, self._source, self._moved = model, source, moved

    @cached_property
    def _run(self) -> TrainedRun:
        """The run whose split was indexed."""
        name = str(self._model.about.get("run", ""))
        try:
            return load(name)
        except BadInput:
            raise BadInput(
                f"the images of this index are those of the {self._source.name} split of run {name}, which is not in "
                f"{paths.root() / 'runs'}. Set XMR_HOME to its folder; searching needs it no more."
            ) from None

    @cached_property
    def _corpus(self) -> Corpus:
        source = self._source
        if source.kind == "folder":
            place = self._moved or source.name
            if not Path(place).expanduser().is_dir():
                raise BadInput(f"the indexed images are not in {place} any more. Give their place: images=FOLDER.")
            corpus = load_folder(place)
        else:
            corpus = self._run.prepared().corpus
        if corpus.fingerprint != source.fingerprint:
            raise BadInput(f"{source.name} has changed since it was indexed. Build the index again: {_AGAIN}.")
        return corpus

    @cached_property
    def _reader(self) -> ImageReader:
        corpus = self._corpus  # refuses one that has changed
        if self._source.kind == "folder":
            return self._model.raw.images_of(corpus)
        return self._run.prepared().splits[self._source.name].images_at

    @cached_property
    def _rows(self) -> np.ndarray:
        n = len(self._corpus.images)
        return np.arange(n) if self._source.kind == "folder" else self._corpus.rows(self._source.name)[0]

    def inputs(self, positions: np.ndarray) -> Features | Pixels:
        """The method's input for the images at these positions."""
        return self._reader(positions)

    def pixels(self, position: int) -> UInt8[np.ndarray, "h w 3"]:
        """The image at a position."""
        return self._corpus.read_pixels(self._rows[[position]])[0]

    def path(self, position: int) -> str:
        """The file of the image at a position, '' for images that are no files."""
        files = self._corpus.images.get("path")
        return "" if files is None else str(files.iloc[self._rows[position]])


def _objects(values: list) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out
