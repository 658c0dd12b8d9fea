"""Words of captions: the rules that make them, vocabularies, and word vectors from text files."""

import io
import json
import pickle
import re
from collections import ChainMap, Counter, UserDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from unicodedata import normalize

import numpy as np
import regex
import torch
from jaxtyping import Bool, Float

from xmr_core.base import files, fingerprint, paths
from xmr_core.base.errors import BadInput, DamagedFile, XmrError, require, require_choice
from xmr_core.base.paths import decoded_lines, decoded_text, read_regular
from xmr_core.base.types import Brief, Tokens

# Scripts that are written without blanks between words. Each of their letters, with its marks, is a word.
_UNSPACED = "Han Hiragana Katakana Bopomofo Yi Thai Lao Khmer Myanmar Javanese Balinese Tai_Le New_Tai_Lue Tai_Tham"
_EACH = "[[" + "".join(rf"\p{{{script}}}" for script in _UNSPACED.split()) + r"]&&\p{L}]"
_MARKS, _RUN = r"[\p{Mn}\p{Mc}\u200c\u200d]", rf"[[\p{{L}}\p{{N}}]--{_EACH}]"
_REST = rf"{_RUN}(?:{_RUN}|{_MARKS})*"
_WORD = regex.compile(rf"(?V1){_EACH}{_MARKS}*|{_REST}(?:'{_REST})?")

# What is not seen (soft hyphens, marks of direction, Arabic letters drawn out) makes no other word. A joiner does where
# it changes letters: beside a virama, and where it parts Arabic letters that else join.
_UNSEEN = regex.compile(
    r"""((?<=\p{ccc=9})[\u200c\u200d](?=\p{L})|(?<=\u0d4d)\u200d|\u200d(?=\p{ccc=9})
    |(?<=\p{jt=D}\p{Mn}*)\u200c(?=[\p{jt=D}\p{jt=R}]))|[\p{DI}\u0640--\u200b]""",
    regex.V1 | regex.X,
)

_WORD_1 = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def composed(text: str) -> str:
    """The same text in Unicode's composed form (NFC), without what is not seen: two texts that are read alike are
    equal.

    >>> composed("cafe\u0301, co\u00adop") == "café, coop"
    True
    """
    return text if text.isascii() else normalize("NFC", _UNSEEN.sub(r"\1", normalize("NFC", text)))


def small(text: str) -> str:
    """A composed text in small letters, with plain apostrophes. The dot that `lower` leaves of a Turkish İ is dropped.

    >>> small("İki")
    'iki'
    """
    return composed(composed(text).lower().replace("i\u0307", "i")).replace("’", "'")


def tokenise(text: str) -> list[str]:
    """Rule 'words': lower-case words and numbers of every script; of scripts that write no blanks between words, each
    letter.

    Marks of letters belong to their word, an apostrophe stays inside it, and other punctuation is dropped. Nothing has
    to be downloaded.
    >>> tokenise("A man's dog-walk, isn't IT?")
    ['a', "man's", 'dog', 'walk', "isn't", 'it']
    >>> tokenise("एक लड़की, 一只狗")
    ['एक', 'लड़की', '一', '只', '狗']
    """
    return tokenise_1(text) if text.isascii() else _WORD.findall(small(text))


def tokenise_1(text: str) -> list[str]:
    """Rule 'words-1': what 'words' was before it knew marks. Models of other than Latin words that it made keep it; of
    ASCII it makes the same words, and faster."""
    return _WORD_1.findall(text.lower().replace("’", "'"))


def tokenise_treebank(text: str) -> list[str]:
    """Rule 'treebank': NLTK's word tokens of the lower-case caption, with which the authors' vocabularies were made.

    Punctuation becomes tokens, and contractions are split. NLTK's sentence splitter needs a download and is not used;
    for a caption of one sentence the tokens are the same.
    Raises: BadInput, when NLTK is not installed.
    """
    return _treebank().tokenize(normalize("NFC", normalize("NFC", text).lower()))


RULES: dict[str, Callable[[str], list[str]]] = {"words": tokenise, "treebank": tokenise_treebank, "words-1": tokenise_1}


def rule(name: str) -> Callable[[str], list[str]]:
    """The rule with this name. Raises: BadInput, when there is none.

    >>> rule("words")("Two dogs!")
    ['two', 'dogs']
    """
    require_choice("tokeniser", name, RULES)
    return RULES[name]


# Names of rules in files of other than Latin words, which 'words' once made without their marks.
_STORED = {"words": "words-2", "words-1": "words"}


@cache
def _treebank():
    require("tokeniser='treebank'", "treebank", "nltk")
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


# Words and their numbers.


