"""What a method is given of captions: word numbers, word pieces, or frozen states of a text model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus, Features, Tokens
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import find_file
from xmr_core.data.inputs import CaptionStates
from xmr_core.features.cache import cached_array
from xmr_core.features.pretrained import find_pretrained
from xmr_core.features.pretrained_text import PretrainedStates, WordPieces, describe_text, word_pieces
from xmr_core.features.word_vectors import NearestWords, load_word_vectors
from xmr_core.features.words import Vocabulary, read_vocabulary

_TOGETHER = 8192  # captions whose states are computed before the cache notes how far the work is


@dataclass(frozen=True)
class CaptionInputs:
    """The captions of a corpus as a method reads them.

    of_rows: caption row numbers → Tokens or CaptionStates. read: the same for any texts. identity: names the words and
    networks by content. vocabulary: None with a text model, which has word pieces. vectors: "v d", word vectors from a
    file. coverage: share of the words of the training captions that have such a vector, None without a file. width: of
    frozen states, 0 for tokens. network: description (JSON) of a text model that learns, or ''. nearest: words without
    a training caption → the word that new sentences with them are read with.
    """

    of_rows: Callable[[np.ndarray], Tokens | CaptionStates]
    read: Callable[[Sequence[str]], Tokens | Features]
    identity: dict[str, str]
    vocabulary: Vocabulary | None = None
    vectors: Tensor | None = None
    coverage: float | None = None
    width: int = 0
    network: str = ""
    pieces: WordPieces | None = None
    nearest: Mapping[str, str] | None = None


def caption_inputs(
    config: DataConfig, corpus: Corpus, progress: Callable | None = None, device: torch.device | str | None = None
) -> CaptionInputs:
    """Number or encode (once; cached) all captions. Raises: BadInput for an empty caption or missing files."""
    texts = corpus.captions["text"].tolist()
    if config.text_model:
        return _of_text_model(config, texts, progress, device)
    training = (corpus.captions["split"] == "train").to_numpy()
    if config.vocabulary:
        vocabulary = read_vocabulary(config.vocabulary, config.tokeniser)
    else:
        vocabulary = Vocabulary.build(corpus.captions["text"][training].tolist(), tokeniser=config.tokeniser)
    tokens = vocabulary.encode(texts)
    if config.dataset == "scenes" and config.word_vectors:
        raise BadInput("scenes learns its words from nothing; leave word_vectors empty.")
    file = None if config.dataset == "scenes" else word_vector_file(config)
    identity = {"vocabulary": vocabulary.hash, "word_vectors": "" if file is None else fingerprint.file_hash(file)}
    if file is None:
        return CaptionInputs(tokens.__getitem__, vocabulary.encode, identity, vocabulary)
    array, in_file = load_word_vectors(file, vocabulary.words, seed=0)
    ids = tokens.ids.numpy()[training]
    words, nearest = ids[ids > 3], NearestWords(file, vocabulary)
    coverage = float(in_file[words].mean()) if len(words) else 0.0
    read, vectors = partial(vocabulary.encode, nearest=nearest), torch.from_numpy(array)
    return CaptionInputs(tokens.__getitem__, read, identity, vocabulary, vectors, coverage, nearest=nearest)


def word_vector_file(config: DataConfig) -> Path | None:
    """The file of word vectors that the words of photographs start from; None where none is named or found, and they
    start at random.

    >>> word_vector_file(DataConfig(dataset="flickr8k", data_root="no such folder")) is None
    True
    """
    return find_file(config.word_vectors, config.data_root, "glove", "glove*50d*.txt")


def _of_text_model(
    config: DataConfig, texts: list[str], progress: Callable | None, device: torch.device | str | None
) -> CaptionInputs:
    if config.vocabulary or config.word_vectors:
        raise BadInput("a text model brings its own words: leave vocabulary and word_vectors empty, or text_model.")
    if config.fine_tunes("text"):
        folder = find_pretrained(config.text_model)
        pieces = word_pieces(folder)
        identity = {"text_model": f"{pieces.identity}-{folder.identity}"}
        tokens, network = pieces(texts)[0], describe_text(config.text_model)
        return CaptionInputs(tokens.__getitem__, lambda t: pieces(t)[0], identity, network=network, pieces=pieces)
    model = PretrainedStates(config.text_model, device=device)
    indptr = _offsets(model.pieces(texts)[0].mask.sum(1).numpy())

    def work(start: int) -> Iterator:
        blocks = [n for n in range(0, len(texts), _TOGETHER) if indptr[n] >= start]
        for n in (progress or tqdm)(blocks):
            states = np.concatenate(model(texts[n : n + _TOGETHER]))
            yield np.arange(indptr[n], indptr[n] + len(states)), states

    key = [model.identity, fingerprint.content_hash(texts)]
    array = cached_array("states", key, (int(indptr[-1]), model.width), np.float16, work, about=model.identity)
    states = CaptionStates(array, indptr, np.arange(len(texts)))

    identity = {"text_model": model.identity}
    return CaptionInputs(states.__getitem__, StatesReader(model), identity, width=model.width, pieces=model.pieces)


@dataclass(frozen=True)
class StatesReader:
    """Sentences → the states of a frozen text model, as the captions of a corpus are given to a method."""

    model: PretrainedStates

    def __call__(self, texts: Sequence[str]) -> Features:
        own = self.model(texts, progress=iter)
        rows = np.arange(len(own))
        return CaptionStates(np.concatenate(own), _offsets([len(s) for s in own]), rows).read(rows)

    def to(self, device: torch.device | str) -> None:
        """Let the model compute on another device."""
        self.model.to(device)


def _offsets(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])
