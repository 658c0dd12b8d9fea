"""Opening an index: a Library whose items stay on disk until they are compared."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from safetensors.numpy import load as load_arrays

from xmr_core.base import paths
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
from xmr_core.search.gallery import open_gallery, read_header
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
)
from xmr_core.search.library import Library
from xmr_core.training.runs import TrainedRun, stored_run

_AGAIN = "python -m xmr_core index RUN_ID OUT, with --folder for pictures of your own"


@dataclass(frozen=True)
class Index(Library):
    """A library from disk. folder: where it lies. about: what index.json says of it."""

    folder: Path = Path()
    about: dict = field(default_factory=dict)

    def digest(self, side: str) -> str:
        """Of the file that holds 'images' or 'captions'."""
        return self.about["files"][IMAGES if side == "images" else CAPTIONS]["digest"]


def open_index(folder: Path | str, verify: bool = False) -> Index:
    """An index as a library: explore.rank, meeting and search take it. Items are memory-mapped, so a
    million pictures open in about a second, most of which is their names.

    A sentence needs only what lies in the folder. A picture as a query, and looking at indexed pictures, prepare the run's corpus when
    first asked for (its lists are read and its features opened, or extracted anew where the cache is gone).
    verify: read all of the galleries too and compare their digests; without it only their size and header are checked.

    Raises: BadInput for a folder without a finished index, one of another format, or one whose run is gone or was trained anew;
        DamagedFile for a file that is missing, cut or altered. Every message says what to do.
    """
    folder = Path(folder).expanduser()
    about = read_manifest(folder / MANIFEST, FORMAT, _AGAIN)
    check_files(folder, about["files"], () if verify else GALLERIES, _AGAIN)
    run = _same_run(about, folder)
    sides = {}
    for name in about["tensors"]:
        found = {t: [code, *shape] for t, (shape, code, _) in read_header(folder / name)[2].items()}
        if found != about["tensors"][name]:
            raise DamagedFile(f"{folder / name} holds other tensors than index.json says. Copy it again, or build it again: {_AGAIN}.")
        sides[name] = open_gallery(folder / name)
    method, words, _ = load_method(folder / METHOD)
    told = paths.read_json(folder / ITEMS)
    ids, caption_ids, texts = (_objects(told[name]) for name in ("image_ids", "caption_ids", "texts"))
    arrays = load_arrays((folder / RELEVANCE).read_bytes())
    judges = {kind: Relevance(arrays[f"{kind}/indptr"], arrays[f"{kind}/indices"], caption_ids, ids) for kind in told["judges"]}
    pictures = _Pictures(run, Source(**about["source"]))
    return Index(
        told["label"], method, StoredInputs(run, words), sides[IMAGES], sides.get(CAPTIONS), ids, caption_ids, texts, judges,
        pictures.inputs, pictures.pixels if told["pixels"] else None, folder, about,
    )  # fmt: skip


class StoredInputs:
    """What a Library asks of Prepared, from the words in the index where they are enough, and from the run's corpus where not."""

    def __init__(self, run: TrainedRun, words: Vocabulary | WordPieces):
        self._run = run
        self.vocabulary = words if isinstance(words, Vocabulary) else None

    @cached_property
    def whole(self) -> Prepared:
        return self._run.prepared()

    @property
    def inputs(self) -> Inputs:
        return self.whole.inputs

    def new_captions(self, texts: list[str]) -> Tokens | Features:
        """As Prepared.new_captions."""
        return self.whole.new_captions(texts) if self.vocabulary is None or not len(texts) else self.vocabulary.encode(texts)

    def new_images(self, pictures: UInt8[np.ndarray, "n h w 3"]) -> Features | Pixels:
        """As Prepared.new_images."""
        return self.whole.new_images(pictures)


class _Pictures:
    """The indexed pictures themselves, found when first looked at."""

    def __init__(self, run: TrainedRun, source: Source):
        self._run, self._source = run, source

    @cached_property
    def _corpus(self) -> Corpus:
        source = self._source
        corpus = load_folder(source.name) if source.kind == "folder" else self._run.prepared().corpus
        if corpus.fingerprint != source.fingerprint:
            raise BadInput(f"{source.name} is not what it was when it was indexed. Build the index again: {_AGAIN}.")
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

    def inputs(self, at: np.ndarray) -> Features | Pixels:
        """What the method is given of the pictures at positions."""
        _ = self._corpus  # which may refuse
        return self._read(at)

    def pixels(self, at: int) -> UInt8[np.ndarray, "h w 3"]:
        """The picture at a position."""
        return self._corpus.read_pixels(self._rows[[at]])[0]


def _same_run(about: dict, folder: Path) -> TrainedRun:
    told = about["run"]
    try:
        run = stored_run(told["id"])
    except BadInput:
        raise BadInput(
            f"the index {folder} was made with run {told['id']}, which is not in {paths.root() / 'runs'}. Set XMR_HOME to where it is, "
            f"or index again with a run that is here: {_AGAIN}."
        ) from None
    if run_identity(run) != told:
        raise BadInput(f"run {told['id']} was trained anew since {folder} was made. Build the index again: {_AGAIN}.")
    return run


def _objects(values: list) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out
