"""Opening an index: a Library whose items stay on disk until they are scored."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from safetensors.numpy import load as load_arrays

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Corpus, Features, Pixels, Tokens
from xmr_core.data.features.word_pieces import WordPieces
from xmr_core.data.prepare import Prepared
from xmr_core.data.readers.folder import load_folder
from xmr_core.data.text.vocabulary import Vocabulary
from xmr_core.methods.checkpoints import load_method
from xmr_core.methods.common import Inputs
from xmr_core.search.files import check_files, read_manifest
from xmr_core.search.gallery import open_gallery
from xmr_core.search.index import (
    CAPTIONS,
    FORMAT,
    GALLERIES,
    IMAGES,
    ITEMS,
    MANIFEST,
    METHOD,
    RELEVANCE,
    Source,
    run_identity,
    tensors_of,
)
from xmr_core.search.library import Library
from xmr_core.training.runs import TrainedRun, load

_AGAIN = "python -m xmr_core index RUN_ID OUT, with --folder for images of your own"


@dataclass(frozen=True)
class Index(Library):
    """A library from disk. folder: of the index. about: the contents of index.json."""

    folder: Path = Path()
    about: dict = field(default_factory=dict)

    def digest(self, modality: str) -> str:
        """Digest of the file that holds 'images' or 'captions'."""
        return self.about["files"][IMAGES if modality == "images" else CAPTIONS]["digest"]


def open_index(folder: Path | str, verify: bool = False) -> Index:
    """An index as a library, for rank and search. Items are memory-mapped, so a million images open in about a second,
    most of which is spent on their names.

    A sentence as a query needs only the files of the index. An image as a query, and showing indexed images, prepare
    the run's corpus at first use: its lists are read and its features opened, or extracted again without their cache.
    verify: also read the galleries and compare their digests; without it only their size and header are checked.

    Raises: BadInput for a folder without a finished index, one of another format, or one whose run is gone or was
        trained again; DamagedFile for a file that is missing, cut or altered. Every message says what to do.
    """
    folder = Path(folder).expanduser()
    about = read_manifest(folder / MANIFEST, FORMAT, _AGAIN)
    check_files(folder, about["files"], () if verify else GALLERIES, _AGAIN)
    run = _same_run(about, folder)
    galleries = {}
    for name, tensors in about["tensors"].items():
        if tensors_of(folder / name) != tensors:
            raise DamagedFile(
                f"{folder / name} holds other tensors than index.json says. Copy it again, or build it again: {_AGAIN}."
            )
        galleries[name] = open_gallery(folder / name)
    method, words, _ = load_method(folder / METHOD)
    items = files.read_json(folder / ITEMS)
    ids, caption_ids, texts = (_objects(items[name]) for name in ("image_ids", "caption_ids", "texts"))
    arrays = load_arrays((folder / RELEVANCE).read_bytes())
    relevances = {
        kind: Relevance(arrays[f"{kind}/indptr"], arrays[f"{kind}/indices"], caption_ids, ids)
        for kind in items["relevance_sets"]
    }
    images = _Images(run, Source(**about["source"]))
    return Index(
        items["label"], method, StoredInputs(run, words), galleries[IMAGES], galleries.get(CAPTIONS), ids, caption_ids,
        texts, relevances, images.inputs, images.pixels if items["pixels"] else None, folder, about,
    )  # fmt: skip


class StoredInputs:
    """The part of Prepared that a Library uses. The words in the index are enough for sentences; all else prepares the
    run's corpus."""

    def __init__(self, run: TrainedRun, words: Vocabulary | WordPieces):
        self._run = run
        self.vocabulary = words if isinstance(words, Vocabulary) else None

    @cached_property
    def prepared(self) -> Prepared:
        return self._run.prepared()

    @property
    def inputs(self) -> Inputs:
        return self.prepared.inputs

    def new_captions(self, texts: list[str]) -> Tokens | Features:
        """As Prepared.new_captions."""
        if self.vocabulary is None or not len(texts):
            return self.prepared.new_captions(texts)
        return self.vocabulary.encode(texts)

    def new_images(self, images: UInt8[np.ndarray, "n h w 3"]) -> Features | Pixels:
        """As Prepared.new_images."""
        return self.prepared.new_images(images)


class _Images:
    """The indexed images themselves, opened at first use."""

    def __init__(self, run: TrainedRun, source: Source):
        self._run, self._source = run, source

    @cached_property
    def _corpus(self) -> Corpus:
        source = self._source
        corpus = load_folder(source.name) if source.kind == "folder" else self._run.prepared().corpus
        if corpus.fingerprint != source.fingerprint:
            raise BadInput(f"{source.name} has changed since it was indexed. Build the index again: {_AGAIN}.")
        return corpus

    @cached_property
    def _rows(self) -> np.ndarray:
        n = len(self._corpus.images)
        return np.arange(n) if self._source.kind == "folder" else self._corpus.rows(self._source.name)[0]

    @cached_property
    def _read(self):
        if self._source.kind == "folder":
            return self._run.prepared().images_of(self._corpus)
        return self._run.prepared().splits[self._source.name].images_at

    def inputs(self, positions: np.ndarray) -> Features | Pixels:
        """The method's input for the images at these positions."""
        _ = self._corpus  # refuses a corpus that has changed
        return self._read(positions)

    def pixels(self, position: int) -> UInt8[np.ndarray, "h w 3"]:
        """The image at a position."""
        return self._corpus.read_pixels(self._rows[[position]])[0]


def _same_run(about: dict, folder: Path) -> TrainedRun:
    identity = about["run"]
    try:
        run = load(identity["id"])
    except BadInput:
        raise BadInput(
            f"the index {folder} was made with run {identity['id']}, which is not in {paths.root() / 'runs'}. "
            f"Set XMR_HOME to its folder, or index again with another run: {_AGAIN}."
        ) from None
    if run_identity(run) != identity:
        raise BadInput(
            f"run {identity['id']} was trained anew since {folder} was made. Build the index again: {_AGAIN}."
        )
    return run


def _objects(values: list) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out
