"""Word vectors from a GloVe text file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from xmr_core.base import paths
from xmr_core.base.errors import BadInput


def load_word_vectors(
    path: Path | str, words: Sequence[str], seed: int = 0, tolerant: bool = True
) -> tuple[Float[np.ndarray, "v d"], Bool[np.ndarray, " v"]]:
    """Vectors for a vocabulary, and which words were found.

    A word that is not in the file gets numbers drawn from N(0, s²), s the standard deviation of the vectors found, from
    `seed`. tolerant: also try a word without '-', '.' and apostrophes, or its part before '/' (METHODS §1.4).
    Raises: BadInput when the file is absent, a line has another width (its number is named) or no word is found.
    """
    path = paths.existing(path, "word vectors")
    wanted: dict[str, list[int]] = {}
    for n, word in enumerate(words):
        wanted.setdefault(word, []).append(n)
    spare: dict[str, list[int]] = {}
    if tolerant:
        for n, word in enumerate(words):
            for plain in {"".join(c for c in word if c not in "-.'"), word.split("/")[0]} - {word, ""}:
                spare.setdefault(plain, []).append(n)
    out, found, width = None, np.zeros(len(words), bool), 0
    exact = np.zeros(len(words), bool)
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            word, *numbers = line.rstrip("\n").split(" ")
            width = width or len(numbers)
            if len(numbers) != width:
                raise BadInput(f"{path} line {number} has {len(numbers)} numbers, the lines before it {width}. The file is damaged.")
            if out is None:
                out = np.zeros((len(words), width), np.float32)
            targets = [(n, True) for n in wanted.get(word, ())] + [(n, False) for n in spare.get(word, ())]
            for n, is_exact in targets:
                if is_exact or not exact[n]:
                    try:
                        out[n] = np.array(numbers, np.float32)
                    except ValueError:
                        raise BadInput(f"{path} line {number} holds something that is no number. The file is damaged.") from None
                    found[n], exact[n] = True, exact[n] or is_exact
    if not found.any():
        raise BadInput(f"{path} knows none of the {len(words)} words of the vocabulary. Is it a GloVe text file of this language?")
    missing = np.flatnonzero(~found)
    out[missing] = np.random.default_rng(seed).normal(0, out[found].std(), (len(missing), width))
    return out, found
