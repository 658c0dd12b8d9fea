"""How images and sentences become what a method reads: one description of each, for a corpus and for any others."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from safetensors import SafetensorError, safe_open
from torch import Tensor
from tqdm.auto import tqdm

from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, DamagedFile, require_number
from xmr_core.base.paths import is_text, require_trusted
from xmr_core.base.row_file import JoinedRows, RowFile
from xmr_core.base.tensors import padded
from xmr_core.base.types import Brief, Corpus, Features, Pixels, Tokens
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import as_array, import_named, in_order
from xmr_core.features import cache, pretrained
from xmr_core.features import images as pictures
from xmr_core.features.cache import Extractor, Reduction, cached_array, cached_features, identity_of, reduced_features
from xmr_core.features.cells import CellDescriptor
from xmr_core.features.efficientnet_lite import RESOLUTIONS, WAYS, EfficientNetLiteGrid, not_installed, packaged_weights
from xmr_core.features.images import Crop, Fit, TrainingCrops
from xmr_core.features.pretrained import ModelFolder, PretrainedGrid, PretrainedStates, WordPieces
from xmr_core.features.words import NearestWords, Reading, Vocabulary, load_word_vectors, read_nearest, read_vocabulary
from xmr_core.methods.common import Inputs

View = tuple[np.ndarray, np.ndarray | None]  # local features "n l e"; global features "n e" or None
ImageReader = Callable[..., Features | Pixels]


@dataclass(frozen=True)
class CaptionStates(Brief):
    """Frozen word states of captions, one caption after the other.

    states: "words e" (array or memory map); caption c has the rows indptr[c] … indptr[c + 1]. rows: which captions
    these are, in the order of the split.

    >>> captions = CaptionStates(np.arange(3.0)[:, None], np.array([0, 1, 3]), np.array([1, 0]))
    >>> captions.read(np.array([0, 1])).local_feats[..., 0].tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """

    states: np.ndarray
    indptr: np.ndarray
    rows: np.ndarray

    def __getitem__(self, positions: np.ndarray) -> "CaptionStates":
        """The captions at positions in the split, not read yet."""
        return replace(self, rows=self.rows[positions])

    @property
    def lengths(self) -> np.ndarray:
        """Word states of each caption."""
        return np.diff(self.indptr)[self.rows]

    def read(self, positions: np.ndarray) -> Features:
        """Features "n l e" of captions at positions in the split, padded with zeros to the longest."""
        starts, lengths = self.indptr[self.rows[positions]], self.lengths[positions]
        mask = np.arange(lengths.max(initial=0))[None] < lengths[:, None]
        out = np.zeros((*mask.shape, self.states.shape[1]), self.states.dtype)
        out[mask] = self.states[(starts[:, None] + np.arange(mask.shape[1]))[mask]]
        return Features(torch.from_numpy(out), torch.from_numpy(mask))


def feature_reader(
    array: np.ndarray | RowFile | JoinedRows,
    global_array: np.ndarray | None = None,
    views: Sequence[View] = (),
    view_rows: np.ndarray | None = None,
) -> ImageReader:
    """Reader of frozen features "n_images l e" (array, memory map or file of rows). Every local element is valid.

    float64 is read as float32. global_array: "n_images e", read as global_feat. views: (local, global) features of
    augmented views of the images view_rows (image rows, ascending). The reader takes image rows and, where there are
    views, one number per row: 0 for the image itself, v for its v-th view.

    >>> feature_reader(np.zeros((5, 2, 3)))(np.array([4, 0])).local_feats.shape
    torch.Size([2, 2, 3])
    """

    def read(rows: np.ndarray, view: np.ndarray | None = None) -> Features:
        local = np.empty((len(rows), *array.shape[1:]), np.float32 if array.dtype == np.float64 else array.dtype)
        pooled = None if global_array is None else np.empty((len(rows), global_array.shape[1]), global_array.dtype)
        view = np.zeros(len(rows), int) if view is None else view
        for v, (local_part, global_part) in enumerate([(array, global_array), *views]):
            if len(places := np.flatnonzero(view == v)):
                source = rows[places] if v == 0 else np.searchsorted(view_rows, rows[places])
                order = np.argsort(source, kind="stable")  # a memory map is read in file order
                local[places[order]] = local_part[source[order]]
                if pooled is not None:
                    pooled[places] = global_part[source]
        mask = torch.ones(local.shape[:2], dtype=torch.bool)
        return Features(torch.from_numpy(local), mask, None if pooled is None else torch.from_numpy(pooled))

    return read


def pixel_reader(corpus: Corpus, resolution: int | None = None, fit: Fit | None = None) -> ImageReader:
    """Reader of images as numbers in [0, 1], for encoders that learn from pixels.

    resolution: of the images read, None for the corpus's own. fit: how images become squares, None for squashing. The
    reader takes image rows and, where a crop is meant, one number per row: 0 for the image itself, v for its v-th crop.
    """

    def read(rows: np.ndarray, view: np.ndarray | None = None) -> Pixels:
        crops = None
        if view is not None:
            pairs = zip(rows, view, strict=True)
            crops = [TrainingCrops(int(v))(np.array([row]))[0] if v else Crop() for row, v in pairs]
        return as_pixels(pictures.read_squares(corpus, rows, resolution or 0, crops, fit))

    return read


def as_pixels(images: np.ndarray) -> Pixels:
    """uint8 "n h w 3" as numbers in [0, 1], channels first: "n 3 h w".

    >>> as_pixels(np.full((1, 2, 2, 3), 255, np.uint8)).x.unique()
    tensor([1.])
    """
    return Pixels(torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 255)


# Images.


TENSORS, NETWORK = "images.safetensors", "image_model"  # a file, and a folder of a model of transformers
SUFFIXES = (".json", ".txt", ".model", ".safetensors")  # of a model of transformers
_REDUCED = 320  # default width of the principal components of a network's cells


@dataclass(frozen=True)
class Describer(Brief):
    """Images, uint8 "n h w 3" of `resolution` → Features or Pixels.

    kind: 'pixels', 'cells', an EfficientNet-Lite, 'pretrained', or the address of an extractor of one's own.
    extractor: None for pixels. reduction: None where cells keep their full width. pixels_fit: how images become squares
    where there is no extractor, which has its own.

    >>> Describer("cells", 16, CellDescriptor(16))(np.zeros((1, 16, 16, 3), np.uint8)).local_feats.shape
    torch.Size([1, 4, 92])
    """

    kind: str
    resolution: int
    extractor: Extractor | None = None
    reduction: Reduction | None = None
    pixels_fit: Fit | None = None

    @property
    def fit(self) -> Fit | None:
        """How images become squares before they are described; None for squashing."""
        return self.pixels_fit if self.extractor is None else getattr(self.extractor, "fit", None)

    def __call__(self, images: UInt8[np.ndarray, "n h w 3"]) -> Features | Pixels:
        return as_pixels(images) if self.extractor is None else self._reduced(self.extractor(images))

    def images_of(
        self, corpus: Corpus, progress: Callable | None = None, rows: np.ndarray | None = None
    ) -> ImageReader:
        """Reader of images of a corpus, those of `rows` (ascending) or all; frozen features are extracted once and
        cached on disk."""
        if self.extractor is None:
            return pixel_reader(corpus, self.resolution, fit=self.fit)
        features = cached_features(corpus, self.extractor, progress, rows)
        return lambda i: self._reduced(features[i if rows is None else np.searchsorted(rows, i)])

    def _reduced(self, features: np.ndarray) -> Features:
        parts = (features, None) if self.reduction is None else self.reduction(features)
        return feature_reader(*parts)(np.arange(len(features)))

    def write(self, folder: Path) -> dict:
        """Write everything it needs into a folder; returns its description, which `read` takes. Raises: CannotWrite."""
        tensors = {f"network.{name}": t for name, t in getattr(self.extractor, "weights", {}).items()}
        if self.reduction is not None:
            learned = vars(self.reduction)
            tensors |= {f"reduction.{name}": torch.from_numpy(np.array(x)) for name, x in learned.items()}
        if tensors:
            files.write_tensors(folder / TENSORS, tensors)
        if self.kind == "pretrained":
            copy_model(self.extractor.folder, folder / NETWORK)
        has = {"reduced": self.reduction is not None, "tensors": bool(tensors)}
        has |= {"fit": asdict(self.pixels_fit)} if self.pixels_fit else {}
        identity = getattr(self.extractor, "identity", "")
        return {"kind": self.kind, "resolution": self.resolution, "identity": identity, **has}

    @classmethod
    def read(cls, folder: Path, description: Mapping) -> "Describer":
        """The one that `write` wrote. Raises: BadInput for an extractor of one's own that cannot be imported here, or
        is not trusted; DamagedFile for a file that is not whole."""
        kind, resolution = description["kind"], description["resolution"]
        require_number("resolution", resolution, 0, most=pretrained.MOST_PIXELS)
        network, learned = (_tensors(folder / TENSORS, prefix) for prefix in ("network.", "reduction."))
        extractor = reduction = None
        if kind in RESOLUTIONS:
            extractor = EfficientNetLiteGrid(kind, weights=network, identity=description["identity"])
        elif kind == "pretrained":
            extractor = PretrainedGrid(str(folder / NETWORK), resolution)
        elif kind != "pixels":
            require_trusted(kind, str(folder))
            extractor = _plain_extractor(kind, resolution)
        if description["reduced"]:
            reduction = Reduction(learned["components"].numpy(), learned["root_mean"].numpy())
        fit = Fit(**description["fit"]) if description.get("fit") else None
        return cls(kind, resolution, extractor, reduction, fit)


def copy_model(source: ModelFolder | str, folder: Path) -> None:
    """Copy what reading a model of transformers needs. Raises: CannotWrite."""
    chosen = [path for path in pretrained.find_pretrained(source).path.iterdir() if path.suffix in SUFFIXES]
    for path in files.make_folder(folder).iterdir():  # of another model that lay here
        if path.suffix in SUFFIXES and path.name not in {file.name for file in chosen}:
            path.unlink()
    for path in chosen:
        files.write_atomic(folder / path.name, path.read_bytes())


def _plain_extractor(kind: str, resolution: int) -> Extractor:
    """The cell descriptor, or an extractor from outside this package; nothing else is called."""
    if kind == "cells":
        return CellDescriptor(resolution)
    made, names = import_named(kind, "features"), Extractor.__annotations__
    extractor = made() if isinstance(made, type) and any(hasattr(made, name) for name in names) else None
    if absent := [name for name in names if not hasattr(extractor, name)]:
        raise BadInput(f"{kind} is no extractor: it has no attribute {absent[0]!r}. See features.cache.Extractor.")
    return extractor


def _tensors(path: Path, prefix: str) -> dict[str, torch.Tensor]:
    """Those of the tensors of a file, if there is one, whose names begin so, without that beginning."""
    try:
        with safe_open(path, "pt") as f:
            tensors = {name.removeprefix(prefix): f.get_tensor(name) for name in f.keys() if name.startswith(prefix)}  # noqa: SIM118
    except FileNotFoundError:
        return {}
    except (SafetensorError, OSError) as e:
        raise DamagedFile(f"{path} is not a whole safetensors file ({e}). Copy it again.") from None
    files.require_plain(tensors, str(path))
    return tensors


# The images of a corpus: frozen features with their views, or pixels.


def chosen_features(config: DataConfig, corpus: Corpus) -> str:
    """The features that a configuration means, with 'auto' resolved: an entry of FEATURES, or an address.

    >>> from xmr_core.data.scenes import load_scenes
    >>> chosen_features(DataConfig(), load_scenes("tiny"))
    'cells'
    """
    if config.features != "auto":
        return config.features
    if config.image_model or config.dual_model:
        return "pretrained"
    if corpus.features is not None:
        return "regions"
    return "cells" if config.dataset == "scenes" else "efficientnet_lite0"


def planned_network(config: DataConfig, corpus: Corpus) -> str:
    """What will describe the images of a corpus, in a line for people; where nothing can, the line says what helps.

    >>> from xmr_core.data.scenes import load_scenes
    >>> planned_network(DataConfig(), load_scenes("tiny"))
    "features='auto' takes cells"
    """
    kind = chosen_features(config, corpus)
    if kind in RESOLUTIONS and packaged_weights(kind) is None:
        return f"none for features={config.features!r}: {not_installed(kind)}"
    return f"features={config.features!r} takes {kind} {config.image_model or config.dual_model}".rstrip()


def image_inputs(
    config: DataConfig, corpus: Corpus, progress: Callable | None = None, device: torch.device | str | None = None
) -> tuple[ImageReader, str, dict[str, object], Describer | None]:
    """The images of a corpus as a method reads them: extract (once; cached) or open what the config names.

    Returns: (image rows → features or pixels; the name of features and networks, by content; the sizes of the images in
    methods.Inputs; what reads any other images the same way, None for a corpus of region features, whose detector is
    not part of this package). Raises: BadInput for options that do not fit together.
    """
    kind = chosen_features(config, corpus)
    lacking = corpus.features if kind == "regions" else corpus.read_pixels
    if lacking is None or (kind == "regions" and config.views):
        fault = f"features={kind!r} and views={config.views} do not fit {config.dataset}"
        raise BadInput(f"{fault}: regions are no images, which views and all other features need. Use features='auto'.")
    if kind == "regions":
        _, cells, width = corpus.features.shape
        ordered = bool(corpus.about.get("ordered_cells", False))
        sizes = {"image_width": width, "cells": cells, "ordered_cells": ordered, "resolution": 224}
        return feature_reader(corpus.features), f"regions-{corpus.image_fingerprint}", sizes, None
    resolution = int(corpus.about.get("resolution", 224))
    if kind == "pretrained" and not (config.image_model or config.dual_model):
        raise BadInput(f"features='pretrained' needs image_model, a vision model of transformers. {WAYS}.")
    learns = kind == "pretrained" and config.fine_tunes("image")
    if kind != "pixels" and not learns:
        if kind in RESOLUTIONS:
            extractor = EfficientNetLiteGrid(kind, device)
        elif kind == "pretrained":
            extractor = PretrainedGrid(config.image_model, device=device)
        else:
            extractor = _plain_extractor(kind, resolution)
        return _frozen(config, corpus, kind, extractor, progress)
    cache.require_readable(corpus)
    network, identity, fit = "", "pixels", None
    if learns:
        folder = pretrained.find_pretrained(config.dual_model or config.image_model)
        dual = bool(config.dual_model)
        network = pretrained.describe_dual(folder, "image") if dual else pretrained.describe_vision(folder)
        network, identity = _adapted(network, config.lora), folder.identity
        resolution = json.loads(network)["scaling"]["resolution"]
        if dual:  # its images become squares as its own preprocessor makes them
            fit = pretrained.read_preprocessing(folder, pretrained.tower_config(folder, "image"))[1]
            identity = f"{identity}-{fingerprint.content_hash(fit and asdict(fit))}"
    sizes = {"image_width": 0, "cells": 0, "resolution": resolution, "image_network": network}
    return pixel_reader(corpus, resolution, fit), identity, sizes, Describer("pixels", resolution, pixels_fit=fit)


def _adapted(description: str, rank: int) -> str:
    """A description of a network that learns, with adapters of a rank; 0 for none."""
    return json.dumps(json.loads(description) | {"lora": rank}, sort_keys=True) if rank else description


def _frozen(
    config: DataConfig, corpus: Corpus, kind: str, extractor: Extractor, progress: Callable | None
) -> tuple[ImageReader, str, dict[str, object], Describer]:
    array, pooled, identity = cached_features(corpus, extractor, progress), None, identity_of(extractor)
    train, views = corpus.rows("train")[0], []
    for crops in map(TrainingCrops, range(1, config.views + 1)):
        views.append((cached_features(corpus, extractor, progress, train, crops), f"{identity}-{crops.identity}"))
    width = config.reduce
    if width is None:
        is_network = isinstance(extractor, EfficientNetLiteGrid | PretrainedGrid)
        width = min(_REDUCED, array.shape[2]) if is_network else 0
    reduction, view_arrays = None, [(view, None) for view, _ in views]
    if width:
        (array, pooled), view_arrays, identity, reduction = reduced_features(corpus, array, identity, width, views)
    if views:
        identity = fingerprint.content_hash([identity, *[view_identity for _, view_identity in views]])
    sizes = {"image_width": array.shape[2], "cells": array.shape[1], "resolution": extractor.resolution}
    sizes["global_width"] = 0 if pooled is None else pooled.shape[1]
    describer = Describer(kind, extractor.resolution, extractor, reduction)
    return feature_reader(array, pooled, view_arrays, train), identity, sizes, describer


# Sentences.


_TOGETHER = 8192  # captions whose states are computed before the cache notes how far the work is


@dataclass(frozen=True)
class CaptionReader(Brief):
    """Sentences → word numbers, word pieces, or states of a frozen text model.

    words: the vocabulary, or the word pieces of a text model. model: the text model whose states are read, None where
    words or pieces themselves are. nearest: word without a training caption → the training word that it is read as
    (docs/data.md#data-word-vectors).

    >>> CaptionReader(Vocabulary.build(["a dog"]))(["A zebra"]).ids
    tensor([[1, 4, 3, 2]])
    """

    words: Vocabulary | WordPieces
    model: PretrainedStates | None = None
    nearest: Mapping[str, str] | None = None

    def __call__(self, texts: Sequence[str]) -> Tokens | Features:
        if self.model is not None:
            states = self.model(texts, progress=iter)
            rows = np.arange(len(states))
            return CaptionStates(np.concatenate(states), _offsets([len(s) for s in states]), rows).read(rows)
        return self.words.encode(texts, self.nearest) if isinstance(self.words, Vocabulary) else self.words(texts)[0]

    def readings(self, texts: Sequence[str]) -> list[Reading]:
        """What is read of each text: its known words or pieces, the unknown ones, and what is cut off."""
        nearest = [self.nearest] if isinstance(self.words, Vocabulary) else []
        return self.words.readings(texts, *nearest)

    def of_corpus(self, texts: Sequence[str], progress: Callable | None = None) -> Tokens | CaptionStates:
        """All captions of a corpus, as those of the training corpus are read; states are computed once and cached. A
        word without a training caption is an unknown one here, because no number of a run profits from `nearest`."""
        if self.model is None:
            return self.words.encode(texts) if isinstance(self.words, Vocabulary) else self.words(texts)[0]
        model, indptr = self.model, _offsets(self.words(texts)[0].mask.sum(1).numpy())

        def work(start: int) -> Iterator[np.ndarray]:
            blocks = [n for n in range(0, len(texts), _TOGETHER) if indptr[n] >= start]
            for n in (progress or tqdm)(blocks):
                yield np.concatenate(model(texts[n : n + _TOGETHER]))

        key = [model.identity, fingerprint.content_hash(texts)]
        array = cached_array("states", key, (int(indptr[-1]), model.width), np.float16, work, about=model.identity)
        return CaptionStates(array, indptr, np.arange(len(texts)))


CaptionInputs = tuple[Tokens | CaptionStates, CaptionReader, dict[str, str], dict[str, object], float | None]


def caption_inputs(
    config: DataConfig, corpus: Corpus, progress: Callable | None = None, device: torch.device | str | None = None
) -> CaptionInputs:
    """The captions of a corpus as a method reads them: number or encode (once; cached) all of them.

    Returns: (all captions; what reads any others; the names of words and networks, by content; the sizes of the
    captions in methods.Inputs; the share of the words of the training captions that have a word vector from a file,
    None without a file). Raises: BadInput for an empty caption or missing files.
    """
    texts = corpus.captions["text"].tolist()
    if config.text_model or config.dual_model:
        return _of_text_model(config, texts, progress, device)
    training = (corpus.captions["split"] == "train").to_numpy()
    if config.vocabulary:
        vocabulary = read_vocabulary(config.vocabulary, config.tokeniser)
    else:
        vocabulary = Vocabulary.build(corpus.captions["text"][training].tolist(), tokeniser=config.tokeniser)
    tokens = vocabulary.encode(texts)
    file = None if config.dataset == "scenes" and not config.word_vectors else word_vector_file(config)
    follows = vocabulary.of_latin and not config.vocabulary  # from the corpus and the names of the rules
    identity = {} if follows else {"words": vocabulary.hash}
    identity["word_vectors"] = "" if file is None else fingerprint.file_hash(file)
    sizes = {"vocabulary": len(vocabulary.words), "word_dim": config.word_dim}
    if file is None:
        return tokens, CaptionReader(vocabulary), identity, sizes, None
    vectors, in_file = load_word_vectors(file, vocabulary.words)
    sizes |= {"word_dim": vectors.shape[1], "word_vectors": torch.from_numpy(vectors)}
    ids = tokens.ids.numpy()[training]
    coverage = float(in_file[ids[ids > 3]].mean()) if (ids > 3).any() else 0.0
    reader = CaptionReader(vocabulary, nearest=NearestWords(file, vocabulary))
    return tokens, reader, identity, sizes, coverage


def word_vector_file(config: DataConfig) -> Path | None:
    """The file of word vectors that the words of photographs start from; None where none is named or found, and they
    start at random.

    >>> word_vector_file(DataConfig(dataset="flickr8k", data_root="no such folder")) is None
    True
    """
    if config.word_vectors:
        return files.existing(config.word_vectors, "file of word vectors")
    root = Path(config.data_root).expanduser()
    places = (root, root / "glove", root.resolve().parent / "glove") if config.data_root else ()
    return next((file for place in places for file in sorted(place.glob("glove*50d*.txt"))), None)


def _of_text_model(
    config: DataConfig, texts: list[str], progress: Callable | None, device: torch.device | str | None
) -> CaptionInputs:
    if config.vocabulary or config.word_vectors:
        raise BadInput("a text model brings its own words: leave vocabulary and word_vectors empty, or text_model.")
    sizes = {"vocabulary": 0, "word_dim": config.word_dim}
    if config.fine_tunes("text"):
        folder = pretrained.find_pretrained(config.dual_model or config.text_model)
        dual = bool(config.dual_model)
        pieces = pretrained.dual_pieces(folder) if dual else pretrained.word_pieces(folder)
        identity = {"text_model": f"{pieces.identity}-{folder.identity}"}
        network = pretrained.describe_dual(folder, "text") if dual else pretrained.describe_text(folder)
        sizes["text_network"] = _adapted(network, config.lora)
        return pieces(texts)[0], CaptionReader(pieces), identity, sizes, None
    model = PretrainedStates(config.text_model, device=device)
    reader, sizes["text_width"] = CaptionReader(model.pieces, model), model.width
    return reader.of_corpus(texts, progress), reader, {"text_model": model.identity}, sizes, None


def _offsets(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])


# Both, for what is no corpus of its own.


STATES, NEAREST = "text_model", "nearest_words.json"  # the folder of a frozen text model, and a file


@dataclass(frozen=True)
class RawInputs(Brief):
    """How a method reads what is no corpus of its own.

    inputs: sizes, for building a method. captions: reads sentences. describer: of images; None for a method on region
    features.
    """

    inputs: Inputs
    captions: CaptionReader
    describer: Describer | None

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The words of captions; None where a text model brings its own."""
        return self.captions.words if isinstance(self.captions.words, Vocabulary) else None

    @property
    def pieces(self) -> WordPieces | None:
        """The tokenizer of a text model; None where there is a vocabulary."""
        return None if self.vocabulary else self.captions.words

    @property
    def fit(self) -> Fit | None:
        """How images of any shape become squares before `new_images` takes them; None for squashing."""
        return self.describer.fit if self.describer else None

    def new_images(self, images: UInt8[np.ndarray, "n h w 3"]) -> Features | Pixels:
        """Images from outside the corpus (or changed ones), as the corpus's own are given to a method.

        Height and width are inputs.resolution.
        Raises: BadInput for a corpus of region features, images of another resolution, or none.
        """
        describer, shape = self._describer(), (self.inputs.resolution, self.inputs.resolution, 3)
        if not len(images) or images.shape[1:] != shape or images.dtype != np.uint8:
            raise BadInput(f"images must be uint8 of n × {shape}, got {images.dtype} of {images.shape}.")
        return describer(images)

    def images_of(
        self, corpus: Corpus, progress: Callable | None = None, rows: np.ndarray | None = None
    ) -> ImageReader:
        """Reader of images of another corpus, as this one's are given to a method: image rows → Features or Pixels.

        Frozen features are extracted once and cached on disk, under the content of the images. progress: wraps the
        list of batches (tqdm). rows: the only images that will be read, ascending; None for all.
        Raises: BadInput where one of the two brings region features and the other images, or features of another width.
        """
        if self.describer is None and corpus.features is not None:
            own, (_, cells, width) = self.inputs, corpus.features.shape
            if width != own.image_width or (cells != own.cells and 1 in (cells, own.cells)):
                read = f"this model reads {own.cells} × {own.image_width}"
                raise BadInput(f"{corpus.name} has features of {cells} × {width} an image, and {read}.")
            return feature_reader(corpus.features)
        if corpus.read_pixels is None:
            raise BadInput(f"{corpus.name} brings features and no images to be read.")
        return self._describer().images_of(corpus, progress, rows)

    def new_captions(self, texts: Sequence[str]) -> Tokens | Features:
        """Sentences, as the corpus's captions are given to a method. Raises: BadInput for none, an empty one
        or what is no string."""
        if not len(texts):
            raise BadInput("no sentence given; give at least one.")
        if wrong := [text for text in texts if not is_text(text) or not text.strip()]:
            raise BadInput(f"sentences must be strings with at least one word, in Unicode, got {wrong[0]!r}.")
        return self.captions(texts)

    def to(self, device: torch.device | str) -> None:
        """Let the frozen networks that read images and sentences compute on another device; what has none stays."""
        for network in (self.describer and self.describer.extractor, self.captions.model):
            if hasattr(network, "to"):
                network.to(device)

    def _describer(self) -> Describer:
        if self.describer is None:
            raise BadInput("this method reads features of regions; your own images need the detector that made them.")
        return self.describer


def write_inputs(raw: RawInputs, folder: Path) -> dict:
    """Write what reading images and sentences needs into a folder, words excepted, which a saved method brings.

    Returns the description that `read_inputs` takes. Raises: BadInput for pickled weights; CannotWrite.
    """
    model, nearest = raw.captions.model, raw.captions.nearest
    if model is not None:
        copy_model(model.folder, folder / STATES)
    if nearest:
        files.write_atomic(folder / NEAREST, json.dumps(dict(nearest), ensure_ascii=False))
    texts = "states" if model is not None else "words" if raw.vocabulary else "pieces"
    images = raw.describer.write(folder) if raw.describer else None
    return {"images": images, "texts": texts, **({"nearest": NEAREST} if nearest else {})}


def read_inputs(folder: Path, description: Mapping, inputs: Inputs, words: Vocabulary | WordPieces) -> RawInputs:
    """What `write_inputs` wrote. inputs, words: those of the method. Raises: as Describer.read and PretrainedStates."""
    nearest = read_nearest(folder / NEAREST) if description.get("nearest") else None
    model = PretrainedStates(folder / STATES) if description["texts"] == "states" else None
    images = description["images"]
    describer = Describer.read(folder, images) if images else None
    return RawInputs(inputs, CaptionReader(words, model, nearest), describer)


# Images in the forms in which a user has them, as a loaded model reads them.

ImageLike = str | os.PathLike | bytes | BinaryIO | Mapping | Image.Image | np.ndarray | Tensor


def listed(images, one_has_three_axes: bool) -> Sequence:
    """Images as a list or an array with one entry for each; a single one becomes a list of one.

    one_has_three_axes: whether an array of two or three axes is one image. Raises: BadInput for no image.
    """
    if hasattr(images, "to_numpy") and not (one_has_three_axes and hasattr(images, "columns")):  # of pandas
        images = as_array(images)
    is_array = isinstance(images, np.ndarray | Tensor)
    one = isinstance(images, str | os.PathLike | bytes | bytearray | Mapping | Image.Image) or hasattr(images, "read")
    if one or (is_array and one_has_three_axes and images.ndim in (2, 3)):
        return [images]
    images = images if is_array else in_order(images, "images")
    if not len(images):
        raise BadInput("no image given; give at least one.")
    return images


def pixels_of(image: ImageLike) -> UInt8[np.ndarray, "h w 3"]:
    """The pixels of an image, equal whether it is given as a path, the file's bytes, an open file, a PIL image (turned
    as its EXIF data says), a row of a column of `datasets` (with 'bytes' and 'path'), or an array of its numbers.

    Arrays: see features.images.pixels_of_array.
    Raises: BadInput for what is no image; DamagedFile for a file that cannot be read.
    """
    if isinstance(image, Mapping) and image.keys() & {"bytes", "path"}:
        image = image.get("path") if image.get("bytes") is None else image["bytes"]
    if isinstance(image, str | os.PathLike):
        image = files.existing_file(os.fspath(image), "image")
    if isinstance(image, Path | bytes | bytearray | Image.Image) or hasattr(image, "read"):
        with pictures.named(image), pictures.opened_image(image) as opened:
            return np.asarray(pictures.convert_to_rgb(opened))
    x = as_array(image)
    if isinstance(image, Tensor) and x.ndim == 3 and x.shape[0] in (1, 3, 4) and x.shape[2] <= 4:
        raise BadInput(f"a tensor of {x.shape} may have its channels first or last; give it as an array h×w×channels.")
    return pictures.pixels_of_array(x)


def one_image(image: ImageLike, raw: RawInputs) -> UInt8[np.ndarray, "h w 3"]:
    """One image of any size at a model's resolution, read as images of a corpus are. Raises: as pixels_of."""
    return pictures.array_reader(pixels_of(image)[None])(np.array([0]), raw.inputs.resolution, fit=raw.fit)[0]


def regions(images, inputs: Inputs) -> Features:
    """Features of regions, "n l e" or a list of "l e" of any l, or one vector for each image, "n e", where a model was
    trained on such.

    Raises: BadInput for other shapes, another width, or numbers that are not finite.
    """
    arrays, width = [torch.from_numpy(as_array(image).astype(np.float32)) for image in images], inputs.image_width
    axes = (1, 2) if inputs.cells == 1 else (2,)  # one vector of each image
    if not all(x.ndim in axes and x.shape[-1] == width and len(x) and x.isfinite().all() for x in arrays):
        got = f"{len(arrays)} × {min(tuple(x.shape) for x in arrays)}"
        raise BadInput(f"features of regions must be finite, n × regions × {width}, got {got}.")
    return Features(*padded(arrays, None, "images"))
