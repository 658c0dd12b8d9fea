"""The part of one question in a pass over blocks: how many irrelevant items stand before each relevant one."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.relevance import Relevance
from xmr_core.base.types import RelevantRanks
from xmr_core.evaluation.engine.counting import at_least
from xmr_core.evaluation.engine.plan import Items
from xmr_core.evaluation.engine.scores import Scores

_UNDECIDED = 0.02  # share of a block's pairs beyond which the whole block is scored exactly instead of pair by pair
_FEW = 2048  # pairs that are settled one by one whatever their share


class Stream:
    """Relevant items are held best first (k counts them over all queries: indptr[q] + n is the nth best of query q).

    Args: relevance: queries × gallery, every query with a relevant item. modality: that of the queries, 'images'
        or 'captions'. queries, gallery: their positions among what is scored, None for all.
    """

    def __init__(
        self,
        scores: Scores,
        relevance: Relevance,
        modality: str,
        queries: np.ndarray | None,
        gallery: np.ndarray | None,
    ):
        self.scores, self.relevance, self.modality = scores, relevance, modality
        n_queries, n_gallery = scores.shape if modality == "images" else scores.shape[::-1]
        self.query_numbers, self.gallery_numbers = _numbers(queries, n_queries), _numbers(gallery, n_gallery)
        self.queries = np.arange(n_queries) if queries is None else queries
        self.gallery = np.arange(n_gallery) if gallery is None else gallery
        self.indptr, self.items, self.owner = relevance.indptr, relevance.indices, relevance.queries

    def wanted(self) -> tuple[np.ndarray, np.ndarray]:
        """Relevant pairs: (images, captions) that are scored."""
        return self._pairs(self.owner, self.items)

    def know(self, exact: np.ndarray) -> None:
        """Exact scores of the wanted pairs."""
        best_first = np.lexsort((-exact, self.owner))
        self.exact, self.items = exact[best_first], self.items[best_first]
        self.slack = self.scores.slack(self.exact)

    def start(self, error: float) -> None:
        """Forget what was counted. error: of fast scores."""
        self.ahead = np.zeros(len(self.exact), np.int64)
        self.near: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.fast = np.full(len(self.exact), np.nan)
        self.seen_error = 0.0
        # twice, because `changed` compares two fast scores, each of which is off by up to the error
        self.margin = 2 * error

    def see(self, images: Items, captions: Items, block: Float[Tensor, "i t"]) -> bool:
        """Count a block of fast scores; False if too much of it is undecided, and nothing was counted."""
        values, q, g = self._own_part(images, captions, block)
        if not values.numel():
            return True
        k, row, column = self._relevant(q, g)
        fast = values[row, column].cpu().double().numpy()
        self.fast[k] = fast
        with np.errstate(invalid="ignore"):
            off = np.abs(fast - self.exact[k])
        self.seen_error = max(self.seen_error, float(np.nan_to_num(off, nan=0.0, posinf=0.0).max(initial=0.0)))
        if not self.margin:
            self._count(values, q, row, column, self._thresholds(q, self.exact, values))
            return True
        low = self._thresholds(q, self.exact - self.slack - self.margin, values, -1)
        high = self._thresholds(q, self.exact + self.margin, values, 1)
        with _hidden(values, row, column) as times:
            possible, sure = (at_least(values, limits) - times for limits in (low, high))
            undecided = possible - sure
            total = int(undecided.sum())
            if total > max(_FEW, _UNDECIDED * values.numel()):
                return False
            self._add(q, sure)
            if total:
                self._note(values, q, g, undecided, low, high)
        return True

    def see_exact(self, images: Items, captions: Items, block: Float[Tensor, "i t"]) -> None:
        """Count a block of exact scores."""
        values, q, g = self._own_part(images, captions, block)
        _, row, column = self._relevant(q, g)
        self._count(values, q, row, column, self._thresholds(q, self.exact - self.slack, values))

    def finish(self) -> tuple[RelevantRanks, int, float]:
        """(ranks, comparisons settled by exact scores, share of queries that fast scores would rank otherwise)."""
        changed, k = 0.0, np.empty(0, np.int64)
        if self.near:
            k, item, fast = (np.concatenate(parts) for parts in zip(*self.near, strict=True))
            keys, back = np.unique(self.owner[k] * len(self.gallery) + item, return_inverse=True)
            exact = self.scores.pairs(*self._pairs(*np.divmod(keys, len(self.gallery))))[back]
            ahead = exact >= (self.exact - self.slack)[k]
            by_fast = np.bincount(k, weights=fast >= self.fast[k], minlength=len(self.exact))
            by_exact = np.bincount(k, weights=ahead, minlength=len(self.exact))
            changed = len(np.unique(self.owner[by_fast != by_exact])) / len(self.relevance)
            self.ahead += by_exact.astype(np.int64)
        nth = np.arange(len(self.exact)) - self.indptr[self.owner] + 1
        return RelevantRanks(self.indptr, self.ahead + nth, len(self.gallery)), len(k), changed

    def _pairs(self, query: np.ndarray, item: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(images, captions) that are scored."""
        pair = self.queries[query], self.gallery[item]
        return pair if self.modality == "images" else pair[::-1]

    def _own_part(
        self, images: Items, captions: Items, block: Tensor
    ) -> tuple[Float[Tensor, "q g"], np.ndarray, np.ndarray]:
        """The question's part of a block with queries as rows, and which they are."""
        values = block if self.modality == "images" else block.T
        rows, columns = (images, captions) if self.modality == "images" else (captions, images)
        q, g = self.query_numbers[rows], self.gallery_numbers[columns]
        for axis, numbers in enumerate((q, g)):
            if (numbers < 0).any():
                values = values.index_select(axis, torch.from_numpy(np.flatnonzero(numbers >= 0)).to(values.device))
        return values, q[q >= 0], g[g >= 0]

    def _relevant(self, q: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Relevant pairs in a block: (k, row, column)."""
        counts = self.indptr[q + 1] - self.indptr[q]
        row = np.repeat(np.arange(len(q)), counts)
        k = np.arange(counts.sum()) + np.repeat(self.indptr[q] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        position = np.full(len(self.gallery), -1)
        position[g] = np.arange(len(g))
        column = position[self.items[k]]
        valid = column >= 0
        return k[valid], row[valid], column[valid]

    def _thresholds(self, q: np.ndarray, values: np.ndarray, like: Tensor, rounding: int = 0) -> Float[Tensor, "q p"]:
        """values of the queries' relevant items, worst first, +∞ where a query has fewer than others. like: what they
        are compared with. rounding: where that is less precise, −1 rounds them down, +1 up."""
        k, valid = self._columns(q, int((self.indptr[q + 1] - self.indptr[q]).max(initial=0)))
        out = torch.from_numpy(np.where(valid, values[k], np.inf))
        if like.dtype == torch.float64:
            return out.to(like.device)
        rounded = out.to(like.dtype)
        if rounding:
            towards = torch.full_like(rounded, np.inf if rounding > 0 else -np.inf)
            inward = rounded.double() < out if rounding > 0 else rounded.double() > out
            rounded = torch.where(inward, rounded.nextafter(towards), rounded)
        return rounded.to(like.device)

    def _count(self, values: Tensor, q: np.ndarray, row: np.ndarray, column: np.ndarray, limits: Tensor) -> None:
        with _hidden(values, row, column) as times:
            self._add(q, at_least(values, limits) - times)

    def _add(self, q: np.ndarray, counts: Tensor) -> None:
        k, valid = self._columns(q, counts.shape[1])
        np.add.at(self.ahead, k[valid], counts.cpu().numpy()[valid])

    def _columns(self, q: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """(k of each of the queries' thresholds, worst first; whether there is one), both "q p"."""
        counts = self.indptr[q + 1] - self.indptr[q]
        nth = counts[:, None] - 1 - np.arange(most)[None]
        return self.indptr[q][:, None] + np.maximum(nth, 0), nth >= 0

    def _note(self, values: Tensor, q: np.ndarray, g: np.ndarray, undecided: Tensor, low: Tensor, high: Tensor) -> None:
        """Note the undecided comparisons: (k, gallery item, fast score)."""
        k, valid = self._columns(q, undecided.shape[1])
        rows, nths = np.nonzero((undecided.cpu().numpy() > 0) & valid)
        for part in np.array_split(np.arange(len(rows)), -(-len(rows) * values.shape[1] // (1 << 22))):
            r, n = torch.from_numpy(rows[part]).to(values.device), torch.from_numpy(nths[part]).to(values.device)
            scores = values[r]
            which, column = ((scores >= low[r, n, None]) & ~(scores >= high[r, n, None])).nonzero(as_tuple=True)
            fast = scores[which, column].cpu().double().numpy()
            which, column = which.cpu().numpy(), column.cpu().numpy()
            self.near.append((k[rows[part], nths[part]][which], g[column], fast))


def _numbers(chosen: np.ndarray | None, n: int) -> np.ndarray:
    """Of each item that is scored, its number among the chosen ones, −1 for none."""
    if chosen is None:
        return np.arange(n)
    out = np.full(n, -1)
    out[chosen] = np.arange(len(chosen))
    return out


@contextmanager
def _hidden(values: Float[Tensor, "q g"], row: np.ndarray, column: np.ndarray) -> Iterator[Tensor]:
    """Inside, +∞ stands at relevant pairs and reaches every threshold. Gives their number in each row, to subtract."""
    pairs = torch.from_numpy(row).to(values.device), torch.from_numpy(column).to(values.device)
    own = values[pairs]
    values[pairs] = torch.inf
    yield torch.from_numpy(np.bincount(row, minlength=len(values)))[:, None].to(values.device)
    values[pairs] = own
