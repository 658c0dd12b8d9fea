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
from xmr_core.data.arrays import SPLITS
from xmr_core.data.batches import Split
from xmr_core.data.caption_inputs import caption_inputs
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import DATASETS, READERS, corpus_of
from xmr_core.data.features.word_pieces import WordPieces
from xmr_core.data.image_inputs import image_inputs
from xmr_core.data.inputs import ImageReader
from xmr_core.data.text.vocabulary import Vocabulary
from xmr_core.methods.common import Inputs

__all__ = ["DATASETS", "READERS", "SPLITS", "DataConfig", "Prepared", "prepare", "prepare_corpus"]

_REMEMBERED = 4  # prepared corpora of a process
_recent: "dict[DataConfig, Prepared]" = {}


@dataclass(frozen=True)
class Prepared:
    """A corpus ready for training.

    splits: 'train', 'val', 'test' → Split. inputs: sizes, for building a method. identity: names corpus, features,
    words and sizes by content. vocabulary: None where a text model brings its own words; pieces is then its tokenizer.
    coverage: share of the words of the training captions that have a word vector from a file, None without a file.
    describe, read, of_corpus: functions behind new_images, new_captions and images_of.
    """

    corpus: Corpus
    splits: dict[str, Split]
    inputs: Inputs
    identity: dict[str, str | int]
    config: DataConfig
    vocabulary: Vocabulary | None
    pieces: WordPieces | None
    coverage: float | None
    describe: Callable[[np.ndarray], Features | Pixels] | None
    read: Callable[[Sequence[str]], Tokens | Features]
    of_corpus: Callable[..., ImageReader] | None

    def new_images(self, images: UInt8[np.ndarray, "n h w 3"]) -> Features | Pixels:
        """Images from outside the corpus (or changed ones), as the corpus's own are given to a method.

        Height and width are inputs.resolution.
        Raises: BadInput for a corpus of region features, images of another resolution, or none.
        """
        resolution = self.inputs.resolution
        self._needs_images(self.describe)
        if not len(images) or images.shape[1:] != (resolution, resolution, 3) or images.dtype != np.uint8:
            raise BadInput(
                f"images must be uint8 of n×{resolution}×{resolution}×3, "
                f"got {images.dtype} of {'×'.join(map(str, images.shape))}."
            )
        return self.describe(images)

    def images_of(self, corpus: Corpus, progress: Callable | None = None) -> ImageReader:
        """Reader of all images of another corpus, as this one's are given to a method: image rows → Features or Pixels.

        Frozen features are extracted once and cached on disk, under the content of the images. progress: wraps the
        list of batches (tqdm).
        Raises: BadInput where this corpus, or the other, brings region features instead of images.
        """
        self._needs_images(self.of_corpus)
        if corpus.read_pixels is None:
            raise BadInput(f"{corpus.name} brings features and no images to be read.")
        return self.of_corpus(corpus, progress)

    def _needs_images(self, reader: Callable | None) -> None:
        if reader is None:
            raise BadInput(
                f"{self.config.dataset} brings features of regions; your own images need the detector that made them."
            )

    def new_captions(self, texts: Sequence[str]) -> Tokens | Features:
        """Sentences, as the corpus's captions are given to a method. Raises: BadInput for none or an empty one."""
        if not len(texts):
            raise BadInput("no sentence given; give at least one.")
        return self.read(texts)

    def load_pretrained(self, method: nn.Module) -> None:
        """Load the weights of the pretrained models that a new method fine-tunes; it is built with random ones."""
        for kind, encoder in (("image", "image_encoder"), ("text", "caption_encoder")):
            if self.config.fine_tunes(kind):
                getattr(method, encoder).load_weights(getattr(self.config, f"{kind}_model"))


def prepare(
    config: DataConfig | Corpus, progress: Callable | None = None, device: torch.device | str | None = None
) -> Prepared:
    """Read, extract (once; cached on disk) and index a corpus. Equal configs in one process share one result.

    config: what to read, or a Corpus in memory (as `prepare_corpus`). progress: wraps lists of batches that are
    extracted; tqdm by default. device: where networks extract, None for the CPU. Other devices give features that
    differ in their last bits, and share the cache.
    Raises: BadInput for an unknown dataset or features, missing files, an empty split, or an empty caption.

    >>> from xmr_core import data
    >>> prepared = data.prepare(data.from_arrays(np.eye(10), ["a dog", "two cats"] * 5))
    >>> prepared.splits["train"].images_at(np.array([0, 1])).local_feats.shape
    torch.Size([2, 1, 10])
    """
    if isinstance(config, Corpus):
        return prepare_corpus(config, progress=progress, device=device)
    if config not in _recent:
        _recent[config] = prepare_corpus(corpus_of(config), config, progress, device)
        while len(_recent) > _REMEMBERED:
            _recent.pop(next(iter(_recent)))
    return _recent[config]


def prepare_corpus(
    corpus: Corpus,
    config: DataConfig | None = None,
    progress: Callable | None = None,
    device: torch.device | str | None = None,
) -> Prepared:
    """Extract (once; cached on disk) and index a corpus in memory; `prepare` with its result not remembered.

    config: features and words; by default those of an empty DataConfig. Raises: as `prepare`.

    >>> from xmr_core.data.scenes import load_scenes
    >>> prepare_corpus(load_scenes("tiny"), DataConfig(size="tiny", features="pixels"), progress=iter).inputs.resolution
    64
    """
    config = config or DataConfig(dataset=corpus.name, corpus=corpus.fingerprint)
    for split in SPLITS:
        if not all(map(len, corpus.rows(split))):
            raise BadInput(
                f"{config.dataset} has no images with captions in its {split} split. Check the lists in "
                f"{config.data_root!r} (`python -m xmr_core check` shows what was read)."
            )
    captions = caption_inputs(config, corpus, progress, device)
    images = image_inputs(config, corpus, progress, device)
    splits = {}
    for split in SPLITS:
        i, t = corpus.rows(split)
        views, classes = images.views if split == "train" else 0, None
        if "class" in corpus.images:
            classes = corpus.images["class"].iloc[i].astype("category").cat.codes.to_numpy()
        relevance = corpus.relevance_sets["annotated"](split)
        splits[split] = Split(i, t, images.read, captions.of_rows(t), relevance, views, classes)
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
        identity,
        config,
        captions.vocabulary,
        captions.pieces,
        captions.coverage,
        images.describe,
        captions.read,
        images.of_corpus,
    )
