"""Scores of all pairs, block by block under one budget of elements, fast and exact."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from weakref import WeakSet

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.precision import matrix_precision
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.similarities.base import Similarity, as_similarity

MAX_ELEMENTS = 1 << 23  # of the largest intermediate, i·t·k·l: 32 MB in float32
_FEW = 32  # items of one size that are worth a block of their own
_AREA = 256, 16384  # pairs scored together for the sake of some of them, at least; element pairs, at most
_SAMPLE = 32, 64  # images and captions on which the error is measured
_ALONE = 3  # images and captions whose pairs are scored again, each alone
_LEEWAY = 1e-4  # of the largest score: far above rounding, also that of a similarity that computes in float32
_NO_DOUBLE = ("mps",)  # devices without float64
_TIE = 1e-12  # of a score: what float64 itself may get wrong
_SOUND = WeakSet()  # similarities that were seen to keep their contract: once is enough, a search asks often

Items = slice | np.ndarray  # positions of items; an array where items were ordered by size


def blocks(
    images: Representation, captions: Representation, max_elements: int = MAX_ELEMENTS
) -> Iterator[tuple[Items, Items]]:
    """(images, captions) of each block, captions outermost; every pair of items stands in exactly one.

    The block size follows from i·t·k·l ≤ max_elements, so that sets of 36 regions get smaller blocks than sets of 4
    slots. Items of sets of different sizes are taken in groups of one size, so that hardly any padding is computed;
    groups of few items are joined.
    """
    images_groups = _groups(images)
    for captions_group, l in _groups(captions):
        for images_group, k in images_groups:
            pairs = max(1, max_elements // (k * l))
            i_step = min(images_group.size, _even(int(pairs**0.5)))
            t_step = min(captions_group.size, _even(pairs // i_step))
            i_step = min(images_group.size, _even(pairs // t_step))
            for t in _parts(captions_group, t_step):
                for i in _parts(images_group, i_step):
                    yield i, t


def take(r: Representation, items: Items) -> Representation:
    """Those items, sets cut to the largest of them. A slice of sets without padding is a view."""
    part = r[items if isinstance(items, slice) else torch.from_numpy(items)]
    if not isinstance(part, EmbeddingSet) or not len(part):
        return part
    longest = max(1, int(_sizes(part).max()))
    return EmbeddingSet(part.x[:, :longest], part.mask[:, :longest])


def set_size(r: Representation) -> int:
    """Vectors per item that are multiplied with those of an item of the other modality."""
    if isinstance(r, GaussianEmbedding):
        return 1 if r.samples is None else r.samples.shape[1]
    return max(1, r.x.shape[1]) if isinstance(r, EmbeddingSet) else 1


def _groups(r: Representation) -> list[tuple[np.ndarray, int]]:
    """(positions, their largest set) of items that are scored together."""
    everything = np.arange(len(r))
    if not isinstance(r, EmbeddingSet) or bool(r.mask.all()):
        return [(everything, set_size(r))] if len(r) else []
    sizes = _sizes(r).numpy()
    order = np.argsort(sizes, kind="stable")
    edges = np.flatnonzero(np.diff(sizes[order])) + 1
    groups, start = [], 0
    for end in [*edges, len(order)]:
        if end - start >= _FEW or end == len(order):
            groups.append(order[start:end])
            start = end
    if len(groups) > 1 and len(groups[-1]) < _FEW:
        groups[-2:] = [np.concatenate(groups[-2:])]
    return [(group, max(1, int(sizes[group].max()))) for group in groups]


def _sizes(r: EmbeddingSet) -> torch.Tensor:
    """Position of the last real element, from 1; gaps before it count."""
    return (r.mask * torch.arange(1, r.mask.shape[1] + 1, device=r.mask.device)).amax(1).cpu()


def _even(step: int) -> int:
    """Rounded down to a multiple of 32 where that changes little, so that rows of products start aligned."""
    return step // 32 * 32 if step >= 128 else max(1, step)


def _parts(group: np.ndarray, step: int) -> list[Items]:
    """The group in parts of `step` and a rest; a slice where positions follow each other."""
    parts = [group[start : start + step] for start in range(0, len(group), step)]
    return [
        slice(int(p[0]), int(p[-1]) + 1) if p[-1] - p[0] + 1 == len(p) and (np.diff(p) == 1).all() else p for p in parts
    ]


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
        for number, row in enumerate(matrix):
            if (nan := np.isnan(row)).any():
                raise BadInput(f"the score in row {number} and column {nan.argmax()} is not a number.")

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


class Scoring(Scores):
    """Scores of a similarity.

    Args: similarity: a Similarity, or a function of (images, captions). images, captions: what it compares.
        max_elements: of the largest intermediate of a block, times the `block_scale` of the similarity. precision: of
        float32 products (see precision.PRECISIONS). device: where blocks are computed; None for where the similarity's
        own numbers are, or where it has none, where the representations are. What is settled in float64 is settled on
        the CPU where the device has no such numbers.
    Raises: BadInput naming the first pair whose score is not a number, or where the similarity breaks its contract.
    """

    tie = _TIE

    def __init__(
        self,
        similarity: Similarity | Callable[[Representation, Representation], Tensor],
        images: Representation,
        captions: Representation,
        max_elements: int = MAX_ELEMENTS,
        precision: str = "float32",
        device: torch.device | str | None = None,
    ):
        self.similarity, self.images, self.captions = as_similarity(similarity), images, captions
        if device is None:
            device = next((p.device for p in self.similarity.parameters()), None)
        self.max_elements, self.precision, self.device = max_elements, precision, device
        self.shape = (len(images), len(captions))
        self._held: tuple[Items, Representation] | None = None

    @property
    def cost(self) -> int:
        """Element pairs of a pair of items."""
        return set_size(self.images) * set_size(self.captions)

    def plan(self) -> Iterator[tuple[Items, Items]]:
        return blocks(self.images, self.captions, self.max_elements * self.similarity.block_scale)

    def block(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        with torch.inference_mode(), matrix_precision(self.precision):
            if self._held is None or self._held[0] is not captions:  # captions stay while images pass
                self._held = captions, self._placed(take(self.captions, captions))
            scores = self._scored(self.similarity.score, self._placed(take(self.images, images)), self._held[1])
        if math.isfinite(float(scores.sum())) or bool(scores.isfinite().all()):
            return scores
        # a term that overflows on the way makes an infinite score, or none, of a finite one
        scores = torch.where(scores.isfinite(), scores, self.exact(images, captions).to(scores))
        if bool((wrong := scores.isnan()).any()):
            row, column = wrong.nonzero()[0].tolist()
            i, t = np.arange(self.shape[0])[images][row], np.arange(self.shape[1])[captions][column]
            raise BadInput(
                f"the score of image {i} and caption {t} is not a number; look for NaN in features or weights."
            )
        return scores

    def exact(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        return self._doubled(self._in_double.score, images, captions)

    def pairs(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """In small blocks of neighbours: of some pairs sorted by image, every image with every caption among them."""
        order, out = np.lexsort((captions, images)), np.empty(len(images))
        new = np.concatenate([[0], np.cumsum(np.diff(images[order]) != 0)])  # how many images came before
        start, area = 0, max(_AREA[0], _AREA[1] // self.cost)
        while start < len(order):
            size = 1 << 12
            while size > 1 and size * (new[min(start + size, len(order)) - 1] - new[start] + 1) > area:
                size //= 2
            rows = order[start : start + size]
            start += size
            (i, row), (t, column) = (np.unique(items[rows], return_inverse=True) for items in (images, captions))
            out[rows] = self.exact(i, t).cpu().numpy()[row, column]
        return out

    def part(self, images: Int[np.ndarray, " n"], captions: Int[np.ndarray, " m"]) -> "Scoring":
        i, t = self.images[torch.from_numpy(images)], self.captions[torch.from_numpy(captions)]
        return Scoring(self.similarity, i, t, self.max_elements, self.precision, self.device)

    @cached_property
    def error(self) -> float:
        """Four times the largest difference on a sample of pairs: the largest of all is not much larger than that of
        thousands. Never less than what one rounding does: a sample may happen to be exact. Raises: BadInput where the
        score of a pair is not its own."""
        i, t = (
            np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
            for n, most in zip(self.shape, _SAMPLE, strict=True)
        )
        if not len(i) or not len(t):
            return 0.0
        fast, exact = self.block(i, t), self.exact(i, t)
        if len(i) > 1 and len(t) > 1 and self.similarity not in _SOUND:
            self._require_own_scores(i[:_ALONE], t[:_ALONE], exact)
            _SOUND.add(self.similarity)
        kind, fast = fast.dtype, fast.to(exact.device).double()
        self._held = None
        off = torch.where(fast == exact, 0.0, (fast - exact).abs()).nan_to_num(posinf=0.0).max()
        size = torch.where(exact.isfinite(), exact, 0.0).abs().max().clamp(min=1.0)
        return 4 * float(torch.maximum(off, torch.finfo(kind).eps * size))

    def _scored(self, form: Callable, x: Representation, y: Representation) -> Float[Tensor, "i t"]:
        scores = form(x, y)
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        if got != (len(x), len(y)):
            raise BadInput(
                f"{self.similarity.name} must return scores[image, caption] as a tensor of shape {len(x), len(y)}, "
                f"got {got}."
            )
        return scores

    def _doubled(self, form: Callable, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        """What a form of the similarity gives for these items in float64."""
        with torch.inference_mode():
            items = take(self.images, images), take(self.captions, captions)
            items = (r.to("cpu") if self._on_cpu else self._placed(r) for r in items)
            return self._scored(form, *(r.to(torch.float64) for r in items)).double()

    def _require_own_scores(self, i: np.ndarray, t: np.ndarray, together: Tensor) -> None:
        """Raise BadInput where the score of a pair depends on the pairs beside it or on the call, as with a softmax
        over the gallery, with dropout or with a count of calls: ranks of such scores depend on how the pairs were cut
        into blocks. Also where the fast form of a similarity (`score`) is another function than `forward`, which is
        trained. together: scores of these pairs, among others."""
        first = together[: len(i), : len(t)]
        leeway = _LEEWAY * float(torch.where(together.isfinite(), together, 0.0).abs().max().clamp(min=1e-30))
        alone = torch.cat([torch.cat([self.exact(i[[a]], t[[b]]) for b in range(len(t))], 1) for a in range(len(i))])
        for other, says in (
            (alone, "alone and among others: it must depend neither on the pairs beside it nor on the call"),
            (self._doubled(self._in_double, i, t), "by forward, which is trained, and by score, which is ranked"),
        ):
            off = torch.where(first == other, 0.0, (first - other).abs())
            if float(off.max()) > leeway:
                place = divmod(int(off.argmax()), len(t))
                one, another = float(other[place]), float(first[place])
                raise BadInput(f"{self.similarity.name} gives a pair {one:.6g} and {another:.6g} {says}.")

    @property
    def _on_cpu(self) -> bool:
        """Whether float64 has to be computed on the CPU."""
        return self.device is not None and torch.device(self.device).type in _NO_DOUBLE

    @cached_property
    def _in_double(self) -> Similarity:
        """The similarity with its own numbers in float64."""
        similarity = copy.deepcopy(self.similarity)
        return (similarity.cpu() if self._on_cpu else similarity).double()

    def _placed(self, r: Representation) -> Representation:
        return r if self.device is None else r.to(self.device)


def score_matrix(
    similarity: Similarity | Callable,
    images: Representation,
    captions: Representation,
    max_elements: int = MAX_ELEMENTS,
) -> Float[np.ndarray, "i t"]:
    """All scores in one float32 array (4 bytes a pair: 0.5 GB for 5,000 × 25,000), computed in blocks.

    Raises: BadInput naming the first pair whose score is not a number.
    """
    return as_matrix(Scoring(similarity, images, captions, max_elements))


def as_matrix(scores: Scores) -> Float[np.ndarray, "i t"]:
    """All scores in one float32 array."""
    out = np.empty(scores.shape, np.float32)
    rows, columns = map(np.arange, scores.shape)
    for i, t in scores.plan():
        out[np.ix_(rows[i], columns[t])] = scores.block(i, t).float().cpu().numpy()
    return out
