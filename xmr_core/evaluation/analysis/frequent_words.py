"""Which words stand in certain and in uncertain captions."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from xmr_core.data.text.tokenisers import tokenise


def frequent_words(texts: Sequence[str], order: Sequence[float], bins: int = 10, top: int = 8) -> pd.DataFrame:
    """The words with the largest score in each bin of (almost) equal size along `order`; a column per bin, from 1.

        score of word i = (1 + ln n_i) · ln(N / n_i)

    N: captions in the bin; n_i: those of them that contain word i. Words of equal score stand in alphabetical order.
    Source: PCME, App. F.2 and Figure F.2.

    >>> frequent_words(["a cat", "a dog", "a dog sat", "two birds"], [1, 2, 3, 4], bins=2, top=1).loc[1].tolist()
    ['cat', 'a']
    """
    order = np.asarray(order, float)
    columns = {}
    for number, members in enumerate(np.array_split(np.argsort(order, kind="stable"), bins), 1):
        counts = Counter(word for m in members for word in set(tokenise(texts[m])))
        scores = {word: (1 + math.log(n)) * math.log(len(members) / n) for word, n in counts.items()}
        best = sorted(scores, key=lambda word: (-scores[word], word))[:top]
        columns[number] = pd.Series(best, index=range(1, len(best) + 1), dtype=object)
    return pd.DataFrame(columns).rename_axis("rank").fillna("")


def word_uncertainty(texts: Sequence[str], values: Sequence[float], least: int = 20) -> pd.DataFrame:
    """Mean of `values` over the captions that contain a word, largest first: columns word, captions, value.

    least: words in fewer captions are left out.

    >>> word_uncertainty(["red cat", "cat", "dog"], [3.0, 1.0, 0.0], least=1)["word"].tolist()
    ['red', 'cat', 'dog']
    """
    by_word: dict[str, list[float]] = {}
    for text, value in zip(texts, values, strict=True):
        for word in set(tokenise(text)):
            by_word.setdefault(word, []).append(float(value))
    rows = [(word, len(own), float(np.mean(own))) for word, own in by_word.items() if len(own) >= least]
    table = pd.DataFrame(rows, columns=["word", "captions", "value"])
    return table.sort_values(["value", "word"], ascending=[False, True], ignore_index=True)
