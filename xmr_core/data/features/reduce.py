"""Frozen features made small: principal components for each cell, and one global vector of full width for the image."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus
from xmr_core.data.features.array_cache import cached_array

_AT_ONCE = 250  # images

View = tuple[np.ndarray, np.ndarray]  # local "n l width", global "n e"


def require_width(width: int, e: int) -> None:
    """Raise BadInput for a reduced width outside 1…e."""
    if not 1 <= width <= e:
        raise BadInput(f"reduced width must lie in 1…{e}, got {width}.")


class PrincipalComponents:
    """z = (x − μ) P / s: the first `width` principal components, all divided by one number s: their mean square is 1.

    μ and P are learned from the cells of the images `rows`; if these are the training split, nothing of validation or
    test enters. Components are not scaled one by one: on photographs, equal weight for the weak ones cost retrieval
    quality.

    Args: features "n l e". rows: images to learn from. Raises: BadInput for a width outside 1…e.

    >>> x = np.random.default_rng(0).normal(size=(50, 4, 6))
    >>> PrincipalComponents(x, np.arange(50), 2)(x).shape
    (50, 4, 2)
    """

    def __init__(self, features: Float[np.ndarray, "n l e"], rows: np.ndarray, width: int):
        e = features.shape[-1]
        require_width(width, e)
        total, square, count = torch.zeros(e, dtype=torch.float64), torch.zeros(e, e, dtype=torch.float64), 0
        for part in _parts(rows):
            x = torch.from_numpy(features[part].astype(np.float32)).flatten(0, 1)
            total += x.sum(0, dtype=torch.float64)
            square += (x.T @ x).double()
            count += len(x)
        self.mean = (total / count).float()
        covariance = square / count - torch.outer(total / count, total / count)
        values, vectors = torch.linalg.eigh(covariance)  # ascending
        values, vectors = values.flip(0)[:width].clamp(min=0), vectors.flip(1)[:, :width]
        # the sign of an eigenvector is arbitrary: fix it, so that two machines agree
        vectors = vectors * torch.sign(vectors.gather(0, vectors.abs().argmax(0, keepdim=True)))
        self.explained = float(values.sum() / covariance.diagonal().sum())
        self.project = (vectors / values.mean().clamp(min=1e-12).sqrt()).float()

    def numbers(self) -> Float[np.ndarray, "1+w e"]:
        """What was learned: μ, then a row for each component."""
        return torch.cat([self.mean[None], self.project.T]).numpy()

    @classmethod
    def from_numbers(cls, numbers: Float[np.ndarray, "1+w e"]) -> "PrincipalComponents":
        """The same transform from its numbers; `explained` is not among them."""
        self, learned = cls.__new__(cls), torch.from_numpy(np.array(numbers, np.float32))
        self.mean, self.project, self.explained = learned[0], learned[1:].T.contiguous(), float("nan")
        return self

    def __call__(self, features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n l w"]:
        with torch.inference_mode():
            return ((torch.from_numpy(features.astype(np.float32)) - self.mean) @ self.project).numpy()


class RootMean:
    """g = (mean over cells of sign(x) √|x| − μ) / s: a global vector of full width, with mean square 1.

    Principal components of single cells lose what is weak in every cell but adds up over an image; this vector keeps
    it. The root prevents that a few strong channels rule the mean (power normalisation: Perronnin, Sánchez and Mensink,
    ECCV 2010). μ and s are learned from the images `rows`.

    Args: features "n l e". rows: images to learn from.

    >>> x = np.random.default_rng(0).normal(size=(50, 4, 6))
    >>> RootMean(x, np.arange(50))(x).shape
    (50, 1, 6)
    """

    def __init__(self, features: Float[np.ndarray, "n l e"], rows: np.ndarray):
        pooled = np.concatenate([self._pool(features[part]) for part in _parts(rows)])
        self.mean = pooled.mean(0)
        self.scale = max(float((pooled - self.mean).std()), 1e-12)

    def numbers(self) -> Float[np.ndarray, "2 e"]:
        """What was learned: μ, then s in every place."""
        return np.stack([self.mean, np.full_like(self.mean, self.scale)])

    @classmethod
    def from_numbers(cls, numbers: Float[np.ndarray, "2 e"]) -> "RootMean":
        """The same transform from its numbers."""
        self = cls.__new__(cls)
        self.mean, self.scale = np.array(numbers[0]), float(numbers[1, 0])
        return self

    @staticmethod
    def _pool(features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n e"]:
        x = features.astype(np.float32)
        return (np.sign(x) * np.sqrt(np.abs(x))).mean(1, dtype=np.float64)

    def __call__(self, features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n 1 e"]:
        return ((self._pool(features) - self.mean) / self.scale)[:, None].astype(np.float32)


class Reduction:
    """Features "n l e" → (local "n l width" by PrincipalComponents, global "n e" by RootMean), in half precision.

    components, root_mean: functions that give the two transforms when they are needed first.

    >>> x = np.random.default_rng(0).normal(size=(50, 4, 6))
    >>> reduction = Reduction(lambda: PrincipalComponents(x, np.arange(50), 2), lambda: RootMean(x, np.arange(50)))
    >>> [part.shape for part in Reduction.from_numbers(reduction.numbers())(x)]
    [(50, 4, 2), (50, 6)]
    """

    def __init__(self, components: Callable[[], PrincipalComponents], root_mean: Callable[[], RootMean]):
        self.components, self.root_mean = cache(components), cache(root_mean)

    def __call__(self, features: Float[np.ndarray, "n l e"]) -> View:
        local, vector = self.components()(features), self.root_mean()(features)
        return local.astype(np.float16), vector.astype(np.float16)[:, 0]

    def numbers(self) -> dict[str, np.ndarray]:
        """What was learned, by name."""
        return {"components": self.components().numbers(), "root_mean": self.root_mean().numbers()}

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, np.ndarray]) -> "Reduction":
        """The same from what `numbers` gave. Raises: KeyError for a name that is missing."""
        components, root_mean = numbers["components"], numbers["root_mean"]
        return cls(lambda: PrincipalComponents.from_numbers(components), lambda: RootMean.from_numbers(root_mean))


def reduced_features(
    corpus: Corpus, features: np.ndarray, identity: str, width: int, views: Sequence[tuple[np.ndarray, str]] = ()
) -> tuple[View, list[View], str, Reduction]:
    """((local features by PrincipalComponents, global features by RootMean), the same of each view, identity,
    reduction).

    Both learn on the training split of `features`. They are applied to the views (array, identity) too, and by
    `reduction` to features of any other images. Features and what was learned are cached on disk.
    Raises: BadInput for a width outside 1…e.
    """
    train, e = corpus.rows("train")[0], features.shape[2]
    require_width(width, e)  # before a file is begun
    key = [corpus.image_fingerprint or corpus.fingerprint, corpus.images["split"].tolist(), identity]
    pca, root = f"pca{width}", "root-mean"

    def learned(name: str, kind: type, rows: int, dtype: type, *options: int):
        def work(start: int):
            yield np.arange(rows), kind(features, train, *options).numbers()

        about = f"{identity}-{name}"
        return kind.from_numbers(
            cached_array(f"reduction-{corpus.name}", [*key, name], (rows, e), dtype, work, about=about)
        )

    reduction = Reduction(
        lambda: learned(pca, PrincipalComponents, 1 + width, np.float32, width),
        lambda: learned(root, RootMean, 2, np.float64),
    )

    def reduced(array: np.ndarray, source: str, name: str, shape: tuple[int, int], transform: Callable) -> np.ndarray:
        def work(start: int):
            for n in range(start, len(array), _AT_ONCE):
                rows = np.arange(n, min(n + _AT_ONCE, len(array)))
                yield rows, transform()(array[rows])

        place, about = f"features-{corpus.name}", f"{source}-{name}"
        return cached_array(place, [*key, source, name], (len(array), *shape), np.float16, work, about=about)

    def view(array: np.ndarray, source: str) -> View:
        local = reduced(array, source, pca, (array.shape[1], width), reduction.components)
        return local, reduced(array, source, root, (1, e), reduction.root_mean)[:, 0]

    return view(features, identity), [view(*v) for v in views], f"{identity}-{pca}-{root}", reduction


def _parts(rows: np.ndarray) -> list[np.ndarray]:
    """About 100 images at a time."""
    return np.array_split(rows, max(1, len(rows) // 100))
