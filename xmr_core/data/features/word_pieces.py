"""Captions as the word pieces of a pretrained text model."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cached_property

import numpy as np
import torch

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import Tokens
from xmr_core.data.features.model_folder import ModelFolder, find_pretrained, library, quiet
from xmr_core.data.features.pretrained import LOCAL, Source, tower_config

_LIMITLESS = 10**6  # transformers writes a larger number for 'no limit'
_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")


@dataclass(frozen=True)
class WordPieces:
    """A pretrained tokenizer and the length of a caption. It is saved as one JSON text, so a saved method needs no
    folder.

    backend: JSON of the tokenizers library. pad: id on padding. mask: id that stands for a hidden word (that of an
    unknown word if there is no mask), −1 without either. special: ids that stand for no word (start, end, padding, …).
    max_length: word pieces of a caption at most, special ones included; the rest is cut off. rows: ids of the model.
    """

    backend: str
    pad: int
    mask: int
    special: tuple[int, ...]
    max_length: int
    rows: int

    @property
    def identity(self) -> str:
        """16 hex digits that change when a caption could get other ids."""
        return fingerprint.content_hash(asdict(self))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "WordPieces":
        """Raises: DamagedFile for a text that to_json did not write."""
        try:
            values = json.loads(text)
            return cls(**{f.name: values[f.name] for f in fields(cls)} | {"special": tuple(values["special"])})
        except (ValueError, KeyError, TypeError) as e:
            raise DamagedFile(f"this is not a file of word pieces ({e}). Make it again.") from None

    @cached_property
    def _tokenizer(self):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(self.backend)
        tokenizer.enable_truncation(self.max_length)
        return tokenizer

    def __call__(self, texts: Sequence[str]) -> tuple[Tokens, int]:
        """(ids with special ones, padded on the right to the longest caption; how many captions were cut).

        Raises: BadInput for a caption that is no text, has no piece, or has a piece that the model does not know.
        """
        texts = list(texts)
        encoded = self._tokenizer.encode_batch(texts)
        lengths = np.array([len(e.ids) for e in encoded], np.int64)
        if (lengths == 0).any():
            empty = int(lengths.argmin())
            raise BadInput(f"caption {empty} is empty: {texts[empty]!r}. Remove it, or give it words.")
        ids = np.full((len(texts), lengths.max(initial=1)), self.pad, np.int64)
        mask = np.arange(ids.shape[1]) < lengths[:, None]
        ids[mask] = [i for e in encoded for i in e.ids]
        if ids.size and ids.max() >= self.rows:
            raise BadInput(f"word piece {ids.max()} of {self.rows}: tokenizer and weights are of two models.")
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask)), sum(bool(e.overflowing) for e in encoded)


def word_pieces(source: Source, max_length: int | None = 64) -> WordPieces:
    """The tokenizer in a model's folder, or of a hub name. max_length: None for as long as the model can read.

    Raises: BadInput for a folder without tokenizer files, a tokenizer without an id for padding, or one that needs the
        package sentencepiece where neither that nor a tokenizer.json is there.

    Example: `word_pieces("bert-base-uncased")(["a dog runs"])[0].ids` is "1 5".
    """
    folder = find_pretrained(source)
    config, tokenizer = tower_config(folder, "text"), _load(folder)
    if tokenizer.pad_token_id is None:
        raise BadInput(f"{folder.name}: its tokenizer has no padding token. Choose another model.")
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    backend["truncation"] = backend["padding"] = None  # both are done here
    limits = (tokenizer.model_max_length, getattr(config, "max_position_embeddings", None), max_length)
    longest = min((n for n in limits if n and n < _LIMITLESS), default=_LIMITLESS)
    if longest <= (special_pieces := tokenizer.num_special_tokens_to_add()):
        raise BadInput(f"max_length {longest} leaves no room for a word beside {special_pieces} special pieces.")
    mask = next((i for i in (tokenizer.mask_token_id, tokenizer.unk_token_id) if i is not None), -1)
    special = tuple(sorted({*tokenizer.all_special_ids} - {mask}))
    return WordPieces(json.dumps(backend), tokenizer.pad_token_id, mask, special, longest, config.vocab_size)


def _load(folder: ModelFolder):
    """The tokenizer, with the library's own backend (word pieces, byte pairs, unigrams)."""
    if not any((folder.path / name).exists() for name in _FILES):
        raise BadInput(f"{folder.name} holds no tokenizer (tokenizer.json, or vocab.txt). Copy it into the folder.")
    tokenizer = None
    try:
        with quiet():
            with suppress(
                ImportError
            ):  # a class may want the package sentencepiece though tokenizer.json has all of it
                tokenizer = library().AutoTokenizer.from_pretrained(folder.path, **LOCAL)
            if (folder.path / "tokenizer.json").exists() and not hasattr(tokenizer, "backend_tokenizer"):
                tokenizer = library().PreTrainedTokenizerFast.from_pretrained(folder.path, **LOCAL)
        tokenizer.backend_tokenizer  # noqa: B018  of a tokenizer in Python alone it is not there
    except Exception as e:  # whatever transformers raises
        reason = " ".join(str(e).split())[:120]
        raise BadInput(f"{folder.name}: its tokenizer cannot be read ({reason}). It needs a tokenizer.json.") from e
    return tokenizer
