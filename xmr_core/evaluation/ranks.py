"""Exact ranks from scores that are never all in memory: scores of all pairs, block by block under one budget of
elements, and the ranks of relevant items and the best items of queries, as exact arithmetic would rank them."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from weakref import WeakSet

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.machine import as_a_run, evaluating, matrix_precision
from xmr_core.base.types import (
    Brief,
    EmbeddingSet,
    GaussianEmbedding,
    Relevance,
    RelevantRanks,
    Representation,
    distinct,
)
from xmr_core.similarities.base import Similarity, as_similarity

MAX_ELEMENTS = 1 << 23  # of the largest intermediate, i·t·k·l: 32 MB in float32
_OWN_BLOCK = 32  # items of one size that are worth a block of their own
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
        if end - start >= _OWN_BLOCK or end == len(order):
            groups.append(order[start:end])
            start = end
    if len(groups) > 1 and len(groups[-1]) < _OWN_BLOCK:
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
        float32 products (see machine.PRECISIONS). device: where blocks are computed; None for where the similarity's
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
        with torch.inference_mode(), matrix_precision(self.precision), evaluating(self.similarity):
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
            raise BadInput(f"the score of image {i} and caption {t} is not a number: NaN in features or weights?")
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
            needed = f"scores[image, caption] as a tensor of shape {len(x), len(y)}"
            raise BadInput(f"{self.similarity.name} must return {needed}, got {got}.")
        return scores

    def _doubled(self, form: Callable, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        """What a form of the similarity gives for these items in float64."""
        with torch.inference_mode(), evaluating(self._in_double):
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


@as_a_run()
def as_matrix(scores: Scores) -> Float[np.ndarray, "i t"]:
    """All scores in one float32 array."""
    out = np.empty(scores.shape, np.float32)
    for i, t in scores.plan():
        place = (i, t) if isinstance(i, slice) or isinstance(t, slice) else np.ix_(i, t)
        out[place] = scores.block(i, t).float().cpu().numpy()
    return out


MODALITIES = ("captions", "images")
_DENSE = 4  # thresholds per row up to which comparing everything with each is faster than sorting
_UNDECIDED = 0.02  # share of a block's pairs beyond which the whole block is scored exactly instead of pair by pair
_FEW = 2048  # pairs that are settled one by one whatever their share
_SPARE = 8  # candidates beyond k, among which the exact order may differ from the fast one


@dataclass
class Ranked(Brief):
    """What `ranks` returns.

    ranks: one for each question. error: how far fast scores were taken to be from exact ones. settled: comparisons that
    were too close for the fast scores and were decided by exact ones. exact_blocks: blocks with all pairs scored
    exactly, of `blocks`.
    """

    ranks: list[RelevantRanks]
    error: float = 0.0
    settled: int = 0
    exact_blocks: int = 0
    blocks: int = 0


@dataclass(frozen=True)
class RankQuery(Brief):
    """What is ranked for what.

    relevance: queries × gallery; every query needs a relevant item. modality: that of the queries, 'images' or
    'captions'. queries, gallery: their positions among the images and captions that are scored; None for all, in order.
    """

    relevance: Relevance
    modality: str
    queries: np.ndarray | None = None
    gallery: np.ndarray | None = None


@as_a_run()
def ranks(scores: Scores, questions: Sequence[RankQuery], done: Callable[[int], object] = lambda pairs: None) -> Ranked:
    """Ranks of every query's relevant items for all questions, in one pass over the blocks of the scores.

    rank of the nth best relevant item = n + #{irrelevant items scoring at least as high}: ties never help.

    The scores of relevant pairs are known exactly (float64) beforehand. A block's fast scores decide every comparison
    that their error cannot turn round; the few that are closer are decided by exact scores of these pairs. Ranks
    therefore depend neither on the block size nor on the device or precision of the blocks. The error is measured on a
    sample and again on every relevant pair; where that was larger than expected, the pass is made again.
    done: called with the number of pairs of each block when it is done.
    Raises: BadInput for a query without a relevant item, shapes that do not fit, or a score that is not a number.
    """
    streams = [_RankCount(scores, question) for question in questions]
    wanted = [images * scores.shape[1] + captions for images, captions in (s.pairs(s.owner, s.items) for s in streams)]
    once = distinct(np.concatenate([*wanted, np.empty(0, np.int64)]))  # most are relevant in several questions
    relevant_scores = scores.pairs(*np.divmod(once, max(1, scores.shape[1])))
    for s, keys in zip(streams, wanted, strict=True):
        s.set_exact(relevant_scores[np.searchsorted(once, keys)])
    while True:
        out = Ranked([], scores.error)
        for s in streams:
            s.reset(2 * scores.error)  # the largest of all is estimated from a sample
        with torch.inference_mode():
            for images, captions in scores.plan():
                fast, exact = scores.block(images, captions), cache(partial(scores.exact, images, captions))
                for s in streams:
                    s.count(images, captions, fast, exact)
                out.blocks += 1
                out.exact_blocks += exact.cache_info().currsize
                done(fast.numel())
        seen = max((s.seen_error for s in streams), default=0.0)
        if seen <= scores.error:
            break
        scores.error = 4 * seen  # which the next pass cannot exceed
    out.ranks = [s.finish() for s in streams]
    out.settled = sum(s.settled for s in streams)
    return out


def relevant_ranks(scores: Float[np.ndarray, "q g"], relevance: Relevance) -> RelevantRanks:
    """Ranks of every query's relevant items in a finished matrix: `ranks` for one question.

    Raises: BadInput for a matrix of another shape, a score that is not a number (it would compare as lower than
    everything and rank as 0), or a query without a relevant item.
    """
    return ranks(MatrixScores(scores), [RankQuery(relevance, "images")]).ranks[0]


def at_least(values: Float[Tensor, "q g"], thresholds: Float[Tensor, "q p"]) -> Int[Tensor, "q p"]:
    """#{values[q] ≥ thresholds[q, p]}. Neither may be NaN; a threshold that is +∞ counts entries that are.

    Rows are sorted where there are many thresholds; few are each compared with everything.
    """
    if thresholds.shape[1] > _DENSE:
        values = values.contiguous()
        # on a CPU numpy's sort uses vector instructions and is many times faster than torch's
        on_cpu = values.device.type == "cpu"
        ordered = torch.from_numpy(np.sort(values.numpy(), axis=1)) if on_cpu else values.sort(1).values
        return values.shape[1] - torch.searchsorted(ordered, thresholds.contiguous())
    reached = torch.empty_like(values)  # laid out as the values are, transposed or not
    counts = [torch.ge(values, thresholds[:, p, None], out=reached).sum(1) for p in range(thresholds.shape[1])]
    return torch.stack(counts, 1).long() if counts else thresholds.new_zeros(thresholds.shape, dtype=torch.long)


class _RankCount:
    """One question in a pass over blocks: how many irrelevant items stand before each relevant one.

    Relevant items are held best first (k counts them over all queries: indptr[q] + n is the nth best of query q).
    """

    def __init__(self, scores: Scores, question: RankQuery):
        relevance, self.turned = question.relevance, question.modality == "captions"
        shape = scores.shape[::-1] if self.turned else scores.shape
        halves = zip((question.queries, question.gallery), shape, strict=True)
        self.scores, self.places = scores, [np.arange(n) if chosen is None else chosen for chosen, n in halves]
        own = len(relevance), len(relevance.gallery_ids)
        if own != tuple(map(len, self.places)) or not relevance.counts.all():
            raise BadInput(f"a relevance of {own[0]} × {own[1]} does not fit, or has a query without a relevant item.")
        self.numbers = [np.full(n, -1) for n in shape]  # of each item that is scored, among the chosen ones
        for numbers, places in zip(self.numbers, self.places, strict=True):
            numbers[places] = np.arange(len(places))
        self.indptr, self.items, self.owner = relevance.indptr, relevance.indices, relevance.queries

    def pairs(self, query: np.ndarray, item: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(images, captions) that are scored."""
        pair = self.places[0][query], self.places[1][item]
        return pair[::-1] if self.turned else pair

    def set_exact(self, exact: np.ndarray) -> None:
        """Exact scores of the relevant pairs."""
        best_first = np.lexsort((-exact, self.owner))
        self.exact, self.items = exact[best_first], self.items[best_first]
        self.reached = self.exact - self.scores.slack(self.exact)

    def reset(self, margin: float) -> None:
        """Forget what was counted. margin: of fast scores."""
        self.ahead, self.seen_error, self.settled = np.zeros(len(self.exact), np.int64), 0.0, 0
        self.near: list[tuple[np.ndarray, np.ndarray]] = []
        self.margin = margin

    def count(self, images: Items, captions: Items, fast: Float[Tensor, "i t"], exact: Callable[[], Tensor]) -> None:
        """Count a block of fast scores, or of exact ones where too much of it is undecided."""
        values, q, g = self._own_part(images, captions, fast)
        if not values.numel():
            return
        counts = self.indptr[q + 1] - self.indptr[q]
        real = np.arange(counts.max()) < counts[:, None]
        k = np.where(real, self.indptr[q][:, None] + np.arange(counts.max()), 0)  # "q p"
        position = np.full(len(self.places[1]), -1)
        position[g] = np.arange(len(g))
        column = np.where(real, position[self.items[k]], -1)
        row, nth = np.nonzero(column >= 0)
        own = row, column[row, nth]
        with np.errstate(invalid="ignore"):
            off = np.abs(values[own].cpu().double().numpy() - self.exact[k[row, nth]])
        self.seen_error = max(self.seen_error, float(np.nan_to_num(off, nan=0.0, posinf=0.0).max(initial=0.0)))
        if not self._count(values, own, k, real, g, self.margin):
            self._count(self._own_part(images, captions, exact())[0], own, k, real, g, 0.0)

    def _count(self, values: Tensor, own: tuple, k: np.ndarray, real: np.ndarray, g: np.ndarray, margin: float) -> bool:
        """Count what stands before the relevant items k, and note what a margin leaves undecided; False where that is
        too much. own: places of relevant pairs, which reach every threshold meanwhile and are subtracted."""
        times = torch.from_numpy(np.bincount(own[0], minlength=len(values)))[:, None].to(values.device)
        own = tuple(torch.from_numpy(places).to(values.device) for places in own)
        before = values[own]
        values[own] = torch.inf

        def limits(wanted: np.ndarray, toward: float) -> Tensor:
            """The thresholds in the precision of the values, rounded outward; +∞ where there is none."""
            out = torch.from_numpy(np.where(real, wanted[k], np.inf)).to(values.dtype)
            return (out.nextafter(torch.full_like(out, toward)) if toward else out).to(values.device)

        low = limits(self.reached - margin, -np.inf if margin else 0.0)
        counts = at_least(values, low) - times
        few = True
        if margin:
            high = limits(self.exact + margin, np.inf)
            sure = at_least(values, high) - times
            undecided = ((counts - sure).cpu().numpy() > 0) & real
            counts, few = sure, int((counts - sure).cpu().numpy()[real].sum()) <= max(_FEW, _UNDECIDED * values.numel())
            if few:
                self._note(values, k, g, undecided, low, high)
        values[own] = before  # other questions read the same block
        if few:
            self.ahead[k[real]] += counts.cpu().numpy()[real]
        return few

    def _note(self, values: Tensor, k: np.ndarray, g: np.ndarray, undecided: np.ndarray, low: Tensor, high: Tensor):
        """Note the undecided comparisons: (k, gallery item)."""
        rows, nths = np.nonzero(undecided)
        for part in np.array_split(np.arange(len(rows)), max(1, -(-len(rows) * values.shape[1] // (1 << 22)))):
            r, n = torch.from_numpy(rows[part]).to(values.device), torch.from_numpy(nths[part]).to(values.device)
            close = ((values[r] >= low[r, n, None]) & (values[r] < high[r, n, None])).nonzero().cpu().numpy()
            self.near.append((k[rows[part], nths[part]][close[:, 0]], g[close[:, 1]]))

    def finish(self) -> RelevantRanks:
        if self.near:
            k, item = (np.concatenate(parts) for parts in zip(*self.near, strict=True))
            keys, back = np.unique(self.owner[k] * len(self.places[1]) + item, return_inverse=True)
            exact = self.scores.pairs(*self.pairs(*np.divmod(keys, len(self.places[1]))))[back]
            self.ahead += np.bincount(k[exact >= self.reached[k]], minlength=len(self.exact))
            self.settled = len(k)
        nth = np.arange(len(self.exact)) - self.indptr[self.owner] + 1
        return RelevantRanks(self.indptr, self.ahead + nth, len(self.places[1]))

    def _own_part(
        self, images: Items, captions: Items, block: Tensor
    ) -> tuple[Float[Tensor, "q g"], np.ndarray, np.ndarray]:
        """The question's part of a block with queries as rows, and which they are."""
        values, places = (block.T, (captions, images)) if self.turned else (block, (images, captions))
        q, g = (numbers[items] for numbers, items in zip(self.numbers, places, strict=True))
        for axis, numbers in enumerate((q, g)):
            if (numbers < 0).any():
                values = values.index_select(axis, torch.from_numpy(np.flatnonzero(numbers >= 0)).to(values.device))
        return values, q[q >= 0], g[g >= 0]


def top_k(
    similarity: Similarity | Callable,
    queries: Representation,
    gallery: Representation,
    k: int,
    modality: str = "captions",
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """(scores, positions) of the k best gallery items for every query, best first; fewer where the gallery has fewer.

    modality: 'captions' (captions are queries, images are ranked) or 'images'. See `best`.
    """
    images, captions = (gallery, queries) if modality == "captions" else (queries, gallery)
    return best(Scoring(similarity, images, captions), k, modality)


@as_a_run()
def best(
    scores: Scores, k: int, modality: str = "captions", done: Callable[[int], object] = lambda pairs: None
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """(scores, positions) of the k best items for every query of a modality, best first, in the exact order.

    Of each block only k + 8 candidates a query are held. Where fast scores are too close to tell an order, exact ones
    (float64) decide; items whose exact scores are equal stand in file order. done: called with the number
    of pairs of each block when it is done.
    Raises: BadInput for k that is no whole number from 1, another modality, or a score that is not a number.
    """
    require_choice("modality of the queries", modality, MODALITIES)
    k = checked_k(k)
    n_queries, n_gallery = scores.shape if modality == "images" else scores.shape[::-1]
    wide = min(n_gallery, k + _SPARE)
    values, items = torch.full((n_queries, wide), -torch.inf, dtype=torch.float64), torch.full((n_queries, wide), -1)
    with torch.inference_mode():
        for images, captions in scores.plan():
            block = scores.block(images, captions)
            rows = block if modality == "images" else block.T
            queries, gallery = (images, captions) if modality == "images" else (captions, images)
            q, g = torch.arange(n_queries)[queries], torch.arange(n_gallery)[gallery]
            top, columns = rows.topk(min(wide, rows.shape[1]), dim=1)
            named = torch.cat([items[q], g[columns.cpu()]], 1)
            values[q], order = torch.cat([values[q], top.cpu().double()], 1).topk(wide, dim=1)
            items[q] = named.gather(1, order)
            done(block.numel())
    margins = 2 * scores.error + torch.from_numpy(scores.slack(values.numpy()))
    out = values[:, :k].float().numpy(), items[:, :k].numpy()
    gaps = (values[:, :-1] - values[:, 1:])[:, :k].nan_to_num(nan=0.0)
    for q in torch.nonzero((gaps <= margins[:, :-1][:, :k]).any(1)).flatten().tolist():
        candidates = items[q].numpy()
        tied = wide < n_gallery and float(values[q, -1]) >= float(values[q, k - 1] - margins[q, k - 1])
        if tied or (candidates < 0).any():
            candidates = np.arange(n_gallery)  # more items tie than are held, or score −∞ as an empty position does
        pairs = [np.full(len(candidates), q), candidates]
        exact = scores.pairs(*(pairs if modality == "images" else pairs[::-1]))
        out[0][q], out[1][q] = best_first(scores, exact, candidates, k)
    return out


def checked_k(k: int, most: int | None = None) -> int:
    """How many answers were asked for, and no more than there are. Raises: BadInput for what is no whole number from 1.

    >>> checked_k(10, most=3)
    3
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise BadInput(f"k must be at least 1 and a whole number, got {k!r}.")
    return k if most is None else min(k, most)


def best_first(scores: Scores, exact: Float[np.ndarray, " n"], items: Int[np.ndarray, " n"], k: int) -> tuple:
    """(exact scores, positions) of the k best of some items, best first; those that float64 cannot tell apart stand in
    file order."""
    order = np.argsort(-exact, kind="stable")
    exact, items = exact[order], items[order]
    with np.errstate(invalid="ignore"):  # −∞ − −∞
        tied = np.cumsum(np.concatenate([[False], exact[:-1] - exact[1:] > scores.slack(exact)[:-1]]))
    order = np.lexsort((items, tied))[:k]
    return exact[order], items[order]
