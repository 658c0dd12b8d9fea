"""What every vector engine offers to search in two stages: proposals, and how near everything else can be at most."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int

from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Representation

_ROUNDING = 2.0**-22  # of one product of two float32 numbers of norm 1, with what was lost when they were scaled


@dataclass(frozen=True)
class Proposals:
    """The answer of an engine to some unit vectors.

    items: positions of items, −1 where fewer were proposed. bounds: for each vector, no element of the gallery that is
    missing from its row has a larger cosine with it; −∞ where none is missing, 1 where nothing is known.
    reason: why nothing is known, or ''. cosines: no element of `items` has a larger one, best first; None where the
    engine does not say.
    """

    items: Int[np.ndarray, "e p"]
    bounds: Float[np.ndarray, " e"]
    reason: str = ""
    cosines: Float[np.ndarray, "e p"] | None = None

    def above(self, cosine: float) -> "Proposals":
        """Without the elements below a cosine.

        >>> Proposals(np.array([[5, 7]]), np.array([0.1]), cosines=np.array([[0.9, 0.2]])).above(0.5).items.tolist()
        [[5, -1]]
        """
        if self.cosines is None:
            return self
        below = (self.cosines < cosine) & (self.items >= 0)
        bounds = np.where(below.any(1), np.maximum(cosine, self.bounds), self.bounds)
        return Proposals(np.where(below, -1, self.items), bounds, self.reason, self.cosines)


class Proposer(Protocol):
    """An engine that holds the elements of a gallery. Whatever has these three is searched by `two_stage`.

    gallery: the items themselves, from which proposed ones are scored. about: at least the 'width' of the elements and
    the number of all 'elements'; with 'extent', the Extent of the gallery, answers can be certified.
    """

    gallery: Representation
    about: Mapping

    def propose(self, elements: Float[np.ndarray, "e d"], per_element: int, probes: int | None = None) -> Proposals:
        """The items of the `per_element` elements nearest to each unit vector. probes: how much of the engine is
        searched, in its own unit; None: all of it."""
        ...


@dataclass(frozen=True)
class Extent:
    """Between which numbers all items of a gallery lie. A score of an unseen item is bounded by them.

    shortest, longest: norm of an element, a vector or the mean of a distribution. fewest, most: elements of an item.
    variance: the smallest Σσ² of a distribution. narrowest, widest: norm of σ.
    """

    shortest: float
    longest: float
    fewest: int = 1
    most: int = 1
    variance: float = 0.0
    narrowest: float = 0.0
    widest: float = 0.0

    @classmethod
    def from_items(cls, items: Representation) -> "Extent":
        """Of some items, at least one.

        >>> Extent.from_items(EmbeddingSet(torch.tensor([[[3.0, 4.0]]]), torch.ones(1, 1, dtype=torch.bool))).longest
        5.0
        """
        if isinstance(items, GaussianEmbedding):
            norms, sigma = _norms(items.mean), items.log_std.double().exp().norm(dim=-1)
            narrowest, widest = sigma.min().item(), sigma.max().item()
            return cls(*_ends(norms), variance=narrowest**2, narrowest=narrowest, widest=widest)
        if isinstance(items, EmbeddingSet):
            sizes = items.mask.sum(1)
            return cls(*_ends(_norms(items.x[items.mask])), int(sizes.min()), int(sizes.max()))
        return cls(*_ends(_norms(items.x)))

    @classmethod
    def joined(cls, parts: Iterable["Extent"]) -> "Extent":
        """Of all items of several parts of a gallery.

        >>> Extent.joined([Extent(1.0, 2.0), Extent(0.5, 1.5, most=3)])
        Extent(shortest=0.5, longest=2.0, fewest=1, most=3, variance=0.0, narrowest=0.0, widest=0.0)
        """
        largest = {"longest", "most", "widest"}
        pairs = ((asdict(part) for part in parts),)
        return cls(**reduce(lambda a, b: {n: (max if n in largest else min)(a[n], b[n]) for n in a}, *pairs))


def nearest_left_out(
    cosines: Float[np.ndarray, "e p"], items: Int[np.ndarray, "e p"], width: int, everything: bool, coding: float = 0.0
) -> Float[np.ndarray, " e"]:
    """Bounds of Proposals for an engine that returned the nearest elements of all that it searched, best first: no
    other can be nearer than the last. everything: whether each row has all elements that were searched. coding: the
    largest distance between an element and its code.

    >>> nearest_left_out(np.array([[0.9, 0.5]]), np.array([[3, 4]]), 2, everything=False).round(3).tolist()
    [0.5]
    """
    if everything or not cosines.shape[1]:
        return np.full(len(cosines), -np.inf)
    bounds = cosines[:, -1].astype(np.float64) + coding + rounding(width)
    return np.where((items < 0).any(1), -np.inf, bounds)


def rounding(width: int) -> float:
    """How much the cosine of two unit vectors in float32 may be wrong.

    >>> rounding(1024) < 0.001
    True
    """
    return (width + 8) * _ROUNDING


def _norms(x):
    return x.double().norm(dim=-1)


def _ends(norms: torch.Tensor) -> tuple[float, float]:
    return norms.min().item(), norms.max().item()
