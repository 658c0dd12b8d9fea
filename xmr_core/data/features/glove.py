"""Word vectors from a text file of GloVe, word2vec or fastText."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from xmr_core.base import files
from xmr_core.base.errors import BadInput
from xmr_core.base.word_vector_file import word_vector_lines


def load_word_vectors(
    path: Path | str, words: Sequence[str], seed: int = 0, tolerant: bool = True
) -> tuple[Float[np.ndarray, "v d"], Bool[np.ndarray, " v"]]:
    """Vectors for a vocabulary, and which words have one in the file.

    Other words get numbers drawn from N(0, s²), with s the standard deviation of the vectors from the file. tolerant:
    such a word is first tried without '-', '.' and apostrophes, and as its part before '/'.
    Raises: BadInput for a file that does not exist or holds none of the words, or naming a line with another number of
        numbers, or with something that is no number.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w+") as file:
    ...     _ = file.write("dog 1 2\\ncat 3 4\\n"), file.flush()
    ...     load_word_vectors(file.name, ["cat", "d-og"])[0].tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    path = files.existing_file(path, "word vectors")
    targets: dict[str, list[tuple[int, bool]]] = {}  # spelling in the file → (row, is it the word's own spelling?)
    for row, word in enumerate(words):
        targets.setdefault(word, []).append((row, True))
        for plain in {"".join(c for c in word if c not in "-.'"), word.split("/")[0]} - {word, ""} if tolerant else ():
            targets.setdefault(plain, []).append((row, False))
    read: dict[int, tuple[bool, np.ndarray]] = {}  # row → (is it the word's own spelling?, vector)
    for number, word, values in word_vector_lines(path):
        for row, own in targets.get(word, ()):
            if own or not read.get(row, (False,))[0]:
                try:
                    read[row] = own, np.array(values.split(" "), np.float32)
                except ValueError:
                    read[row] = own, np.array(np.nan, np.float32)
                if not np.isfinite(read[row][1]).all():
                    raise BadInput(f"{path} line {number} holds something that is no finite number. It is damaged.")
    if not read:
        raise BadInput(f"{path} knows none of the {len(words)} words. Is it a GloVe text file of this language?")
    covered = np.isin(np.arange(len(words)), list(read))
    vectors = np.zeros((len(words), len(next(iter(read.values()))[1])), np.float32)
    for row, (_, vector) in read.items():
        vectors[row] = vector
    random = np.random.default_rng(seed).normal(0, vectors[covered].std(), (int((~covered).sum()), vectors.shape[1]))
    vectors[~covered] = random
    return vectors, covered
