"""Ranks of relevant items and the best items of queries from streamed scores, as exact arithmetic would rank them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import RelevantRanks, Representation
from xmr_core.evaluation.scoring import Items, MatrixScores, Scores, Scoring
from xmr_core.similarities.base import Similarity

MODALITIES = ("captions", "images")
_DENSE = 4  # thresholds per row up to which comparing everything with each is faster than sorting
_UNDECIDED = 0.02  # share of a block's pairs beyond which the whole block is scored exactly instead of pair by pair
_FEW = 2048  # pairs that are settled one by one whatever their share
_SPARE = 8  # candidates beyond k, among which the exact order may differ from the fast one


@dataclass
class Ranked:
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
class RankQuery:
    """What is ranked for what.

    relevance: queries × gallery; every query needs a relevant item. modality: that of the queries, 'images' or
    'captions'. queries, gallery: their positions among the images and captions that are scored; None for all, in order.
    """

    relevance: Relevance
    modality: str
    queries: np.ndarray | None = None
    gallery: np.ndarray | None = None


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
    streams = [_Stream(scores, question) for question in questions]
    wanted = [images * scores.shape[1] + captions for images, captions in (s.pairs(s.owner, s.items) for s in streams)]
    once = np.unique(np.concatenate([*wanted, np.empty(0, np.int64)]))  # most are relevant in several questions
    relevant_scores = scores.pairs(*np.divmod(once, max(1, scores.shape[1])))
    for s, keys in zip(streams, wanted, strict=True):
        s.know(relevant_scores[np.searchsorted(once, keys)])
    while True:
        out = Ranked([], scores.error)
        for s in streams:
            s.start(2 * scores.error)  # the largest of all is estimated from a sample
        with torch.inference_mode():
            for images, captions in scores.plan():
                fast, exact = scores.block(images, captions), cache(partial(scores.exact, images, captions))
                for s in streams:
                    s.see(images, captions, fast, exact)
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


class _Stream:
    """One question in a pass over blocks: how many irrelevant items stand before each relevant one.

    Relevant items are held best first (k counts them over all queries: indptr[q] + n is the nth best of query q).
    """

    def __init__(self, scores: Scores, question: RankQuery):
        relevance, self.turned = question.relevance, question.modality == "captions"
        shape = scores.shape[::-1] if self.turned else scores.shape
        halves = zip((question.queries, question.gallery), shape, strict=True)
        self.scores, self.places = scores, [np.arange(n) if chosen is None else chosen for chosen, n in halves]
        own = len(relevance), len(relevance.gallery_ids)
        if own != tuple(map(len, self.places)):
            raise BadInput(
                f"a relevance of {own[0]} queries × {own[1]} items does not fit {tuple(map(len, self.places))}."
            )
        if (empty := np.flatnonzero(relevance.counts == 0)).size:
            raise BadInput(f"query {relevance.query_ids[empty[0]]} has no relevant item; drop such queries.")
        self.numbers = [np.full(n, -1) for n in shape]  # of each item that is scored, among the chosen ones
        for numbers, places in zip(self.numbers, self.places, strict=True):
            numbers[places] = np.arange(len(places))
        self.indptr, self.items, self.owner = relevance.indptr, relevance.indices, relevance.queries

    def pairs(self, query: np.ndarray, item: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(images, captions) that are scored."""
        pair = self.places[0][query], self.places[1][item]
        return pair[::-1] if self.turned else pair

    def know(self, exact: np.ndarray) -> None:
        """Exact scores of the relevant pairs."""
        best_first = np.lexsort((-exact, self.owner))
        self.exact, self.items = exact[best_first], self.items[best_first]
        self.reached = self.exact - self.scores.slack(self.exact)

    def start(self, margin: float) -> None:
        """Forget what was counted. margin: of fast scores."""
        self.ahead, self.seen_error, self.settled = np.zeros(len(self.exact), np.int64), 0.0, 0
        self.near: list[tuple[np.ndarray, np.ndarray]] = []
        self.margin = margin

    def see(self, images: Items, captions: Items, fast: Float[Tensor, "i t"], exact: Callable[[], Tensor]) -> None:
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
        out[0][q], out[1][q] = _settled(scores, modality, q, candidates, k)
    return out


def checked_k(k: int, most: int | None = None) -> int:
    """How many answers were asked for, and no more than there are. Raises: BadInput for what is no whole number from 1.

    >>> checked_k(10, most=3)
    3
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise BadInput(f"k must be at least 1 and a whole number, got {k!r}.")
    return k if most is None else min(k, most)


def _settled(scores: Scores, modality: str, q: int, items: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best of some items for one query by exact scores; equal ones in file order."""
    query = np.full(len(items), q)
    exact = scores.pairs(query, items) if modality == "images" else scores.pairs(items, query)
    order = np.lexsort((items, -exact))
    exact, items = exact[order], items[order]
    with np.errstate(invalid="ignore"):  # −∞ − −∞
        # groups that float64 cannot tell apart
        tied = np.cumsum(np.concatenate([[False], exact[:-1] - exact[1:] > scores.slack(exact)[:-1]]))
    order = np.lexsort((items, tied))[:k]
    return exact[order], items[order]
