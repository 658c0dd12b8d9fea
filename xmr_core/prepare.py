"""From a data set's name to everything a method needs: corpus, cached features, words, splits and input sizes."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from xmr_core import paths
from xmr_core.data.batches import Side, feature_reader, pixel_reader
from xmr_core.data.flickr8k import load_flickr8k
from xmr_core.data.folder import load_folder
from xmr_core.data.precomputed import load_precomputed
from xmr_core.data.scenes import load_scenes
from xmr_core.data.vocabulary import Vocabulary
from xmr_core.encoders.cells import CellDescriptor
from xmr_core.encoders.feature_cache import cached_features, reduced_features
from xmr_core.encoders.glove import load_word_vectors
from xmr_core.encoders.mobilenet_v2 import MobileNetV2Grid
from xmr_core.errors import BadInput, unknown
from xmr_core.recipe_parts import Inputs
from xmr_core.types import Corpus

DATASETS = ("scenes", "flickr8k")
READERS: dict[str, Callable[..., Corpus]] = {"flickr8k": load_flickr8k, "precomputed": load_precomputed, "folder": load_folder}
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class DataConfig:
    """Which pictures, words and frozen features.

    dataset: one of DATASETS. data_root: folder of the files ('' for scenes). size, ambiguity, world_seed: of scenes.
    features: 'cells' (frozen descriptor), 'pixels' (trainable CNN, scenes only), 'mobilenet_v2' (frozen), or 'auto':
    cells on scenes, mobilenet_v2 elsewhere. weights, word_vectors: files; '' looks for them in data_root, in its
    sub-folders `weights` and `glove`, and beside it. word_dim: width of word vectors when none are read from a file.
    reduce: width of the principal components of the frozen local features (a pooled vector of full width then comes with
    them), 0 for the features as they are, −1 for 320 of MobileNetV2 and none of the cells.
    """

    dataset: str = "scenes"
    data_root: str = ""
    size: str = "quick"
    ambiguity: float = 0.05
    world_seed: int = 0
    features: str = "auto"
    weights: str = ""
    word_vectors: str = ""
    word_dim: int = 64
    reduce: int = -1


@dataclass(frozen=True)
class Prepared:
    """A corpus ready for training. sides: 'train', 'val', 'test' → Side. identity: names corpus, features, words and input
    sizes by content."""

    corpus: Corpus
    sides: dict[str, Side]
    inputs: Inputs
    vocabulary: Vocabulary
    identity: dict[str, str | int]


def prepare(config: DataConfig, progress: Callable | None = None) -> Prepared:
    """Load, extract (once; cached on disk) and index. Equal configs in one process share one result.

    Raises: BadInput for an unknown dataset or features, missing files, or an empty caption.
    """
    return _prepare(config, progress)


@lru_cache(maxsize=4)
def _prepare(config: DataConfig, progress) -> Prepared:
    corpus = _corpus(config)
    texts = corpus.captions["text"].tolist()
    vocabulary = Vocabulary.build(corpus.captions["text"][corpus.captions["split"] == "train"].tolist())
    tokens = vocabulary.encode(texts)
    vectors, vector_identity = _word_vectors(config, vocabulary)
    features = config.features if config.features != "auto" else ("cells" if config.dataset == "scenes" else "mobilenet_v2")
    if features == "pixels":
        read, identity, width, cells, whole = pixel_reader(corpus), "pixels", 0, 0, None
    else:
        extractor = _extractor(features, config, corpus)
        array = cached_features(corpus, extractor, progress=progress)
        identity, (cells, width), whole = extractor.identity, extractor.shape, None
        reduce = config.reduce if config.reduce >= 0 else (320 if features == "mobilenet_v2" else 0)
        if reduce:
            array, whole, identity = reduced_features(corpus, array, identity, reduce)
            width = reduce
        read = feature_reader(array, whole)
    sides = {}
    for split in SPLITS:
        i, t = corpus.rows(split)
        if not len(i):
            raise BadInput(f"{config.dataset} has no pictures in its {split} split. Check the split lists in {config.data_root!r}.")
        sides[split] = Side(i, t, read, tokens[torch.from_numpy(t)], corpus.judges["annotated"](split))
    inputs = Inputs(
        image_width=width,
        cells=cells,
        vocabulary=len(vocabulary.words),
        word_dim=vectors.shape[1] if vectors is not None else config.word_dim,
        word_vectors=vectors,
        side=int(corpus.about.get("side", 224)),
        whole_width=0 if whole is None else whole.shape[1],
    )
    sizes = {f.name: getattr(inputs, f.name) for f in fields(inputs) if f.name != "word_vectors"}
    names = {"corpus": corpus.fingerprint, "features": identity, "vocabulary": vocabulary.hash, "word_vectors": vector_identity}
    return Prepared(corpus, sides, inputs, vocabulary, {**names, **sizes})


def _corpus(config: DataConfig) -> Corpus:
    if config.dataset == "scenes":
        return load_scenes(config.size, config.world_seed, config.ambiguity)
    if config.dataset == "flickr8k":
        if not config.data_root:
            raise BadInput("dataset flickr8k needs data_root: the folder that holds Flicker8k_Dataset and Flickr8k_text.")
        return load_flickr8k(config.data_root)
    raise unknown("dataset", config.dataset, DATASETS)


def _extractor(name: str, config: DataConfig, corpus: Corpus):
    if name == "cells":
        return CellDescriptor(int(corpus.about.get("side", 224)))
    if name == "mobilenet_v2":
        path = _find(config.weights, config.data_root, "weights", "*mobilenet*v2*.safetensors")
        if path is None:
            raise BadInput(
                "no MobileNetV2 weights found in data_root, its folder 'weights' or beside it. Give the file: weights=FILE.safetensors."
            )
        return MobileNetV2Grid(path)
    raise unknown("features", name, ("auto", "cells", "pixels", "mobilenet_v2"))


def _word_vectors(config: DataConfig, vocabulary: Vocabulary) -> tuple[torch.Tensor | None, str]:
    path = _find(config.word_vectors, config.data_root, "glove", "glove*50d*.txt") if config.dataset != "scenes" else None
    if path is None and not config.word_vectors:
        return None, ""
    array, _ = load_word_vectors(path, vocabulary.words, seed=0)
    return torch.from_numpy(np.asarray(array, np.float32)), paths.file_hash(path)


def _find(given: str, data_root: str, sub: str, pattern: str) -> Path | None:
    """The file that was named, or the first that fits in data_root, data_root/sub or the folder `sub` beside it."""
    if given:
        return paths.existing(given, f"{sub} file")
    for base in (Path(data_root), Path(data_root) / sub, Path(data_root).resolve().parent / sub) if data_root else ():
        if found := sorted(base.glob(pattern)):
            return found[0]
    return None
