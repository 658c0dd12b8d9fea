"""How sentences become what a method reads: one description for those of a corpus and for any others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
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
from xmr_core.features.words import Vocabulary, read_vocabulary, rule

_TOGETHER = 8192  # captions whose states are computed before the cache notes how far the work is


@dataclass(frozen=True)
class CaptionReader:
    """Sentences → word numbers, word pieces, or states of a frozen text model.

    words: the vocabulary, or the word pieces of a text model. model: the text model whose states are read, None where
    words or pieces themselves are. nearest: word without a training caption → the training word that it is read as
    (docs/data.md#data-word-vectors).

    >>> CaptionReader(Vocabulary.build(["a dog"])).words_of("A zebra")
    (['a'], ['zebra'])
    """

    words: Vocabulary | WordPieces
    model: PretrainedStates | None = None
    nearest: Mapping[str, str] | None = None

    def __call__(self, texts: Sequence[str]) -> Tokens | Features:
        if self.model is not None:
            states = self.model(texts, progress=iter)
            rows = np.arange(len(states))
            return CaptionStates(np.concatenate(states), _offsets([len(s) for s in states]), rows).read(rows)
        if isinstance(self.words, Vocabulary):
            return self.words.encode(texts, self.nearest)
        return self.words(texts)[0]

    def words_of(self, text: str) -> tuple[list[str], list[str]]:
        """(words that are known or read as others, words that are not known). A text model knows all word pieces."""
        if not isinstance(self.words, Vocabulary):
            return text.split(), []
        words, known = rule(self.words.tokeniser)(text), (self.words.numbers, self.nearest or {})
        unknown_words = [word for word in words if not any(word in part for part in known)]
        return [word for word in words if word not in unknown_words], unknown_words


@dataclass(frozen=True)
class CaptionInputs:
    """The captions of a corpus as a method reads them.

    captions: all of them. reader: any others. identity: names the words and networks by content. sizes: those of the
    captions in methods.Inputs. coverage: share of the words of the training captions that have a word vector from a
    file, None without a file.
    """

    captions: Tokens | CaptionStates
    reader: CaptionReader
    identity: dict[str, str]
    sizes: dict[str, object]
    coverage: float | None = None


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
    sizes = {"vocabulary": len(vocabulary.words), "word_dim": config.word_dim}
    if file is None:
        return CaptionInputs(tokens, CaptionReader(vocabulary), identity, sizes)
    vectors, in_file = load_word_vectors(file, vocabulary.words)
    sizes |= {"word_dim": vectors.shape[1], "word_vectors": torch.from_numpy(vectors)}
    ids = tokens.ids.numpy()[training]
    coverage = float(in_file[ids[ids > 3]].mean()) if (ids > 3).any() else 0.0
    reader = CaptionReader(vocabulary, nearest=NearestWords(file, vocabulary))
    return CaptionInputs(tokens, reader, identity, sizes, coverage)


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
    sizes = {"vocabulary": 0, "word_dim": config.word_dim}
    if config.fine_tunes("text"):
        folder = find_pretrained(config.text_model)
        pieces = word_pieces(folder)
        identity = {"text_model": f"{pieces.identity}-{folder.identity}"}
        sizes["text_network"] = describe_text(folder)
        return CaptionInputs(pieces(texts)[0], CaptionReader(pieces), identity, sizes)
    model = PretrainedStates(config.text_model, device=device)
    indptr = _offsets(model.pieces(texts)[0].mask.sum(1).numpy())

    def work(start: int) -> Iterator[np.ndarray]:
        blocks = [n for n in range(0, len(texts), _TOGETHER) if indptr[n] >= start]
        for n in (progress or tqdm)(blocks):
            yield np.concatenate(model(texts[n : n + _TOGETHER]))

    key = [model.identity, fingerprint.content_hash(texts)]
    array = cached_array("states", key, (int(indptr[-1]), model.width), np.float16, work, about=model.identity)
    states, sizes["text_width"] = CaptionStates(array, indptr, np.arange(len(texts))), model.width
    return CaptionInputs(states, CaptionReader(model.pieces, model), {"text_model": model.identity}, sizes)


def _offsets(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])
