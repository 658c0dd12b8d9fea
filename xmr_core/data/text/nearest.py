"""Words that no training caption has, read as the training word with the most similar vector."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from xmr_core.base import files, fingerprint, paths
from xmr_core.base.errors import DamagedFile, XmrError
from xmr_core.base.word_vector_file import word_vector_lines
from xmr_core.data.text.vocabulary import UNKNOWN, Vocabulary

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
