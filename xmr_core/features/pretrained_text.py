"""Captions as the word pieces of a pretrained text model."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import Tokens
from xmr_core.features.pretrained import (
    LOCAL,
    ModelFolder,
    Source,
    architecture,
    find_pretrained,
    library,
    load_pretrained,
    quiet,
    tower_config,
)

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
            # a class may want the package sentencepiece though tokenizer.json has all of it
            with suppress(ImportError):
                tokenizer = library().AutoTokenizer.from_pretrained(folder.path, **LOCAL)
            if (folder.path / "tokenizer.json").exists() and not hasattr(tokenizer, "backend_tokenizer"):
                tokenizer = library().PreTrainedTokenizerFast.from_pretrained(folder.path, **LOCAL)
        tokenizer.backend_tokenizer  # noqa: B018  of a tokenizer in Python alone it is not there
    except Exception as e:  # whatever transformers raises
        reason = " ".join(str(e).split())[:120]
        raise BadInput(f"{folder.name}: its tokenizer cannot be read ({reason}). It needs a tokenizer.json.") from e
    return tokenizer


# Any text model of transformers as a frozen extractor of word-piece states.


_TOKENS = 4096  # of one batch, padding included


class PretrainedStates:
    """Frozen text model: captions → the last state of each word piece, special ones included, "l e" in half precision.

    Captions of similar length are read together, about 4,096 word pieces at a time, so that little padding is computed.

    Args: source: folder or hub name. max_length: word pieces of a caption at most. device: where it computes.
    Raises: BadInput as load_pretrained and word_pieces do.

    Example: `PretrainedStates("bert-base-uncased")(["a dog runs"])[0]` is "5 768".
    """

    def __init__(self, source: Source, max_length: int = 64, device: torch.device | str | None = None):
        loaded = load_pretrained(source, "text")
        self.pieces = word_pieces(loaded.folder, max_length)
        self.folder, self.net = loaded.folder, loaded.model.requires_grad_(False)
        self.to(device)
        self.width = loaded.config.hidden_size
        self.identity = f"states-1-{self.pieces.identity}-{loaded.folder.identity}"

    def to(self, device: torch.device | str | None) -> None:
        """Compute on another device from now on; None for where the model is."""
        self.net = self.net.to(device)
        self.device = next(self.net.parameters()).device

    def __call__(self, texts: Sequence[str], progress: Callable | None = None) -> list[Float[np.ndarray, "l e"]]:
        """States of each caption. progress: wraps the batches. Raises: BadInput for states beyond half precision."""
        tokens, _ = self.pieces(texts)
        lengths = tokens.mask.sum(1).numpy()
        out: list[np.ndarray] = [np.empty((0, self.width), np.float16)] * len(lengths)
        for rows in (progress or iter)(by_length(lengths, _TOKENS)):
            longest, part = int(lengths[rows[-1]]), tokens[torch.from_numpy(rows)].to(self.device)
            with torch.inference_mode():
                mask = part.mask[:, :longest].long()
                states = self.net(input_ids=part.ids[:, :longest], attention_mask=mask).last_hidden_state
            for row, values in zip(rows, states.half().cpu().numpy(), strict=True):
                out[row] = values[: lengths[row]].copy()
                if not np.isfinite(out[row]).all():
                    raise BadInput(f"states of caption {row} are not finite in half precision; check the weights.")
        return out


def by_length(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Row numbers in batches of similar length, ascending; rows × longest ≤ budget, or a single row.

    >>> by_length(np.array([3, 9, 2]), 6)
    [array([2, 0]), array([1])]
    """
    order = np.argsort(lengths, kind="stable")
    batches, start = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end - start + 1) * lengths[order[end]] > budget:
            batches.append(order[start:end])
            start = end
    return batches


def describe_text(source: Source) -> str:
    """JSON of all that encoders.TextBackbone needs to build a network, except its weights.

    A model that reads from left to right (CLIP's text tower, GPT) is summarised by its last piece, the only one that
    has seen the whole caption. Others name no summary.
    """
    kind, summary = type(tower_config(find_pretrained(source), "text")), {}
    decodes = kind in library().MODEL_FOR_CAUSAL_LM_MAPPING and kind not in library().MODEL_FOR_MASKED_LM_MAPPING
    if kind.model_type == "clip_text_model" or (decodes and kind.model_type != "bert-generation"):
        summary = {"summary": "last"}
    return json.dumps({"architecture": architecture(source, "text"), **summary}, sort_keys=True)
