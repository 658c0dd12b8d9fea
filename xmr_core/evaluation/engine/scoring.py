"""Scores of a similarity, block by block, fast and exact."""

import copy
import math
from collections.abc import Callable, Iterator
from functools import cached_property
from weakref import WeakSet

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Representation
from xmr_core.evaluation.engine.plan import MAX_ELEMENTS, Items, blocks, set_size, take
from xmr_core.evaluation.engine.precision import matrix_precision
from xmr_core.evaluation.engine.scores import Scores
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.functions import as_similarity

_AREA = 256, 16384  # pairs scored together for the sake of some of them, at least; element pairs, at most
_SAMPLE = 32, 64  # images and captions on which the error is measured
_FEW = 3  # images and captions whose pairs are scored again, each alone
_LEEWAY = 1e-4  # of the largest score: far above rounding, also that of a similarity that computes in float32
_NO_DOUBLE = ("mps",)  # devices without float64
_TIE = 1e-12  # of a score: what float64 itself may get wrong
_SOUND = WeakSet()  # similarities that were seen to keep their contract: once is enough, a search asks often


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
            x, y = self._placed(take(self.images, images)), self._held[1]
            scores = self.similarity.score(x, y)
        self._require_matrix(scores, len(x), len(y))
        if math.isfinite(float(scores.sum())) or bool(scores.isfinite().all()):
            return scores
        return self._settled(scores, images, captions)

    def exact(self, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        return self._doubled(self._in_double[0].score, images, captions)

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
            self._require_own_scores(i[:_FEW], t[:_FEW], exact)
            _SOUND.add(self.similarity)
        kind, fast = fast.dtype, fast.to(exact.device).double()
        self._held = None
        off = torch.where(fast == exact, 0.0, (fast - exact).abs()).nan_to_num(posinf=0.0).max()
        size = torch.where(exact.isfinite(), exact, 0.0).abs().max().clamp(min=1.0)
        return 4 * float(torch.maximum(off, torch.finfo(kind).eps * size))

    def _doubled(self, scored: Callable, images: Items, captions: Items) -> Float[Tensor, "i t"]:
        """What a form of the similarity gives for these items in float64."""
        with torch.inference_mode():
            parts = ((self.images, images), (self.captions, captions))
            x, y = (items_in_double(self._in_double[1](take(r, items))) for r, items in parts)
            scores = scored(x, y)
        self._require_matrix(scores, len(x), len(y))
        return scores.double()

    def _require_matrix(self, scores: object, images: int, captions: int) -> None:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        if got != (images, captions):
            raise BadInput(
                f"{self.similarity.name} must return scores[image, caption] as a tensor of shape {images, captions}, "
                f"got {got}."
            )

    def _require_own_scores(self, i: np.ndarray, t: np.ndarray, together: Tensor) -> None:
        """Raise BadInput where the score of a pair depends on the pairs beside it or on the call, as with a softmax
        over the gallery, with dropout or with a count of calls: ranks of such scores depend on how the pairs were cut
        into blocks. Also where the fast form of a similarity (`score`) is another function than `forward`, which is
        trained. together: scores of these pairs, among others."""
        name, first = self.similarity.name, together[: len(i), : len(t)]
        leeway = _LEEWAY * float(torch.where(together.isfinite(), together, 0.0).abs().max().clamp(min=1e-30))
        alone = torch.cat([torch.cat([self.exact(i[[a]], t[[b]]) for b in range(len(t))], 1) for a in range(len(i))])
        for other, how, says in (
            (alone, "alone", "among others: it must depend neither on the pairs beside it nor on the call"),
            (self._doubled(self._in_double[0], i, t), "by forward, which is trained,", "by score, which is ranked"),
        ):
            off = torch.where(first == other, 0.0, (first - other).abs())
            if float(off.max()) > leeway:
                a, b = divmod(int(off.argmax()), len(t))
                one, another = float(other[a, b]), float(first[a, b])
                raise BadInput(f"{name} gives a pair {one:.6g} {how} and {another:.6g} {says}.")

    @cached_property
    def _in_double(self) -> tuple[Similarity, Callable[[Representation], Representation]]:
        """(the similarity with its own numbers in float64, how items get to where it computes)."""
        if self.device is not None and torch.device(self.device).type in _NO_DOUBLE:
            return in_double(copy.deepcopy(self.similarity).cpu()), lambda r: r.to("cpu")
        return in_double(self.similarity), self._placed

    def _settled(self, scores: Float[Tensor, "i t"], images: Items, captions: Items) -> Float[Tensor, "i t"]:
        """The scores with those from float64 where fast ones are not finite: a term that overflows on the way makes an
        infinite score, or none, of a finite one (a divergence between distributions, one of which is all but a
        point)."""
        scores = torch.where(scores.isfinite(), scores, self.exact(images, captions).to(scores))
        if bool((wrong := scores.isnan()).any()):
            places = zip(self.shape, (images, captions), wrong.nonzero()[0].tolist(), strict=True)
            i, t = (np.arange(n)[items][index] for n, items, index in places)
            raise BadInput(
                f"the score of image {i} and caption {t} is not a number, in float64 neither; "
                "look for NaN in features or weights."
            )
        return scores

    def _placed(self, r: Representation) -> Representation:
        return r if self.device is None else r.to(self.device)


def in_double(similarity: Similarity) -> Similarity:
    """The same similarity with its own numbers in float64; itself where it has none."""
    if next(similarity.parameters(), None) is None and next(similarity.buffers(), None) is None:
        return similarity
    return copy.deepcopy(similarity).double()


def items_in_double(r: Representation) -> Representation:
    """The same items in float64."""
    return r.to(torch.float64)
