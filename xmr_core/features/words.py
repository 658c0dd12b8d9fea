"""The rules that make words of a caption."""

import io
import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import existing_file
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.safe_open import read_regular
from xmr_core.base.types import Tokens

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def tokenise(text: str) -> list[str]:
    """Rule 'words': lower-case words and numbers of every script that writes spaces between words.

    An apostrophe stays inside its word, and other punctuation is dropped. Nothing has to be downloaded.
    >>> tokenise("A man's dog-walk, isn't IT?")
    ['a', "man's", 'dog', 'walk', "isn't", 'it']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


def tokenise_treebank(text: str) -> list[str]:
    """Rule 'treebank': NLTK's word tokens of the lower-case caption, with which the authors' vocabularies were made.

    Punctuation becomes tokens, and contractions are split. NLTK's sentence splitter needs a download and is not used;
    for a caption of one sentence the tokens are the same.
    Raises: BadInput, when NLTK is not installed.
    """
    return _treebank().tokenize(text.lower())


RULES: dict[str, Callable[[str], list[str]]] = {"words": tokenise, "treebank": tokenise_treebank}


def rule(name: str) -> Callable[[str], list[str]]:
    """The rule with this name. Raises: BadInput, when there is none.

    >>> rule("words")("Two dogs!")
    ['two', 'dogs']
    """
    require_choice("tokeniser", name, RULES)
    return RULES[name]


@cache
def _treebank():
    try:
        from nltk.tokenize.destructive import NLTKWordTokenizer
    except ImportError:
        raise BadInput("tokeniser 'treebank' needs nltk (pip install nltk). Or use tokeniser='words'.") from None
    return NLTKWordTokenizer()


# Words and their numbers.


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


# The authors' vocabulary files, in their three layouts.


def read_vocabulary(path: str | Path, tokeniser: str = "words") -> Vocabulary:
    """An authors' vocabulary: JSON (SCAN, SGRAF, VSE∞, VSE+2AD), a pickled object (VSE++, PVSE, DivE) or dict (PCME).

    A pickle is taken apart without executing anything.
    Args: tokeniser: the rule that made the words, where the file does not name it; the authors used 'treebank'.
    Raises: BadInput, when the file is missing or is a pickle of something else; DamagedFile, when it is no vocabulary.
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     words = {"<pad>": 0, "<start>": 1, "<end>": 2, "<unk>": 3, "dog": 4}
    ...     _ = Path(folder, "vocab.pkl").write_bytes(pickle.dumps({"word2idx": words}))
    ...     read_vocabulary(f"{folder}/vocab.pkl", "treebank").words
    ('<pad>', '<start>', '<end>', '<unk>', 'dog')
    """
    path = existing_file(path, "vocabulary")
    raw = read_regular(path)
    if raw.lstrip()[:1] == b"{":
        return Vocabulary.from_json(raw.decode("utf-8", "replace"), tokeniser)
    try:
        content = _InertUnpickler(io.BytesIO(raw), encoding="latin1").load()
        numbers = content["word2idx"] if isinstance(content, dict) else content.word2idx
        if sorted(numbers.values()) != list(range(len(numbers))) or not all(isinstance(word, str) for word in numbers):
            raise ValueError("the numbers of its words are not 0, 1, …, each once")
    except BadInput:
        raise
    except Exception as e:  # a damaged pickle raises errors of many kinds
        raise DamagedFile(f"{path.name} is no pickled vocabulary ({str(e)[:200] or type(e).__name__}).") from None
    return Vocabulary(tuple(sorted(numbers, key=numbers.get)), tokeniser)


class _Inert:
    """Stands for an unpickled object: it has the state of the object and does nothing."""


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if name == "Vocabulary":
            return _Inert
        if (module, name) in (("copy_reg", "_reconstructor"), ("copyreg", "_reconstructor")):
            return lambda cls, base, state: _Inert()  # protocols 0 and 1 of old Python objects
        if (module, name) in (("__builtin__", "object"), ("builtins", "object")):
            return object
        raise BadInput(f"the vocabulary file uses {module}.{name}, which is no part of a vocabulary. It is refused.")
