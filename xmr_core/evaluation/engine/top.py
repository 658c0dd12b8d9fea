"""The best items for every query, from streamed scores."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.types import Representation
from xmr_core.evaluation.engine.plan import Items
from xmr_core.evaluation.engine.scores import Scores
from xmr_core.evaluation.engine.scoring import Scoring
from xmr_core.similarities.base import Similarity

_SPARE = 8  # candidates kept beyond k, among which the exact order may differ from the fast one
SIDES = ("captions", "images")


def top_k(
    similarity: Similarity | Callable, queries: Representation, gallery: Representation, k: int, asking: str = "captions"
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """(scores, positions) of the k best gallery items for every query, best first; fewer where the gallery has fewer.

    asking: 'captions' (captions ask, pictures answer) or 'images'. See `best`.
    """
    if asking not in SIDES:
        raise unknown("side that asks", asking, SIDES)
    images, captions = (gallery, queries) if asking == "captions" else (queries, gallery)
    return best(Scoring(similarity, images, captions), k, asking)


def best(
    scores: Scores, k: int, by: str = "captions", progress: Callable[[int], object] = lambda pairs: None
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """(scores, positions) of the k best items for every query of the side `by`, best first, in the exact order.

    Of each block only k + 8 candidates a query are kept. Where fast scores are too close to tell an order, exact ones (float64) decide;
    items whose exact scores are equal stand in file order. progress: told the pairs of each block when it is done.
    Raises: BadInput for k < 1, or a score that is not a number.
    """
    if k < 1:
        raise BadInput(f"k must be at least 1, got {k}.")
    n_queries, n_gallery = scores.shape if by == "images" else scores.shape[::-1]
    wide = min(n_gallery, k + _SPARE)
    values, items = torch.full((n_queries, wide), -torch.inf, dtype=torch.float64), torch.full((n_queries, wide), -1)
    with torch.inference_mode():
        for images, captions in scores.plan():
            block = scores.block(images, captions)
            rows = block if by == "images" else block.T
            asking, answering = (images, captions) if by == "images" else (captions, images)
            _merge(values, items, rows, _numbers(asking, n_queries), _numbers(answering, n_gallery))
            progress(block.numel())
    margin = 2 * scores.error + scores.tie
    out = values[:, :k].float().numpy(), items[:, :k].numpy()
    gaps = (values[:, :-1] - values[:, 1:])[:, :k].nan_to_num(nan=0.0)
    for q in torch.nonzero((gaps <= margin).any(1)).flatten().tolist():
        found = items[q].numpy()
        tied = wide < n_gallery and float(values[q, -1]) >= float(values[q, k - 1]) - margin
        if tied or (found < 0).any():
            found = np.arange(n_gallery)  # more items tie than are kept, or score −∞, as a free place does
        out[0][q], out[1][q] = _settled(scores, by, q, found, k)
    return out


def _merge(values: Tensor, items: Tensor, rows: Float[Tensor, "q g"], q: Tensor, g: Tensor) -> None:
    """Let a block's best take their place."""
    there, mine = rows.topk(min(values.shape[1], rows.shape[1]), dim=1)
    every = torch.cat([values[q], there.double().cpu()], 1)
    named = torch.cat([items[q], g[mine.cpu()]], 1)
    values[q], order = every.topk(values.shape[1], dim=1)
    items[q] = named.gather(1, order)


def _settled(scores: Scores, by: str, q: int, found: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best of some items for one query by exact scores; equal ones in file order."""
    query = np.full(len(found), q)
    exact = scores.pairs(query, found) if by == "images" else scores.pairs(found, query)
    order = np.lexsort((found, -exact))
    exact, found = exact[order], found[order]
    with np.errstate(invalid="ignore"):  # −∞ − −∞
        tied = np.cumsum(np.concatenate([[False], exact[:-1] - exact[1:] > scores.tie]))  # groups that float64 cannot tell apart
    order = np.lexsort((found, tied))[:k]
    return exact[order], found[order]


def _numbers(items: Items, n: int) -> Tensor:
    return torch.from_numpy(np.arange(n)[items])
