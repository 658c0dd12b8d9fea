"""Text files of word vectors, as GloVe, word2vec and fastText write them."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from xmr_core.base import files, fingerprint, paths
from xmr_core.base.errors import BadInput, DamagedFile, XmrError
from xmr_core.features.words import UNKNOWN, Vocabulary

_LONGEST = 1 << 20  # bytes of a line
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d+)?", re.I)


def word_vector_lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """(number of the line, word, its numbers with single blanks between them) of a text file of word vectors.

    The first line may be a head, 'words width', as word2vec and fastText write it. A word may hold blanks, as some of
    GloVe's 840 billion do. Raises: BadInput for a line that is too long, or has another number of numbers than the
    first.
    """
    width = 0
    with open(path, "rb") as f:
        for number, raw in enumerate(iter(lambda: f.readline(_LONGEST), b""), 1):
            if len(raw) == _LONGEST:
                raise BadInput(f"{path} line {number} has more than {_LONGEST:,} bytes. The file is damaged.")
            line = raw.decode("utf-8", "replace").rstrip(" \r\n")
            if number == 1 and re.fullmatch(r"\d+ \d+", line):
                width = int(line.split(" ")[1])
                continue
            width = width or line.count(" ")
            parts = line.rsplit(" ", width)
            surplus = parts[0].split(" ")[1:]
            if len(parts) <= width or any(_NUMBER.fullmatch(part) for part in surplus):
                count = f"{line.count(' ')} numbers, the lines before it {width}"
                raise BadInput(f"{path} line {number} has {count}. The file is damaged.")
            yield number, parts[0], line[len(parts[0]) + 1 :]


# Word vectors from a text file of GloVe, word2vec or fastText.


def load_word_vectors(
    path: Path | str, words: Sequence[str]
) -> tuple[Float[np.ndarray, "v d"], Bool[np.ndarray, " v"]]:
    """Vectors for a vocabulary, and which words have one in the file.

    A word that the file lacks is tried without '-', '.' and apostrophes, and as its part before '/'. Other words get
    numbers drawn from N(0, s²), with s the standard deviation of the vectors from the file.
    Raises: BadInput for a file that does not exist or holds none of the words, or naming a line with another number of
        numbers, or with something that is no number.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w+") as file:
    ...     _ = file.write("dog 1 2\ncat 3 4\n"), file.flush()
    ...     load_word_vectors(file.name, ["cat", "d-og"])[0].tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    path = files.existing_file(path, "word vectors")
    rows_of: dict[str, set[int]] = defaultdict(set)  # spelling in the file → rows
    for row, word in enumerate(words):
        for spelling in {word, "".join(c for c in word if c not in "-.'"), word.split("/")[0]}:
            rows_of[spelling].add(row)
    read: dict[int, np.ndarray] = {}
    exact: set[int] = set()  # rows that were read under the word's own spelling
    for number, spelling, values in word_vector_lines(path):
        for row in rows_of.get(spelling, ()):
            if row in exact and spelling != words[row]:
                continue
            try:
                read[row] = np.array(values.split(" "), np.float32)
            except ValueError:
                read[row] = np.array(np.nan, np.float32)
            if not np.isfinite(read[row]).all():
                raise BadInput(f"{path} line {number} holds something that is no finite number. It is damaged.")
            if spelling == words[row]:
                exact.add(row)
    if not read:
        raise BadInput(f"{path} knows none of the {len(words)} words. Is it a GloVe text file of this language?")
    covered = np.isin(np.arange(len(words)), list(read))
    vectors = np.zeros((len(words), len(next(iter(read.values())))), np.float32)
    vectors[list(read)] = np.stack(list(read.values()))
    random = np.random.default_rng(0).normal(0, vectors[covered].std(), (int((~covered).sum()), vectors.shape[1]))
    vectors[~covered] = random
    return vectors, covered


# Words that no training caption has, read as the training word with the most similar vector.


LEAST = 0.7  # cosine of two vectors below which a word stays unknown
_TOGETHER = 2048  # words compared at a time


class NearestWords(Mapping[str, str]):
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

    def __getitem__(self, word: str) -> str:
        return self._nearest[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nearest)

    def __len__(self) -> int:
        return len(self._nearest)

    @cached_property
    def _nearest(self) -> dict[str, str]:
        key = fingerprint.content_hash([fingerprint.file_hash(self._vectors), self._vocabulary.hash, LEAST])
        place = paths.root() / "cache" / f"nearest-words-{key}.json"
        with suppress(XmrError, KeyError):  # none yet, or a damaged one
            return files.read_record(place)["nearest"]
        nearest = self._computed()
        with suppress(XmrError):  # a folder that cannot be written only costs time
            files.write_record(place, {"nearest": nearest})
        return nearest

    def _computed(self) -> dict[str, str]:
        words, vectors = _read(self._vectors)
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


def write_nearest(nearest: Mapping[str, str], path: Path) -> None:
    """Write such words as JSON. Raises: CannotWrite."""
    files.write_atomic(path, json.dumps(dict(nearest), ensure_ascii=False))


def read_nearest(path: Path) -> dict[str, str]:
    """What `write_nearest` wrote. Raises: BadInput for a missing file; DamagedFile for another content."""
    content = files.read_json(files.existing(path, "nearest words"))
    if not isinstance(content, dict) or not all(isinstance(word, str) for word in content.values()):
        raise DamagedFile(f"{path} holds no words. Copy the folder again.")
    return content


def _read(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """(words, unit vectors) of a text file of word vectors."""
    pairs = ((word, np.fromstring(values, np.float32, sep=" ")) for _, word, values in word_vector_lines(path))
    words, rows = zip(*pairs, strict=True)
    vectors = np.stack(rows)
    return words, vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
