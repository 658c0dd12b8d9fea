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

_SPARE = 8  # candidates beyond k, among which the exact order may differ from the fast one
MODALITIES = ("captions", "images")


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
    if modality not in MODALITIES:
        raise unknown("modality of the queries", modality, MODALITIES)
    k = checked_k(k)
    n_queries, n_gallery = scores.shape if modality == "images" else scores.shape[::-1]
    wide = min(n_gallery, k + _SPARE)
    values, items = torch.full((n_queries, wide), -torch.inf, dtype=torch.float64), torch.full((n_queries, wide), -1)
    with torch.inference_mode():
        for images, captions in scores.plan():
            block = scores.block(images, captions)
            rows = block if modality == "images" else block.T
            queries, gallery = (images, captions) if modality == "images" else (captions, images)
            _merge(values, items, rows, _numbers(queries, n_queries), _numbers(gallery, n_gallery))
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


def _merge(values: Tensor, items: Tensor, rows: Float[Tensor, "q g"], q: Tensor, g: Tensor) -> None:
    """Let the best of a block take their positions."""
    top, columns = rows.topk(min(values.shape[1], rows.shape[1]), dim=1)
    every = torch.cat([values[q], top.cpu().double()], 1)
    named = torch.cat([items[q], g[columns.cpu()]], 1)
    values[q], order = every.topk(values.shape[1], dim=1)
    items[q] = named.gather(1, order)


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


def _numbers(items: Items, n: int) -> Tensor:
    return torch.from_numpy(np.arange(n)[items])
