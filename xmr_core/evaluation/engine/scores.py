"""Scores of all pairs, block by block: from a finished matrix, or of several sources together."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.engine.plan import MAX_ELEMENTS, Items


class Scores(ABC):
    """score[image, caption] of `shape` (images, captions), never all at once.

    plan(): blocks (images, captions), every pair once. block(): their scores as fast as they can be had. exact(): the
    same in float64. error: how far a fast score may be from the exact one; 0 where the fast one is what counts. tie:
    exact scores that differ by no more than this part of their size (of 1 where they are smaller) are equal, because
    float64 cannot tell them apart.
    """

    shape: tuple[int, int]
    error: float = 0.0
    tie: float = 0.0

    @abstractmethod
    def plan(self) -> Iterator[tuple[Items, Items]]: ...

    @abstractmethod
    def block(self, images: Items, captions: Items) -> Float[Tensor, "i t"]: ...

    def exact(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        return self.block(images, captions).double()

    @abstractmethod
    def pairs(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Exact scores of single pairs."""

    @abstractmethod
    def part(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " m"]) -> "Scores":
        """The scores among some images and captions, numbered in that order."""

    def slack(self, exact: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """What may lie between an exact score and its equals: of its own size, so that one score of 10⁴⁰, which a
        distribution that is all but a point has, does not make equals of all the others."""
        return self.tie * np.maximum(1.0, np.where(np.isfinite(exact), np.abs(exact), 0.0))


class MatrixScores(Scores):
    """Scores from a finished matrix "i t"; what stands there is exact. Raises: BadInput for a score that is NaN."""

    def __init__(self, matrix: Float[np.ndarray, "i t"]):
        self.matrix, self.shape = matrix, matrix.shape
        with np.errstate(invalid="ignore"):  # a row's sum finds NaN without a mask as large as the matrix
            suspect = np.flatnonzero(np.isnan(matrix.sum(1, dtype=np.float64)))
        for row in suspect:  # ∞ − ∞ sums to NaN too
            if (columns := np.flatnonzero(np.isnan(matrix[row]))).size:
                raise BadInput(f"the score in row {row} and column {columns[0]} is not a number; look for NaN in it.")

    def plan(self) -> Iterator[tuple[Items, Items]]:
        rows = max(1, MAX_ELEMENTS // 2 // max(1, self.shape[1]))
        for start in range(0, self.shape[0], rows):
            yield slice(start, min(start + rows, self.shape[0])), slice(0, self.shape[1])

    def block(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        return torch.from_numpy(np.array(self.matrix[images][:, captions]))

    def pairs(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return self.matrix[images, captions].astype(np.float64)

    def part(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " m"]) -> "MatrixScores":
        return MatrixScores(self.matrix[np.ix_(images, captions)])


class MeanScores(Scores):
    """The plain mean of several scores, block by block, without re-normalising: the ensemble of the papers.

    Raises: BadInput for none, or for different shapes.
    """

    def __init__(self, members: Sequence[Scores]):
        if len({m.shape for m in members}) != 1:
            raise BadInput(f"scores of one shape are needed, got {[m.shape for m in members]}.")
        self.members, self.shape = list(members), members[0].shape
        self.tie = max((m.tie for m in members), default=0.0)
        self.error = sum(m.error for m in members) / len(members)

    def plan(self) -> Iterator[tuple[Items, Items]]:
        return max(self.members, key=lambda m: getattr(m, "cost", 0)).plan()

    def block(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        if self.error == 0.0:  # what is exact must not be rounded
            return self.exact(images, captions)
        return sum(m.block(images, captions) for m in self.members) / len(self.members)

    def exact(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        return sum(m.exact(images, captions) for m in self.members) / len(self.members)

    def pairs(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return sum(m.pairs(images, captions) for m in self.members) / len(self.members)

    def part(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " m"]) -> "MeanScores":
        return MeanScores([m.part(images, captions) for m in self.members])