PAD, START, END, UNKNOWN = "<pad>", "<start>", "<end>", "<unk>"


@dataclass(frozen=True)
class Vocabulary(Brief):
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
        """Word → its number. A word of a file that is not composed has it in both forms."""
        written = {word: n for n, word in enumerate(self.words)}
        return written if self.tokeniser == "words-1" else {composed(w): n for w, n in written.items()} | written

    @property
    def hash(self) -> str:
        """16 hex digits, stored with every run, because another vocabulary gives the same weights another meaning."""
        return fingerprint.content_hash([self.words, self._stored_rule])

    @property
    def of_latin(self) -> bool:
        """Whether its words are made alike by 'words' and 'words-1': they have no letter beyond the first mark."""
        return max("".join(self.words)) < "\u0300"

    @property
    def _stored_rule(self) -> str:
        return self.tokeniser if self.of_latin else _STORED.get(self.tokeniser, self.tokeniser)

    def encode(self, texts: Sequence[str], nearest: Mapping[str, str] | None = None) -> Tokens:
        """<start> words <end>, padded with 0 to the longest. nearest: word → the word that it is read as, where it has
        no number of its own. Raises: BadInput with the first caption without a word.
        """
        rows, split = [], rule(self.tokeniser)
        for n, text in enumerate(texts):
            if not (words := split(text)):
                fault = f"caption {n} is empty: {text!r:.60} holds no word"
                raise BadInput(f"{fault}. Drop it, give it text, or choose a text_model, which also reads signs.")
            read = [word if word in self.numbers else (nearest or {}).get(word, UNKNOWN) for word in words]
            rows.append([1, *(self.numbers.get(word, 3) for word in read), 2])
        lengths = np.array([len(row) for row in rows], np.int64)
        mask = np.arange(lengths.max(initial=0))[None, :] < lengths[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = [number for row in rows for number in row]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask))

    def readings(self, texts: Sequence[str], nearest: Mapping[str, str] | None = None) -> "list[Reading]":
        """What is read of each text. nearest: as for `encode`."""
        table, sentences = ChainMap(self.numbers, nearest or {}), map(rule(self.tokeniser), texts)
        parts = ([[w for w in own if (w in table) == sought] for sought in (True, False)] for own in sentences)
        return [Reading(text, *map(tuple, part)) for text, part in zip(texts, parts, strict=True)]

    def to_json(self) -> str:
        """The authors' JSON: word2idx, idx2word (keys are strings), idx (the number of words); and our tokeniser."""
        numbers = {word: n for n, word in enumerate(self.words)}
        tables = {"word2idx": numbers, "idx2word": {str(n): word for word, n in numbers.items()}}
        return json.dumps({**tables, "idx": len(self.words), "tokeniser": self._stored_rule})

    @classmethod
    def from_json(cls, text: str, tokeniser: str = "words") -> "Vocabulary":
        """Read such JSON. tokeniser: the rule where the file names none. Raises: DamagedFile for another layout."""
        try:
            content = json.loads(text)
            words, stored = content["idx2word"], content.get("tokeniser")
            tokeniser = tokeniser if stored is None else stored
            ordered = tuple(words[str(n)] for n in range(len(words)))
            numbers = {word: n for n, word in enumerate(ordered)}
            are_texts = all(isinstance(text, str) for text in (tokeniser, *ordered))
            if not are_texts or len(numbers) != len(ordered) or content.get("word2idx", numbers) != numbers:
                raise ValueError("each word needs one number, the same in word2idx and idx2word")
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as e:
            fault = f"it lacks {e}; words are numbered 0, 1, …" if isinstance(e, KeyError) else str(e)[:200]
            raise DamagedFile(f"not a vocabulary file (word2idx, idx2word, idx): {fault}.") from None
        names = {} if stored is None or cls(ordered).of_latin else {name: rule for rule, name in _STORED.items()}
        return cls(ordered, names.get(tokeniser, tokeniser))


# What is read of a sentence, and what is not.


USUAL = 0.2  # share of unknown words from which a training says so


@dataclass(frozen=True)
class Reading:
    """The words or word pieces of a text that are known, those that are not, and the end that is cut off because it is
    beyond the limit, a number of word pieces."""

    text: str
    words: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    cut: str = ""
    limit: int = 0


