"""A library: the encoded items that a query is ranked against, and the model that encoded them."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from xmr_core.base.errors import BadInput, DamagedFile, require_choice
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.types import Brief, Corpus, EmbeddingSet, GaussianEmbedding, Relevance, Representation, joined
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import from_arrays
from xmr_core.data.inputs import ImageReader, RawInputs
from xmr_core.data.prepare import Prepared, prepare
from xmr_core.data.readers.folder import load_folder
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.features.cache import unreadable_images
from xmr_core.features.images import image_reader
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build
from xmr_core.models.load import as_model, model_of
from xmr_core.models.model import Model
from xmr_core.training.runs.folder import TrainedRun

_LARGEST_SET = 16  # elements of a set whose size was chosen; larger sets are those of cells or words
_ENCODED = 256  # images encoded at a time, as in encode_split, so that the numbers are equal
_CHUNK = 1024  # items whose uncertainty is computed at a time, which copies them


@dataclass(frozen=True)
class Library(Brief):
    """Images and captions, encoded once; ranking them needs no encoder. An index is a library on disk.

    label: the method's name for people. model: encodes queries. image_ids, caption_ids, texts: by position. captions:
    None (and no ids) for images without captions. relevance_sets: name → relevance set, captions × images by position;
    empty where nothing is annotated.
    inputs: positions of images → the method's input for them. pixels: position → image as a square, None for a corpus
    of features. paths: position → image file, '' where images are no files. splits: of each image by position, '' for
    none; None where they are not known. source: what was encoded: kind ('split' of a run's own corpus, or 'folder'),
    name (of the split, or the folder's path), fingerprint (of the corpus).
    skipped: id of an image file that cannot be read, and is no item → why. folder, about: of an index, and the contents
    of its index.json.
    """

    label: str
    model: Model
    images: Representation
    captions: Representation | None
    image_ids: np.ndarray
    caption_ids: np.ndarray
    texts: np.ndarray
    relevance_sets: Mapping[str, Relevance]
    inputs: ImageReader
    pixels: Callable[[int], UInt8[np.ndarray, "h w 3"]] | None = None
    paths: Callable[[int], str] = lambda position: ""
    splits: np.ndarray | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    about: Mapping = field(default_factory=dict)
    # kind of query → the last one from outside, and it encoded
    last: dict = field(default_factory=dict, repr=False, init=False)
    _cache: dict = field(default_factory=dict, repr=False, init=False)

    @property
    def method(self) -> Method:
        return self.model.method

    @property
    def raw(self) -> RawInputs:
        """How sentences and images from outside are read."""
        return self.model.raw

    def digest(self, modality: str) -> str:
        """Of an index, the digest of the file that holds 'images' or 'captions'."""
        return self.about["files"][f"{modality}.safetensors"]["digest"]

    def ids(self, modality: str) -> np.ndarray:
        """The ids of 'images' or 'captions', by position."""
        return self.image_ids if modality == "images" else self.caption_ids

    def position(self, modality: str, item: str) -> int:
        """Position of an id among 'images' or 'captions'. Raises: BadInput for an unknown id."""
        positions = self.once(("positions", modality), lambda: {b: n for n, b in enumerate(self.ids(modality))})
        if item not in positions:
            raise BadInput(f"{item!r} is not among the {len(positions):,} {modality} of this library.")
        return positions[item]

    def items(self, modality: str) -> Representation:
        """All 'images' or 'captions'. Raises: BadInput for captions where there are none."""
        items = self.images if modality == "images" else self.captions
        if items is None:
            raise BadInput("these images have no captions, so an image cannot be the query; type a sentence.")
        return items

    def uncertainty(self, modality: str) -> np.ndarray | None:
        """Uncertainty of each of the 'images' or 'captions' (analysis.uncertainty), larger for a less certain item.

        None for a method without it: one vector per item, or sets of words and cells, whose spread is that of the
        content.
        """

        def compute():
            items = self.images if modality == "images" else self.captions
            with suppress(BadInput):  # a method of means only
                if isinstance(items, GaussianEmbedding) or elements_of(items) > 1:
                    return np.concatenate([uncertainty(items[n : n + _CHUNK]) for n in range(0, len(items), _CHUNK)])

        return self.once(("uncertainty", modality), compute)

    def relevant(self, kind: str, modality: str, position: int) -> np.ndarray:
        """Positions of the items of the other modality that a relevance set gives to an item of 'images' or
        'captions'."""
        relevance = self.relevance_sets[kind]
        if modality == "images":
            relevance = self.once(("transposed", kind), relevance.transpose)
        return relevance[position]

    def own_images(self) -> np.ndarray:
        """The position of the first annotated image of each caption, −1 where there is none."""
        out, own = np.full(len(self.caption_ids), -1), self.relevance_sets.get("annotated")
        if own is not None:
            paired = np.diff(own.indptr) > 0
            out[paired] = own.indices[own.indptr[:-1][paired]]
        return out

    def split_of_each(self, modality: str) -> np.ndarray:
        """The split of each of the 'images' or 'captions', that of a caption being its image's; '' where none is
        known."""
        splits = np.full(len(self.image_ids), "", object) if self.splits is None else self.splits
        return splits if modality == "images" else np.append(splits, "")[self.own_images()]

    def once(self, name: tuple, compute: Callable):
        if name not in self._cache:
            self._cache[name] = compute()
        return self._cache[name]


def elements_of(items: Representation | None) -> int:
    """Elements of each set where their number was chosen; 1 for vectors, distributions, and sets of words or cells."""
    chosen = isinstance(items, EmbeddingSet) and items.x.shape[1] <= _LARGEST_SET and bool(items.mask.all())
    return items.x.shape[1] if chosen else 1


Opened = tuple[Corpus, np.ndarray, ImageReader]  # a corpus, the row of each image in it, a reader of inputs by position


def readers(opened: Callable[[], Opened], pixels: bool) -> dict[str, Callable | None]:
    """The fields inputs, pixels and paths of a library, whose images are opened when the first of them is asked for.
    pixels: whether there are any."""
    opened = cache(opened)

    def square(position: int) -> UInt8[np.ndarray, "h w 3"]:
        corpus, rows, _ = opened()
        return corpus.read_pixels(rows[[position]])[0]

    def path(position: int) -> str:
        corpus, rows, _ = opened()
        return str(corpus.images["path"].iloc[rows[position]]) if "path" in corpus.images else ""

    return {"inputs": lambda rows: opened()[2](rows), "pixels": square if pixels else None, "paths": path}


def of_split(prepared: Prepared, split: str) -> Opened:
    """The images of a split."""
    part = prepared.splits[split]
    return prepared.corpus, part.image_rows, part.images_at


def of_folder(model: Model, corpus: Corpus, skipped: Mapping[str, str]) -> Opened:
    """The images of a folder's corpus, but for those that are skipped."""
    if skipped:
        images = corpus.images.drop(index=[*skipped])
        captions = corpus.captions[~corpus.captions["image_id"].isin([*skipped])]
        content = content_hash([corpus.image_fingerprint, images.index.tolist()])
        read = image_reader(images["path"].tolist())
        corpus = replace(corpus, images=images, captions=captions, image_fingerprint=content, read_pixels=read)
    return corpus, np.arange(len(corpus.images)), model.raw.images_of(corpus)


def open_library(run: TrainedRun, label: str = "", split: str = "test") -> Library:
    """Encode a split of a run's corpus with its method.

    Relevance sets with fewer ids than the split (PMRP, ECCV Caption) are left out, because positions would differ.
    Raises: BadInput for an unknown split.
    """
    return _library_of(label or run.config.method, model_of(run), run.prepared(), split)


def _library_of(label: str, model: Model, prepared: Prepared, split: str) -> Library:
    require_choice("split", split, prepared.splits)
    part, corpus = prepared.splits[split], prepared.corpus
    images, captions = encode_split(model.method, part)
    own, relevances = corpus.captions.iloc[part.caption_rows], {}
    for kind, relevance in corpus.relevance_sets.items():
        r = relevance(split)
        if isinstance(r, Relevance) and (len(r.query_ids), len(r.gallery_ids)) == (len(captions), len(images)):
            relevances[kind] = r
    ids, splits = corpus.images.index.to_numpy()[part.image_rows], np.full(len(images), split, object)
    return Library(
        label, model, images, captions, ids, own.index.to_numpy(), own["text"].to_numpy(), relevances,
        **readers(lambda: of_split(prepared, split), corpus.read_pixels is not None), splits=splits,
        source={"kind": "split", "name": split, "fingerprint": corpus.fingerprint},
    )  # fmt: skip


def open_folder(trained: TrainedRun | Model, folder: Path | str, label: str = "") -> Library:
    """Encode all images of a folder and its sub-folders with a run, which was trained on another corpus, or a model.

    Captions are encoded too where the folder has a file of them (docs/data.md), and give the relevance set 'annotated';
    all splits are searched, and `splits` says which image is in which. Frozen features of the images are cached on
    disk.
    Image files that cannot be read are left out, which a warning says (`Library.skipped`).
    Raises: BadInput for a folder without images, or a method on region features, which only a detector could make;
        DamagedFile where no image can be read.
    """
    library = folder_library(trained, folder)
    return replace(library, label=label or library.label, images=joined([*encoded_images(library)]))


def folder_library(trained: TrainedRun | Model, folder: Path | str) -> Library:
    """A library of a folder whose captions are encoded and whose images are not (None); see encoded_images."""
    model, corpus = as_model(trained), load_folder(folder)
    skipped, said = unreadable_images(corpus)
    if len(skipped) == len(corpus.images):
        raise DamagedFile(f"{folder}: {said} Replace them, or give a folder with images.")
    lost = [f"{said} They are left out."] * bool(skipped)
    lost += [f"{n:,} {kind}." for kind, n in corpus.faults.items() if "are not read" in kind]
    if lost:
        warnings.warn(f"{folder}: {' '.join(lost)}", stacklevel=2)
    corpus, *_ = opened = of_folder(model, corpus, skipped)
    ids, caption_ids = corpus.images.index.to_numpy(), corpus.captions.index.to_numpy()
    texts, relevances, captions, splits = corpus.captions["text"].to_numpy(), {}, None, None
    if len(texts):
        pairs = zip(caption_ids, corpus.captions["image_id"], strict=True)
        relevances["annotated"] = Relevance.from_pairs(pairs, caption_ids, ids)
        captions, splits = model.encode_texts(texts.tolist()), corpus.images["split"].to_numpy(object)
    place = str(Path(folder).expanduser().resolve())
    return Library(
        model.method.name, model, None, captions, ids, caption_ids, texts, relevances,
        **readers(lambda: opened, pixels=True), splits=splits,
        source={"kind": "folder", "name": place, "fingerprint": corpus.fingerprint}, skipped=skipped,
    )  # fmt: skip


def encoded_images(library: Library) -> Iterator[Representation]:
    """The images of a library, encoded in chunks."""
    for chunk in np.split(positions := np.arange(len(library.image_ids)), positions[_ENCODED::_ENCODED]):
        yield library.model.encoded("images", library.inputs(chunk))


# A small library and a small model in memory, on which every function of this folder can be tried.


def example_model(method: str = "dive") -> Model:
    """An untrained method of width 8 that reads images of 64 pixels by cell descriptors, and a few words.

    Raises: BadInput for an unknown method.

    >>> len(example_model().encode_texts(["a red circle", "a blue square"]))
    2
    """
    return _untrained(method, prepare(DataConfig(size="tiny"), progress=iter))


def _untrained(method: str, prepared: Prepared) -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trained = build(method, prepared.inputs, d=8).eval()
    raw = RawInputs(prepared.inputs, prepared.captions, prepared.describer)
    return Model(method, trained, raw, {"method": method, "options": {"d": 8}, "form": "matched"})


def example_library(method: str = "dive") -> Library:
    """Three images of random features (4 cells each) with one caption each, encoded by an untrained method of width 8.

    The result is the same every time. Raises: BadInput for an unknown method.

    >>> example_library().texts.tolist()
    ['a red circle', 'a blue square', 'a green ring']
    """
    features = np.random.default_rng(0).normal(size=(5, 4, 6)).astype(np.float32)
    texts = ["a red square and a green ring", "a blue circle", "a red circle", "a blue square", "a green ring"]
    prepared = prepare(from_arrays(features, texts, splits=["train", "val", "test", "test", "test"], name="example"))
    ids, caption_ids = (np.array([f"{n}.{kind}" for n in range(3)], object) for kind in ("png", "txt"))
    library = _library_of(method, _untrained(method, prepared), prepared, "test")
    return replace(library, image_ids=ids, caption_ids=caption_ids, splits=None)
