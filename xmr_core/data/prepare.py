"""From a data set's name to everything a method needs: corpus, cached features, words, splits and input sizes."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.metadata import version

import torch
from torch import nn

from xmr_core.base.errors import BadInput
from xmr_core.base.fingerprint import stamps
from xmr_core.base.machine import as_a_run
from xmr_core.base.types import SPLITS, Corpus
from xmr_core.data.batches import Split
from xmr_core.data.config import PLACES, DataConfig
from xmr_core.data.corpora import READERS, corpus_of
from xmr_core.data.inputs import RawInputs, caption_inputs, image_inputs
from xmr_core.features.words import USUAL, unread
from xmr_core.methods.common import Inputs

_REMEMBERED = 4  # prepared corpora of a process
_recent: "dict[tuple, Prepared]" = {}  # by configuration, what reads it, and the device


@dataclass(frozen=True)
class Prepared(RawInputs):
    """A corpus ready for training, which also reads images and sentences from outside.

    splits: 'train', 'val', 'test' → Split. identity: names corpus, features, words and sizes by content.
    coverage: share of the words of the training captions that have a word vector from a file, None without a file.
    """

    corpus: Corpus
    splits: dict[str, Split]
    identity: dict[str, str | int]
    config: DataConfig
    coverage: float | None

    def unread(self) -> list[str]:
        """What is not read of the captions of each split, in sentences for people."""
        texts, read = self.corpus.captions["text"].to_numpy(), self.captions.words.readings
        readings = {name: read(texts[split.caption_rows].tolist()) for name, split in self.splits.items()}
        few = f"only {self.coverage or 0:.0%} of the words of train captions have a word vector"
        said = [few] * (self.coverage is not None and self.coverage < 0.5)
        return said + [message for name, own in readings.items() for message in unread(own, f"{name} captions", USUAL)]

    def load_pretrained(self, method: nn.Module) -> None:
        """Load the weights of the pretrained models that a new method fine-tunes; it is built with random ones."""
        for kind, encoder in (("image", "image_encoder"), ("text", "caption_encoder")):
            if self.config.fine_tunes(kind):
                source = self.config.dual_model or getattr(self.config, f"{kind}_model")
                getattr(method, encoder).load_weights(source)


@as_a_run()
def prepare(
    config: DataConfig | Corpus, progress: Callable | None = None, device: torch.device | str | None = None
) -> Prepared:
    """Read, extract (once; cached on disk) and index a corpus. Equal configs in one process share one result, as long
    as no file changes that they name.

    config: what to read, or a Corpus in memory (as `prepare_corpus`). progress: wraps lists of batches that are
    extracted; tqdm by default. device: where networks extract, None for the CPU. Other devices give features that
    differ in their last bits, and share the cache.
    Raises: BadInput for an unknown dataset or features, missing files, an empty split, or an empty caption.

    >>> import numpy as np
    >>> from xmr_core import data
    >>> prepared = data.prepare(data.from_arrays(np.eye(10), ["a dog", "two cats"] * 5))
    >>> prepared.splits["train"].images_at(np.array([0, 1])).local_feats.shape
    torch.Size([2, 1, 10])
    """
    if isinstance(config, Corpus):
        return prepare_corpus(config, progress=progress, device=device)
    places = [f"{config.data_root or '.'}/../glove", *filter(None, (getattr(config, name) for name in PLACES))]
    key = (config, READERS.get(config.dataset), str(device or "cpu"), stamps(places))  # a reader may be registered anew
    if key not in _recent:
        _recent[key] = prepare_corpus(corpus_of(config), config, progress, device)
        while len(_recent) > _REMEMBERED:
            _recent.pop(next(iter(_recent)))
    return _recent[key]


@as_a_run()
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
            origin = corpus.about.get("splits", "its lists")
            fault = f"{config.dataset} has no images with captions in its {split} split ({origin})"
            raise BadInput(f"{fault}. Write a column 'split' beside the captions, or give more images.")
    captions, reader, words, caption_sizes, coverage = caption_inputs(config, corpus, progress, device)
    read_images, features, image_sizes, describer = image_inputs(config, corpus, progress, device)
    splits = {}
    for split in SPLITS:
        i, t = corpus.rows(split)
        views, classes = config.views if split == "train" else 0, None
        if "class" in corpus.images:
            classes = corpus.images["class"].iloc[i].astype("category").cat.codes.to_numpy()
        relevance = corpus.relevance_sets["annotated"](split)
        splits[split] = Split(i, t, read_images, captions[t], relevance, views, classes)
    inputs = Inputs(**image_sizes, **caption_sizes)
    sizes = {f.name: getattr(inputs, f.name) for f in fields(inputs) if f.name != "word_vectors"}
    identity = {"corpus": corpus.fingerprint, "features": features, **words, **sizes}
    if inputs.image_network or inputs.text_network:  # another version may build another network from them
        identity["transformers"] = version("transformers")
    return Prepared(inputs, reader, describer, corpus, splits, identity, config, coverage)
