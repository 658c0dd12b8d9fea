"""Captions as the word pieces of a pretrained text model."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import Tokens
from xmr_core.data.features.model_folder import Found, find_pretrained, library, quiet
from xmr_core.data.features.pretrained import tower_config

_LIMITLESS = 10**6  # what transformers writes for 'no limit' is larger


@dataclass(frozen=True)
class WordPieces:
    """A pretrained tokenizer and how long a caption may be; whole in one JSON text, so that a saved method needs no folder.

    backend: JSON of the tokenizers library. pad: id on padding. mask: id that stands for a hidden word (or an unknown one), −1
    without either. special: ids that stand for no word (start, end, padding, …). max_length: word pieces of a caption at most,
    special ones included; the rest is cut off. rows: how many ids the model knows.
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
        return paths.content_hash(asdict(self))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "WordPieces":
        """Raises DamagedFile for a text that to_json did not write."""
        try:
            values = json.loads(text)
            return cls(**{f.name: tuple(values[f.name]) if f.name == "special" else values[f.name] for f in fields(cls)})
        except (ValueError, KeyError, TypeError) as e:
            raise DamagedFile(f"this is not a file of word pieces ({e}). Make it again.") from None

    @cached_property
    def _tokenizer(self):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(self.backend)
        tokenizer.enable_truncation(self.max_length)
        return tokenizer

    def __call__(self, texts: Sequence[str]) -> tuple[Tokens, int]:
        """(ids with special ones, padded on the right to the longest; how many captions were cut).

        Raises: BadInput for a caption that is no text, has no piece at all, or has one that the model does not know.
        """
        texts = list(texts)
        if wrong := [n for n, text in enumerate(texts) if not isinstance(text, str)]:
            raise BadInput(f"caption {wrong[0]} is no text but {texts[wrong[0]]!r}. Give strings.")
        encoded = self._tokenizer.encode_batch(texts)
        lengths = np.array([len(e.ids) for e in encoded], np.int64)
        if (lengths == 0).any():
            empty = int(lengths.argmin())
            raise BadInput(f"caption {empty} is empty: {texts[empty]!r}. Remove it, or give it words.")
        ids = np.full((len(texts), lengths.max(initial=1)), self.pad, np.int64)
        for row, e in enumerate(encoded):
            ids[row, : len(e.ids)] = e.ids
        if ids.size and ids.max() >= self.rows:
            raise BadInput(f"word piece {ids.max()} is beyond the model's {self.rows}: tokenizer and weights are of two models.")
        mask = np.arange(ids.shape[1]) < lengths[:, None]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask)), sum(bool(e.overflowing) for e in encoded)


def word_pieces(source: Path | str | Found, max_length: int = 64) -> WordPieces:
    """The tokenizer in a model's folder, or of a hub name. max_length: 0 for as long as the model can read.

    Raises: BadInput for a folder without tokenizer files, a tokenizer without an id for padding, or one that needs the package
        sentencepiece where that is absent and there is no tokenizer.json.
    """
    found = source if isinstance(source, Found) else find_pretrained(source)
    config, tokenizer = tower_config(found, "text"), _load(found)
    if tokenizer.pad_token_id is None:
        raise BadInput(f"{found.given}: its tokenizer has no padding token, so captions cannot stand in one batch. Choose another model.")
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    backend["truncation"] = backend["padding"] = None  # both are set here
    most = [n for n in (tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)) if n and n < _LIMITLESS]
    longest = min([*most, *([max_length] if max_length else [])], default=_LIMITLESS)
    if longest <= tokenizer.num_special_tokens_to_add():
        raise BadInput(f"max_length {longest} leaves no room for a word beside {tokenizer.num_special_tokens_to_add()} special pieces.")
    hidden = next((i for i in (tokenizer.mask_token_id, tokenizer.unk_token_id) if i is not None), -1)
    special = tuple(sorted({*tokenizer.all_special_ids} - {hidden}))
    return WordPieces(json.dumps(backend), tokenizer.pad_token_id, hidden, special, longest, config.vocab_size)


def _load(found: Found):
    """The tokenizer, with the library's own backend (word pieces, byte pairs, unigrams)."""
    folder, given = found.folder, found.given
    whole = (folder / "tokenizer.json").exists()
    if not whole and not any((folder / name).exists() for name in ("vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")):
        raise BadInput(f"{given} holds no tokenizer (tokenizer.json, or vocab.txt). Copy its files into the folder.")
    options = {"trust_remote_code": False, "local_files_only": True}
    try:
        with quiet():
            try:
                tokenizer = library().AutoTokenizer.from_pretrained(folder, **options)
            except ImportError:  # one class wants the sentencepiece package even where tokenizer.json has all of it
                tokenizer = None
            if whole and not hasattr(tokenizer, "backend_tokenizer"):
                tokenizer = library().PreTrainedTokenizerFast.from_pretrained(folder, **options)
    except Exception as e:  # whatever a foreign library raises
        raise BadInput(f"{given}: its tokenizer cannot be read ({' '.join(str(e).split())[:120]}). Copy its files again.") from e
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise BadInput(f"{given}: its tokenizer needs the package sentencepiece, or a tokenizer.json. Add that file to the folder.")
    return tokenizer
