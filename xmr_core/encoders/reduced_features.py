"""Frozen features made small, and kept like features."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from xmr_core.encoders.feature_cache import kept
from xmr_core.encoders.reduce import PrincipalComponents, RootMean
from xmr_core.types import Corpus

_AT_ONCE = 250  # pictures

View = tuple[np.ndarray, np.ndarray]  # local "n l width", whole "n e"
Reduction = Callable[[np.ndarray], View]


def reduced_features(
    corpus: Corpus, features: np.ndarray, identity: str, width: int, views: Sequence[tuple[np.ndarray, str]] = ()
) -> tuple[View, list[View], str, Reduction]:
    """((local "n l width" by PrincipalComponents, whole pictures "n e" by RootMean), the same of each view, identity, reduction).

    Both learn on the training split of `features`, and are applied to the views as they are, and by `reduction` to features of any
    other pictures. views: (array, identity) of other
    looks at pictures. Raises: BadInput for a width outside 1…e.
    """
    train = corpus.rows("train")[0]
    components = cache(lambda: PrincipalComponents(features, train, width))
    root_mean = cache(lambda: RootMean(features, train))

    def both(array: np.ndarray, of: str) -> View:
        def made(what: str, shape: tuple[int, int], learned: Callable) -> np.ndarray:
            def work(start: int):
                for at in range(start, len(array), _AT_ONCE):
                    rows = np.arange(at, min(at + _AT_ONCE, len(array)))
                    yield rows, learned()(array[rows])

            key = [corpus.picture_fingerprint or corpus.fingerprint, corpus.images["split"].tolist(), identity, of, what]
            return kept(f"features-{corpus.name}", key, (len(array), *shape), np.float16, work, about=f"{of}-{what}")

        local = made(f"pca{width}", (array.shape[1], width), components)
        return local, made("root-mean", (1, array.shape[2]), root_mean)[:, 0]

    def reduction(array: np.ndarray) -> View:
        return components()(array).astype(np.float16), root_mean()(array).astype(np.float16)[:, 0]

    return both(features, identity), [both(array, of) for array, of in views], f"{identity}-pca{width}-root-mean", reduction