def unread(readings: Sequence[Reading], what: str = "sentences", usual: float = 1.0) -> list[str]:
    """What is not read of texts, in sentences for people: texts of which nothing is known, texts that are cut, and a
    share of unknown words above `usual`. what: names the texts.

    >>> unread([Reading("a b c d", ("a", "b"), cut="c d", limit=2), Reading("e", ("e",))])
    ["1 of 2 sentences are longer than 2 word pieces and are cut there; the first: 'a b c d'."]
    """
    those, limit = f"of {len(readings):,} {what}", max((r.limit for r in readings), default=0)
    kinds = {
        "have no word that this model knows, and all such are read alike": [r for r in readings if not r.words],
        f"are longer than {limit} word pieces and are cut there": [r for r in readings if r.cut],
    }
    out = [f"{len(r):,} {those} {kind}; the first: {r[0].text!r:.60}." for kind, r in kinds.items() if r]
    unknown, every = sum(len(r.unknown) for r in readings), sum(len(r.unknown + r.words) for r in readings)
    if unknown > usual * every:
        way = "Choose a text_model that knows this language, or other training captions."
        out.append(f"{unknown / every:.0%} of the words {those} are not known. {way}")
    return out


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
    path = files.existing_file(path, "vocabulary")
    raw = read_regular(path)
    if raw.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] == b"{":  # also behind a byte-order mark
        text, odd = decoded_text(raw, path, b'"')
        if odd:  # single words are too short to tell one encoding from another
            raise BadInput(f"{path} is not UTF-8 (from string {odd[0]} on). Save it as UTF-8.")
        return Vocabulary.from_json(text, tokeniser)
    try:
        content = _InertUnpickler(io.BytesIO(raw), encoding="latin1").load()
        numbers = (content if isinstance(content, dict) else content.state)["word2idx"]
        if sorted(numbers.values()) != list(range(len(numbers))) or not all(isinstance(word, str) for word in numbers):
            first = min(numbers, key=numbers.get)
            begin = f"its {len(numbers):,} words begin with {first!r} at number {numbers[first]}"
            raise ValueError(f"{begin}; words are numbered 0, 1, …, each once, and 0 is <pad>")
    except BadInput:
        raise
    except Exception as e:  # a damaged pickle raises errors of many kinds
        raise DamagedFile(f"{path.name} is no pickled vocabulary ({str(e)[:200] or type(e).__name__}).") from None
    return Vocabulary(tuple(sorted(numbers, key=numbers.get)), tokeniser)


class Inert:
    """Stands for an unpickled object: it has the arguments and the state that the file gives, and does nothing."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def __setstate__(self, state):
        self.state = state


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if name == "Vocabulary":
            return Inert
        if module in ("copy_reg", "copyreg") and name == "_reconstructor":
            return Inert  # protocols 0 and 1 of old Python objects
        if module in ("__builtin__", "builtins") and name == "object":
            return object
        raise BadInput(f"the vocabulary file uses {module}.{name}, which is no part of a vocabulary. It is refused.")


# Text files of word vectors, as GloVe, word2vec and fastText write them.


_LONGEST = 1 << 20  # bytes of a line
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d+)?", re.I)


def word_vector_lines(path: Path) -> Iterator[tuple[str, Callable[[], Float[np.ndarray, " d"]]]]:
    """(word, function that reads its numbers) of each line of a text file of word vectors.

    The first line may be a head, 'words width', as word2vec and fastText write it. A word may hold blanks, as some of
    GloVe's 840 billion do. Raises: BadInput for a line that is too long or has another number of numbers than the
    first, and of the function for something that is no finite number.
    """
    width = 0
    with open(path, "rb") as f:
        for number, (line, _) in enumerate(decoded_lines(iter(lambda: f.readline(_LONGEST), b""), path), 1):
            if len(line.encode()) >= _LONGEST:
                raise BadInput(f"{path} line {number} has more than {_LONGEST:,} bytes. The file is damaged.")
            line = line.rstrip(" \r\n")
            if number == 1 and re.fullmatch(r"\d+ \d+", line):
                width = int(line.split(" ")[1])
                continue
            width = width or line.count(" ")
            parts = line.rsplit(" ", width)
            surplus = parts[0].split(" ")[1:]
            if len(parts) <= width or any(_NUMBER.fullmatch(part) for part in surplus):
                count = f"{line.count(' ')} numbers, the lines before it {width}"
                raise BadInput(f"{path} line {number} has {count}. The file is damaged.")
            yield parts[0], partial(_finite, line[len(parts[0]) + 1 :], f"{path} line {number}")


def _finite(numbers: str, place: str) -> Float[np.ndarray, " d"]:
    try:
        values = np.fromstring(numbers, np.float32, sep=" ")
    except ValueError:
        values = np.array(np.nan)
    if not np.isfinite(values).all():
        raise BadInput(f"{place} holds something that is no finite number. It is damaged.")
    return values


# Word vectors from a text file of GloVe, word2vec or fastText.


def load_word_vectors(
    path: Path | str, words: Sequence[str]
) -> tuple[Float[np.ndarray, "v d"], Bool[np.ndarray, " v"]]:
    """Vectors for a vocabulary, and which words have one in the file.

    A word that the file lacks is tried without '-', '.' and apostrophes, as its part before '/', and as the file's
    first word that is the same in small letters. Other words get numbers drawn from N(0, s²), with s the standard
    deviation of those in the file.
    Raises: BadInput for a file that does not exist or holds none of the words, or naming a line with another number of
        numbers, or with something that is no number.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w+") as file:
    ...     _ = file.write("dog 1 2\\ncat 3 4\\n"), file.flush()
    ...     load_word_vectors(file.name, ["cat", "d-og"])[0].tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    path = files.existing_file(path, "word vectors")
    rows_of: dict[str, set[int]] = defaultdict(set)  # spelling in the file → rows
    for row, word in enumerate(words):
        for spelling in {word, "".join(c for c in word if c not in "-.'"), word.split("/")[0]}:
            rows_of[composed(spelling)].add(row)
    read: dict[int, np.ndarray] = {}
    exact: set[int] = set()  # rows that were read under the word's own spelling
    for spelling, numbers in word_vector_lines(path):
        for row in rows_of.get(composed(spelling)) or rows_of.get(small(spelling), set()) - read.keys():
            if spelling == words[row]:
                exact.add(row)
            if spelling == words[row] or row not in exact:
                read[row] = numbers()
    if not read:
        raise BadInput(f"{path} knows none of the {len(words)} words. Is it a GloVe text file of this language?")
    covered = np.isin(np.arange(len(words)), list(read))
    vectors = np.zeros((len(words), len(next(iter(read.values())))), np.float32)
    vectors[list(read)] = np.stack(list(read.values()))
    vectors[~covered] = np.random.default_rng(0).normal(0, vectors[covered].std(), vectors[~covered].shape)
    return vectors, covered


