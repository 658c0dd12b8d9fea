"""Scores of all pairs, block by block: of a similarity, of several together, or from a finished matrix."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Representation
from xmr_core.evaluation.engine.plan import MAX_ELEMENTS, Items, blocks, set_size, take
from xmr_core.evaluation.engine.precision import matrix_precision

Similarity = Callable[[Representation, Representation], Tensor]
_LARGER = 8  # blocks for similarities that say `own_blocks`: they cut them small themselves, and gain when that seldom leaves a rest
_AREA = 256, 16384  # pairs scored together for the sake of some of them, at least; element pairs, at most
_SAMPLE = 32, 64  # images and captions on which the error is measured
_TIE = 1e-12  # of the largest score: what float64 itself may get wrong


class Scores:
    """score[image, caption] of `shape` (images, captions), never all at once.

    plan(): blocks (images, captions), every pair once. block(): their scores as fast as they can be had. exact(): the same in float64.
    error: how far a fast score may be from the exact one; 0 where the fast one is what counts. tie: exact scores that differ by
    no more are equal, because float64 cannot tell them apart.
    """

    shape: tuple[int, int]
    error: float = 0.0
    tie: float = 0.0

    def plan(self) -> Iterator[tuple[Items, Items]]:
        raise NotImplementedError

    def block(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        raise NotImplementedError

    def exact(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        return self.block(images, captions).double()

    def pairs(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Exact scores of single pairs."""
        raise NotImplementedError

    def part(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " m"]) -> "Scores":
        """The scores among some images and captions, numbered in that order."""
        raise NotImplementedError

    def widen(self, error: float) -> None:
        """Take `error` for the largest one from now on."""
        self.error = error


