"""The caption side of what a method is given: word numbers, word pieces, or frozen states of a text model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from xmr_core.base import paths
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus, Features, Tokens
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import find
from xmr_core.data.features.array_cache import cached_array
from xmr_core.data.features.glove import load_word_vectors
from xmr_core.data.features.model_folder import find_pretrained
from xmr_core.data.features.pretrained_states import PretrainedStates, describe_text
from xmr_core.data.features.word_pieces import WordPieces, word_pieces
from xmr_core.data.inputs import CaptionStates
from xmr_core.data.text.official_vocabulary import read_vocabulary
from xmr_core.data.text.vocabulary import Vocabulary

_TOGETHER = 8192  # captions whose states are computed before it is noted how far the work is


@dataclass(frozen=True)
class CaptionInputs:
    """of: caption row numbers of a split → its Tokens or CaptionStates. vocabulary: None with a text model, which has pieces.
    coverage: share of the training captions' words that have a vector from the file, None without one. width: of frozen states,
    0 for tokens. network: configuration (JSON) of a text model that learns, or ''. read: any captions, the same way."""

    of: Callable[[np.ndarray], Tokens | CaptionStates]
    identity: dict[str, str]
    read: Callable[[Sequence[str]], Tokens | Features]
    vocabulary: Vocabulary | None = None
    vectors: Tensor | None = None
    coverage: float | None = None
    width: int = 0
    network: str = ""
    pieces: WordPieces | None = None


def caption_inputs(
    config: DataConfig, corpus: Corpus, progress: Callable | None = None, device: torch.device | str | None = None
) -> CaptionInputs:
    """Number, tokenise or encode (once; cached) all captions. Raises: BadInput for an empty caption or files that are not there."""
    texts = corpus.captions["text"].tolist()
    if config.text_model:
        return _of_text_model(config, texts, progress, device)
    training = corpus.captions["text"][corpus.captions["split"] == "train"].tolist()
    if config.vocabulary:
        vocabulary = read_vocabulary(config.vocabulary, config.tokeniser)
    else:
        vocabulary = Vocabulary.build(training, tokeniser=config.tokeniser)
    tokens = vocabulary.encode(texts)
    path = find(config.word_vectors, config.data_root, "glove", "glove*50d*.txt") if config.dataset != "scenes" else None
    vectors, identity, coverage = None, "", None
    if path is not None:
        array, found = load_word_vectors(path, vocabulary.words, seed=0)
        vectors, identity = torch.from_numpy(np.asarray(array, np.float32)), paths.file_hash(path)
        ids = tokens.ids.numpy()[(corpus.captions["split"] == "train").to_numpy()]
        words = ids[ids > 3]
        coverage = float(found[words].mean()) if len(words) else 0.0
    return CaptionInputs(
        partial(_rows_of, tokens),
        {"vocabulary": vocabulary.hash, "word_vectors": identity},
        vocabulary.encode,
        vocabulary,
        vectors,
        coverage,
    )


def _of_text_model(config: DataConfig, texts: list[str], progress: Callable | None, device: torch.device | str | None) -> CaptionInputs:
    if config.vocabulary or config.word_vectors:
        raise BadInput("a text model brings its own words: leave vocabulary and word_vectors empty, or text_model.")
    if config.fine_tunes("text"):
        found = find_pretrained(config.text_model)
        pieces = word_pieces(found)
        tokens, _ = pieces(texts)
        identity, network = {"text_model": f"{pieces.identity}-{found.identity}"}, describe_text(config.text_model)
        return CaptionInputs(partial(_rows_of, tokens), identity, lambda given: pieces(given)[0], network=network, pieces=pieces)
    model = PretrainedStates(config.text_model, device=device)
    tokens, _ = model.pieces(texts)
    indptr = np.concatenate([[0], np.cumsum(tokens.mask.sum(1).numpy())])

    def work(start: int) -> Iterator:
        blocks = [at for at in range(0, len(texts), _TOGETHER) if indptr[at] >= start]
        for at in (progress or tqdm)(blocks):
            states = np.concatenate(model(texts[at : at + _TOGETHER]))
            yield np.arange(indptr[at], indptr[at] + len(states)), states

    key = [model.identity, paths.content_hash(texts)]
    states = cached_array("states", key, (int(indptr[-1]), model.width), np.float16, work, about=model.identity)

    def read(given: Sequence[str]) -> Features:
        found = model(given, progress=iter)
        rows = np.arange(len(found))
        return CaptionStates(np.concatenate(found), np.concatenate([[0], np.cumsum([len(f) for f in found])]), rows).at(rows)

    identity = {"text_model": model.identity}
    return CaptionInputs(lambda rows: CaptionStates(states, indptr, rows), identity, read, width=model.width, pieces=model.pieces)


def _rows_of(tokens: Tokens, rows: np.ndarray) -> Tokens:
    return tokens[torch.from_numpy(rows)]