# Words that no training caption has, read as the training word with the most similar vector.


LEAST = 0.7  # cosine of two vectors below which a word stays unknown
_TOGETHER = 2048  # words compared at a time


class NearestWords(UserDict):
    """word → the training word that it is read as. Computed at first use, from a file of word vectors.

    A word that the file knows and the vocabulary does not is read as argmax_w cos(v, v_w) over the words w of the
    vocabulary that the file knows, where that cosine is at least LEAST. The vectors are those of the file; a method
    then reads the trained vector of w. The result is stored in `cache/`.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w+") as file:
    ...     _ = file.write("dog 1 0\\ncat 0 1\\ndogs 9 1\\nof 1 -1\\n"), file.flush()
    ...     dict(NearestWords(Path(file.name), Vocabulary.build(["a dog", "a cat"])))
    {'dogs': 'dog', 'of': 'dog'}
    """

    def __init__(self, vectors: Path, vocabulary: Vocabulary):
        self._vectors, self._vocabulary = vectors, vocabulary

    @cached_property
    def data(self) -> dict[str, str]:
        key = fingerprint.content_hash([3, fingerprint.file_hash(self._vectors), self._vocabulary.hash, LEAST])
        place = paths.root() / "cache" / f"nearest-words-{key}.json"
        with suppress(XmrError, KeyError):  # none yet, or a damaged one
            return files.read_record(place)["nearest"]
        nearest = self._computed()
        with suppress(XmrError):  # a folder that cannot be written only costs time
            files.write_record(place, {"nearest": nearest})
        return nearest

    def _computed(self) -> dict[str, str]:
        read: dict[str, np.ndarray] = {}  # of two words that are queried alike, the first
        for word, numbers in word_vector_lines(self._vectors):
            with suppress(BadInput):  # a damaged line outside the vocabulary only lacks a word
                read.setdefault(small(word), numbers())
        words, vectors = [*read], np.stack([*read.values()])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
        trained = np.array([word in self._vocabulary.numbers and word != UNKNOWN for word in words], bool)
        rows, ours = np.flatnonzero(~trained), np.flatnonzero(trained)
        out: dict[str, str] = {}
        for start in range(0, len(rows) if len(ours) else 0, _TOGETHER):
            block = rows[start : start + _TOGETHER]
            cosines = vectors[block] @ vectors[ours].T
            best = cosines.argmax(1)
            near = cosines[np.arange(len(block)), best] >= LEAST
            out |= {words[row]: words[ours[n]] for row, n in zip(block[near], best[near], strict=True)}
        return out


def read_nearest(path: Path) -> dict[str, str]:
    """Such words as a saved model has them. Raises: BadInput for a missing file; DamagedFile for no JSON."""
    return files.read_json(files.existing(path, "nearest words"))
