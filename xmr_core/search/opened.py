"""Opening an index: a Library whose items stay on disk until they are scored."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput, DamagedFile, XmrError
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Corpus, Features, Pixels
from xmr_core.data.inputs import ImageReader
from xmr_core.data.readers.folder import load_folder
from xmr_core.search.files import check_files, read_manifest
from xmr_core.search.gallery import open_gallery
from xmr_core.search.index import CAPTIONS, FORMAT, GALLERIES, IMAGES, ITEMS, MANIFEST, MODEL, RELEVANCE, Source
from xmr_core.search.library import Library
from xmr_core.search.model import Model
from xmr_core.search.model_folder import read_model
from xmr_core.training.runs import TrainedRun, load

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
