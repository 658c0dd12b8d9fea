"""Words and their numbers."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import Tokens
from xmr_core.data.text.tokenise import rule

PAD, START, END, UNKNOWN = "<pad>", "<start>", "<end>", "<unk>"


@dataclass(frozen=True)
class Vocabulary:
    """words[n] is the word with number n. tokeniser: the rule (tokenise.RULES) that makes words of a caption; it belongs to the words,
    because another rule would look up others. The first four words are <pad> 0, <start> 1, <end> 2, <unk> 3, as in the field's files."""

    words: tuple[str, ...]
    tokeniser: str = "words"

    def __post_init__(self):
        rule(self.tokeniser)
        if self.words[:4] != (PAD, START, END, UNKNOWN):
            raise BadInput(f"a vocabulary starts with <pad>, <start>, <end>, <unk>; this one starts with {self.words[:4]}.")

    @classmethod
    def build(cls, texts: Sequence[str], min_count: int = 1, tokeniser: str = "words") -> "Vocabulary":
        """From captions (the training split's: test words must not leak in), alphabetically."""
        split = rule(tokeniser)
        counts = Counter(word for text in texts for word in split(text))
        return cls((PAD, START, END, UNKNOWN, *sorted(w for w, n in counts.items() if n >= min_count)), tokeniser)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: n for n, word in enumerate(self.words)}

    @property
    def hash(self) -> str:
        """16 hex digits; kept with every run, because another vocabulary gives the same weights another meaning."""
        return paths.content_hash([self.words, self.tokeniser])

    def encode(self, texts: Sequence[str]) -> Tokens:
        """<start> words <end>, padded with 0 to the longest. Raises BadInput naming the first caption without a word."""
        rows, split = [], rule(self.tokeniser)
        for n, text in enumerate(texts):
            words = split(text)
            if not words:
                raise BadInput(f"caption {n} is empty: {text!r} holds no word. Drop it or give it text.")
            rows.append([1, *(self.numbers.get(word, 3) for word in words), 2])
        lengths = np.array([len(row) for row in rows], np.int64)
        mask = np.arange(lengths.max(initial=0))[None, :] < lengths[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = [number for row in rows for number in row]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask))

    def to_json(self) -> str:
        """The field's file: word2idx, idx2word (numbers as strings) and idx (how many); and our tokeniser, which others ignore."""
        idx2word = {str(n): w for n, w in enumerate(self.words)}
        return json.dumps({"word2idx": self.numbers, "idx2word": idx2word, "idx": len(self.words), "tokeniser": self.tokeniser})

    @classmethod
    def from_json(cls, text: str, tokeniser: str = "words") -> "Vocabulary":
        """Read such a file; tokeniser: of a file that does not name one. Raises DamagedFile when it is not one."""
        try:
            told = json.loads(text)
            table = told["idx2word"]
            return cls(tuple(table[str(n)] for n in range(len(table))), told.get("tokeniser", tokeniser))
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as e:
            raise DamagedFile(f"not a vocabulary file of the field's layout (word2idx, idx2word, idx): {e!r}.") from None
