"""From a data set's name to everything a method needs: corpus, cached features, words, splits and input sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version

import numpy as np
import torch
from jaxtyping import UInt8
from torch import nn

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus, Features, Pixels, Tokens
from xmr_core.data.batches import Split
from xmr_core.data.caption_inputs import caption_inputs
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import DATASETS, READERS, corpus_of
from xmr_core.data.features.word_pieces import WordPieces
from xmr_core.data.image_inputs import image_inputs
from xmr_core.data.inputs import ImageReader
from xmr_core.data.text.vocabulary import Vocabulary
from xmr_core.methods.common import Inputs

__all__ = ["DATASETS", "READERS", "SPLITS", "DataConfig", "Prepared", "prepare"]

SPLITS = ("train", "val", "test")
_KEPT = 4  # prepared corpora that a process remembers
_recent: "dict[DataConfig, Prepared]" = {}


@dataclass(frozen=True)
class Prepared:
    """A corpus ready for training. splits: 'train', 'val', 'test' → Split. identity: names corpus, features, words and input
    sizes by content. vocabulary: None where a text model brings its own words, whose tokenizer is pieces. coverage: share of the
    training captions' words with a word vector from a file, None without a file. describe, of, read: behind new_images, images_of and new_captions."""

    corpus: Corpus
    splits: dict[str, Split]
    inputs: Inputs
    vocabulary: Vocabulary | None
    identity: dict[str, str | int]
    config: DataConfig
    coverage: float | None = None
    pieces: WordPieces | None = None
    describe: Callable[[np.ndarray], Features | Pixels] | None = None
    read: Callable[[Sequence[str]], Tokens | Features] | None = None
    of: Callable[..., ImageReader] | None = None

    def new_images(self, pictures: UInt8[np.ndarray, "n resolution resolution 3"]) -> Features | Pixels:
        """Pictures that are not in the corpus (or were changed) as its own are given to a method. resolution: inputs.resolution.

        Raises: BadInput for a corpus of region features, pictures of another resolution, or none.
        """
        resolution = self.inputs.resolution
        self._needs_pictures(self.describe)
        if not len(pictures) or pictures.shape[1:] != (resolution, resolution, 3) or pictures.dtype != np.uint8:
            raise BadInput(f"pictures must be uint8 of n×{resolution}×{resolution}×3, got {pictures.dtype} of {'×'.join(map(str, pictures.shape))}.")
        return self.describe(pictures)

    def images_of(self, corpus: Corpus, progress: Callable | None = None) -> ImageReader:
        """Reader of all pictures of another corpus, as this one's are given to a method: image rows → Features or Pixels.

        Frozen features are extracted once and kept on disk, keyed by the pictures' content. progress: wraps the list of batches (tqdm).
        Raises: BadInput where this corpus, or the other, brings features of regions instead of pictures.
        """
        self._needs_pictures(self.of)
        if corpus.read_pixels is None:
            raise BadInput(f"{corpus.name} brings features and no pictures to be read.")
        return self.of(corpus, progress)

    def _needs_pictures(self, reader: Callable | None) -> None:
        if reader is None:
            raise BadInput(f"{self.config.dataset} brings features of regions; pictures of your own need the detector that made them.")

    def new_captions(self, texts: Sequence[str]) -> Tokens | Features:
        """Sentences as the corpus's captions are given to a method. Raises: BadInput for no sentence, or one without a word."""
        if not len(texts):
            raise BadInput("no sentence given; give at least one.")
        return self.read(texts)

    def load_pretrained(self, method: nn.Module) -> None:
        """Give the pretrained models that a new method fine-tunes their weights; a recipe alone builds them with random ones."""
        for kind, source in (("image", self.config.image_model), ("text", self.config.text_model)):
            if self.config.fine_tunes(kind):
                encoder = method.image_encoder if kind == "image" else method.caption_encoder
                encoder.load_weights(source)


def prepare(config: DataConfig, progress: Callable | None = None, device: torch.device | str | None = None) -> Prepared:
    """Load, extract (once; cached on disk) and index. Equal configs in one process share one result.

    progress: wraps lists of batches that are extracted; tqdm by default. device: where networks extract, None for the CPU; other
    devices give features that differ in their last bits, and share the cache.
    Raises: BadInput for an unknown dataset or features, missing files, an empty split, or an empty caption.
    """
    if config not in _recent:
        _recent[config] = _prepared(config, progress, device)
        while len(_recent) > _KEPT:
            _recent.pop(next(iter(_recent)))
    return _recent[config]


def _prepared(config: DataConfig, progress: Callable | None, device: torch.device | str | None) -> Prepared:
    corpus = corpus_of(config)
    for split in SPLITS:
        if not all(map(len, corpus.rows(split))):
            raise BadInput(
                f"{config.dataset} has no pictures with captions in its {split} split. Check the lists in {config.data_root!r} "
                "(`python -m xmr_core check` shows what was read)."
            )
    captions = caption_inputs(config, corpus, progress, device)
    images = image_inputs(config, corpus, progress, device)
    splits = {}
    for split in SPLITS:
        i, t = corpus.rows(split)
        views = images.views if split == "train" else 0
        classes = corpus.images["class"].iloc[i].astype("category").cat.codes.to_numpy() if "class" in corpus.images else None
        splits[split] = Split(i, t, images.read, captions.of(t), corpus.judges["annotated"](split), views, classes)
    inputs = Inputs(
        image_width=images.width,
        cells=images.cells,
        vocabulary=len(captions.vocabulary.words) if captions.vocabulary else 0,
        word_dim=captions.vectors.shape[1] if captions.vectors is not None else config.word_dim,
        word_vectors=captions.vectors,
        ordered_cells=images.ordered,
        resolution=images.resolution,
        global_width=images.global_width,
        text_width=captions.width,
        image_network=images.network,
        text_network=captions.network,
    )
    sizes = {f.name: getattr(inputs, f.name) for f in fields(inputs) if f.name != "word_vectors"}
    identity = {"corpus": corpus.fingerprint, "features": images.identity, **captions.identity, **sizes}
    if images.network or captions.network:  # another version may build another network from the same description
        identity["transformers"] = version("transformers")
    return Prepared(
        corpus,
        splits,
        inputs,
        captions.vocabulary,
        identity,
        config,
        captions.coverage,
        captions.pieces,
        images.describe,
        captions.read,
        images.of,
    )
