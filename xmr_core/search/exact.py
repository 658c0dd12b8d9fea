"""The exact order of a few items, which a fast search proposed."""

import numpy as np
import torch
from torch import Tensor

from xmr_core.base.types import Representation
from xmr_core.evaluation.engine.scoring import in_double, items_in_double
from xmr_core.similarities.base import Similarity

_NEAR = 1e-5  # of the largest score: what float32 may get wrong; measured again for every query
_TIE = 1e-12  # of the largest score: what float64 may get wrong


def best_of(
    similarity: Similarity, query: Representation, gallery: Representation, items: np.ndarray, k: int, modality: str
) -> tuple[np.ndarray, np.ndarray]:
    """(scores in float64, positions) of the best k of some items. Where fast scores are too close to tell an order,
    those in double precision decide; items that it cannot tell apart stand in file order.

    items: positions, ascending. modality: of the query.

    >>> from xmr_core.base.types import Embedding
    >>> from xmr_core.similarities import Cosine
    >>> gallery = Embedding(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]))
    >>> best_of(Cosine(), gallery[:1], gallery, np.array([1, 2]), 1, "captions")[1].tolist()
    [2]
    """
    chosen = gallery[torch.from_numpy(items)]
    fast = _scores(similarity, query, chosen, modality).double().numpy()
    double = in_double(similarity)
    margin = _NEAR * max(1.0, np.abs(fast[np.isfinite(fast)]).max(initial=0.0))
    k = min(k, len(items))
    while True:
        close = np.flatnonzero(fast >= np.partition(fast, -k)[-k] - margin)
        exact = (
            _scores(double, items_in_double(query), items_in_double(chosen[torch.from_numpy(close)]), modality)
            .double()
            .numpy()
        )
        with np.errstate(invalid="ignore"):
            off = np.nan_to_num(np.abs(exact - fast[close]), nan=0.0).max()
        if not off or 4 * off <= margin or len(close) == len(items):
            break
        margin = 8 * off
    order = np.lexsort((close, -exact))
    with np.errstate(invalid="ignore"):  # −∞ − −∞
        gaps = exact[order][:-1] - exact[order][1:] > _TIE * max(1.0, np.abs(exact).max())
    order = order[np.lexsort((close[order], np.cumsum(np.concatenate([[False], gaps]))))][:k]
    return exact[order], items[close[order]]


def _scores(similarity: Similarity, query: Representation, items: Representation, modality: str) -> Tensor:
    return similarity.score(items, query)[:, 0] if modality == "captions" else similarity.score(query, items)[0]
