"""Words and their numbers."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.types import Tokens
from xmr_core.data.text.tokenisers import rule

PAD, START, END, UNKNOWN = "<pad>", "<start>", "<end>", "<unk>"


@dataclass(frozen=True)
class Vocabulary:
    """words[n] is the word with number n; the first four are <pad>, <start>, <end> and <unk>, as in the authors' files.

    tokeniser: name of the rule that makes words of a caption. It belongs to the words, because another rule would look
    up other words.
    Raises: BadInput, when the first four words are others or the rule is unknown.
    >>> vocabulary = Vocabulary.build(["a dog", "a cat runs"])
    >>> vocabulary.encode(["a dog", "a zebra runs"]).ids.tolist()
    [[1, 4, 6, 2, 0], [1, 4, 3, 7, 2]]
    """

    words: tuple[str, ...]
    tokeniser: str = "words"

    def __post_init__(self):
        rule(self.tokeniser)
        if self.words[:4] != (PAD, START, END, UNKNOWN):
            raise BadInput(f"a vocabulary starts with <pad>, <start>, <end>, <unk>; this one: {self.words[:4]}.")

    @classmethod
    def build(cls, texts: Sequence[str], min_count: int = 1, tokeniser: str = "words") -> "Vocabulary":
        """The words of captions, in alphabetical order. Give training captions only, so that no test word leaks in."""
        split = rule(tokeniser)
        counts = Counter(word for text in texts for word in split(text))
        return cls((PAD, START, END, UNKNOWN, *sorted(w for w, n in counts.items() if n >= min_count)), tokeniser)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: n for n, word in enumerate(self.words)}

    @property
    def hash(self) -> str:
        """16 hex digits, stored with every run, because another vocabulary gives the same weights another meaning."""
        return content_hash([self.words, self.tokeniser])

    def encode(self, texts: Sequence[str], nearest: Mapping[str, str] | None = None) -> Tokens:
        """<start> words <end>, padded with 0 to the longest. nearest: word → the word that it is read as, where it has
        no number of its own. Raises: BadInput with the first caption without a word.
        """
        rows, split = [], rule(self.tokeniser)
        for n, text in enumerate(texts):
            if not (words := split(text)):
                raise BadInput(f"caption {n} is empty: {text!r} holds no word. Drop it or give it text.")
            rows.append([1, *(self._number(word, nearest) for word in words), 2])
        lengths = np.array([len(row) for row in rows], np.int64)
        mask = np.arange(lengths.max(initial=0))[None, :] < lengths[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = [number for row in rows for number in row]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask))

    def _number(self, word: str, nearest: Mapping[str, str] | None) -> int:
        number = self.numbers.get(word, 3)
        return self.numbers.get(nearest.get(word, UNKNOWN), 3) if number == 3 and nearest is not None else number

    def to_json(self) -> str:
        """The authors' JSON: word2idx, idx2word (keys are strings), idx (the number of words); and our tokeniser."""
        idx2word = {str(n): word for n, word in enumerate(self.words)}
        size = {"idx": len(self.words), "tokeniser": self.tokeniser}
        return json.dumps({"word2idx": self.numbers, "idx2word": idx2word, **size})

    @classmethod
    def from_json(cls, text: str, tokeniser: str = "words") -> "Vocabulary":
        """Read such JSON. tokeniser: the rule where the file names none. Raises: DamagedFile for another layout."""
        try:
            content = json.loads(text)
            words = content["idx2word"]
            ordered = tuple(words[str(n)] for n in range(len(words)))
            numbers, tokeniser = {word: n for n, word in enumerate(ordered)}, content.get("tokeniser", tokeniser)
            if not all(isinstance(text, str) for text in (tokeniser, *ordered)):
                raise TypeError("its words, and the name of its tokeniser, must be text")
            if len(numbers) != len(ordered) or content.get("word2idx", numbers) != numbers:
                raise ValueError("its word2idx and idx2word give different numbers to a word, or one number twice")
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as e:
            raise DamagedFile(f"not a vocabulary file (word2idx, idx2word, idx): {str(e)[:200]}.") from None
        return cls(ordered, tokeniser)