class MatrixScores(Scores):
    """Scores from a finished matrix "i t"; what stands there is exact."""

    def __init__(self, matrix: Float[np.ndarray, "i t"]):
        self.matrix, self.shape = matrix, matrix.shape

    def plan(self) -> Iterator[tuple[Items, Items]]:
        rows = max(1, MAX_ELEMENTS // 2 // max(1, self.shape[1]))
        for at in range(0, self.shape[0], rows):
            yield slice(at, min(at + rows, self.shape[0])), slice(0, self.shape[1])

    def block(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        return torch.from_numpy(np.array(self.matrix[images][:, captions]))

    def pairs(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return self.matrix[images, captions].astype(np.float64)

    def part(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " m"]) -> "MatrixScores":
        return MatrixScores(self.matrix[np.ix_(images, captions)])


class Scoring(Scores):
    """Scores of a similarity.

    Args: images, captions: what it compares. max_elements: of the largest intermediate of a block; a similarity with the attribute
        `own_blocks` keeps its intermediates small itself, and is given larger blocks. precision: of float32 products (see
        precision.PRECISIONS). device: where blocks are computed; None for where the representations are.
    Raises: BadInput naming the first pair whose score is not a number.
    """

    def __init__(
        self,
        similarity: Similarity,
        images: Representation,
        captions: Representation,
        max_elements: int = MAX_ELEMENTS,
        precision: str = "float32",
        device: torch.device | str | None = None,
    ):
        with matrix_precision(precision):  # refuses an unknown name before any work
            pass
        self.similarity, self.images, self.captions = similarity, images, captions
        self.max_elements, self.precision, self.device = max_elements, precision, device
        self.shape = (len(images), len(captions))
        self._held: tuple[Items, Representation] | None = None

    @property
    def cost(self) -> int:
        """Element pairs of a pair of items."""
        return set_size(self.images) * set_size(self.captions)

    def plan(self) -> Iterator[tuple[Items, Items]]:
        own = getattr(getattr(self.similarity, "func", self.similarity), "own_blocks", False)
        return blocks(self.images, self.captions, self.max_elements * (_LARGER if own else 1))

    def block(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        with torch.inference_mode(), matrix_precision(self.precision):
            if self._held is None or self._held[0] is not captions:  # captions stay while images pass
                self._held = captions, self._placed(take(self.captions, captions))
            found = self.similarity(self._placed(take(self.images, images)), self._held[1])
        if math.isnan(float(found.sum())) and bool((wrong := found.isnan()).any()):
            i, t = wrong.nonzero()[0].tolist()
            i, t = (int(np.arange(n)[items][at]) for n, items, at in zip(self.shape, (images, captions), (i, t), strict=True))
            raise BadInput(f"the score of image {i} and caption {t} is not a number; look for NaN in features or weights.")
        return found

    def exact(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        with torch.inference_mode():
            x, y = (_double(self._placed(take(r, items))) for r, items in ((self.images, images), (self.captions, captions)))
            return self._in_double(x, y).double()

    def pairs(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """In small blocks of neighbours: of some pairs sorted by image, every image with every caption among them."""
        order, out = np.lexsort((captions, images)), np.empty(len(images))
        new = np.concatenate([[0], np.cumsum(np.diff(images[order]) != 0)])  # how many images came before
        at, area = 0, max(_AREA[0], _AREA[1] // self.cost)
        while at < len(order):
            size = 1 << 12
            while size > 1 and size * (new[min(at + size, len(order)) - 1] - new[at] + 1) > area:
                size //= 2
            mine = order[at : at + size]
            at += size
            (i, i_at), (t, t_at) = (np.unique(side[mine], return_inverse=True) for side in (images, captions))
            out[mine] = self.exact(i, t).cpu().numpy()[i_at, t_at]
        return out

    def part(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " m"]) -> "Scoring":
        i, t = self.images[torch.from_numpy(images)], self.captions[torch.from_numpy(captions)]
        return Scoring(self.similarity, i, t, self.max_elements, self.precision, self.device)

    @cached_property
    def error(self) -> float:
        """Four times the largest difference on a sample of pairs: the largest of all is not much larger than that of thousands. Never less
        than what one rounding does: a sample may happen to be exact."""
        i, t = (np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64)) for n, most in zip(self.shape, _SAMPLE, strict=True))
        if not len(i) or not len(t):
            return 0.0
        fast, exact = self.block(i, t), self.exact(i, t)
        kind, fast = fast.dtype, fast.double()
        self._held = None
        off = torch.where(fast == exact, 0.0, (fast - exact).abs()).nan_to_num(posinf=0.0).max()
        size = torch.where(exact.isfinite(), exact, 0.0).abs().max().clamp(min=1.0)
        return 4 * float(torch.maximum(off, torch.finfo(kind).eps * size))

    @cached_property
    def tie(self) -> float:
        i, t = (np.unique(np.linspace(0, n - 1, min(n, 8)).astype(np.int64)) for n in self.shape)
        exact = self.exact(i, t)
        return _TIE * max(1.0, float(exact[exact.isfinite()].abs().max())) if exact.isfinite().any() else _TIE

    @cached_property
    def _in_double(self) -> Similarity:
        return in_double(self.similarity)

    def _placed(self, r: Representation) -> Representation:
        return r if self.device is None else r.to(self.device)


class MeanScores(Scores):
    """The plain mean of several scores, block by block, without re-normalising: the field's ensemble (METHODS §1.6).

    Raises: BadInput for none, or for different shapes.
    """

    def __init__(self, members: Sequence[Scores]):
        if len({m.shape for m in members}) != 1:
            raise BadInput(f"scores of one shape are needed, got {[m.shape for m in members]}.")
        self.members, self.shape = list(members), members[0].shape
        self.tie = sum(m.tie for m in members) / len(members)
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


def in_double(similarity: Similarity) -> Similarity:
    """The same similarity with its own numbers in float64."""
    if isinstance(similarity, nn.Module):
        return copy.deepcopy(similarity).double()
    if isinstance(similarity, partial) and isinstance(similarity.func, nn.Module):
        return partial(in_double(similarity.func), *similarity.args, **similarity.keywords)
    return similarity


def _double(r: Representation) -> Representation:
    return r._map(lambda x: x.double() if x.is_floating_point() else x)
