"""Frozen features made small, and kept like features."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from xmr_core.base.types import Corpus
from xmr_core.data.features.array_cache import cached_array
from xmr_core.data.features.reduce import PrincipalComponents, RootMean, check_width

_AT_ONCE = 250  # pictures

View = tuple[np.ndarray, np.ndarray]  # local "n l width", whole "n e"
Reduction = Callable[[np.ndarray], View]


def reduced_features(
    corpus: Corpus, features: np.ndarray, identity: str, width: int, views: Sequence[tuple[np.ndarray, str]] = ()
) -> tuple[View, list[View], str, Reduction]:
    """((local "n l width" by PrincipalComponents, whole pictures "n e" by RootMean), the same of each view, identity, reduction).

    Both learn on the training split of `features`, and are applied to the views as they are, and by `reduction` to features of any
    other pictures. What they learned is kept like features, so that a new picture need not wait for it. views: (array, identity) of
    other looks at pictures. Raises: BadInput for a width outside 1…e.
    """
    train, e = corpus.rows("train")[0], features.shape[2]
    check_width(width, e)  # before a file is begun
    of_corpus = [corpus.picture_fingerprint or corpus.fingerprint, corpus.images["split"].tolist(), identity]

    def learned(what: str, kind: type, rows: int, dtype: type, *more: int):
        work = lambda start: [(np.arange(rows), kind(features, train, *more).numbers())]  # noqa: E731
        return kind.of(cached_array(f"reduction-{corpus.name}", [*of_corpus, what], (rows, e), dtype, work, about=f"{identity}-{what}"))

    components = cache(lambda: learned(f"pca{width}", PrincipalComponents, 1 + width, np.float32, width))
    root_mean = cache(lambda: learned("root-mean", RootMean, 2, np.float64))

    def both(array: np.ndarray, of: str) -> View:
        def made(what: str, shape: tuple[int, int], reduce: Callable) -> np.ndarray:
            def work(start: int):
                for at in range(start, len(array), _AT_ONCE):
                    rows = np.arange(at, min(at + _AT_ONCE, len(array)))
                    yield rows, reduce()(array[rows])

            return cached_array(f"features-{corpus.name}", [*of_corpus, of, what], (len(array), *shape), np.float16, work, about=f"{of}-{what}")

        local = made(f"pca{width}", (array.shape[1], width), components)
        return local, made("root-mean", (1, array.shape[2]), root_mean)[:, 0]

    def reduction(array: np.ndarray) -> View:
        return components()(array).astype(np.float16), root_mean()(array).astype(np.float16)[:, 0]

    return both(features, identity), [both(array, of) for array, of in views], f"{identity}-pca{width}-root-mean", reduction
