"""An upper bound on the score of every item that was not proposed. The derivations are in docs/howto/search.md."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.search.proposals import Extent
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.chamfer import Chamfer, SmoothChamfer
from xmr_core.similarities.cosine import Cosine
from xmr_core.similarities.distances import DistanceLogit
from xmr_core.similarities.functions import as_similarity
from xmr_core.similarities.mil import MaxPairwise
from xmr_core.similarities.nested import Nested
from xmr_core.similarities.sum_max import SumMax

_SLACK = 1e-9  # of a bound: float64 arithmetic of the bound itself, and of exact scores


def upper_bound(
    similarity: Similarity | Callable,
    query: Representation,
    cosines: Float[np.ndarray, " l"],
    extent: Extent,
    modality: str = "captions",
) -> tuple[float, str]:
    """(no item has a higher score, '') of all items whose elements each have at most `cosines[j]` with the query's real
    element j; (∞, reason) for a similarity without a sound bound.

    Args: query: one item. cosines: of each of its real elements in order, or of its vector or mean; −∞ where there is
        no item left, which gives −∞. extent: of the gallery. modality: of the query.

    >>> import torch
    >>> query = EmbeddingSet(torch.eye(2)[None], torch.ones(1, 2, dtype=torch.bool))
    >>> bound, reason = upper_bound(Chamfer(), query, np.array([0.5, 0.1]), Extent(1.0, 1.0, 2, 2))
    >>> round(bound, 6), reason
    (0.4, '')
    """
    similarity = as_similarity(similarity)
    while type(similarity) is Nested:  # scores as the one inside
        similarity = similarity.inner
    bound = _BOUNDS.get(type(similarity))
    if bound is None:
        return np.inf, f"there is no bound for {similarity.name}"
    if type(similarity) is DistanceLogit and not similarity.a.item() > 0:
        return np.inf, "a DistanceLogit with a ≤ 0 prefers what is far"
    if np.isneginf(cosines).any():
        return -np.inf, ""
    cosines = np.minimum(cosines, 1.0)
    if isinstance(query, GaussianEmbedding):
        if type(similarity) is not DistanceLogit:
            return np.inf, f"there is no bound for {similarity.name} of distributions"
        value = bound(similarity, query, float(cosines[0]), extent)
    else:
        lengths = query.x[query.mask] if isinstance(query, EmbeddingSet) else query.x
        lengths = lengths.double().norm(dim=-1).cpu().numpy()
        products = np.maximum(extent.longest * lengths * cosines, extent.shortest * lengths * cosines)
        value = bound(similarity, products, extent, modality)
    return float(value + _SLACK * max(1.0, abs(value))), ""


def needed_cosine(
    similarity: Similarity | Callable, query: Representation, score: float, extent: Extent, modality: str
) -> float:
    """A cosine such that no item whose elements are all below it reaches a score; −∞ where there is none.

    >>> import torch
    >>> query = EmbeddingSet(torch.eye(2)[None], torch.ones(1, 2, dtype=torch.bool))
    >>> round(needed_cosine(Chamfer(), query, 0.5, Extent(1.0, 1.0, 2, 2), "captions"), 4)
    0.5
    """
    l = int(query.mask.sum()) if isinstance(query, EmbeddingSet) else 1

    def below(cosine: float) -> bool:
        return upper_bound(similarity, query, np.full(l, cosine), extent, modality)[0] < score

    low, high = -1.0, 1.0
    if not below(low):
        return -np.inf
    for _ in range(30):  # the bound grows with the cosine
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low


def _smooth_chamfer(similarity: SmoothChamfer, p: np.ndarray, extent: Extent, modality: str) -> float:
    """An element of the item adds at most log Σ_j e^{αp_j}, the query's element j at most αp_j + log(most elements)."""
    from scipy.special import logsumexp  # takes a tenth of the time of torch to import

    alpha = similarity.options["alpha"]
    return (logsumexp(alpha * p) / alpha + p.mean() + np.log(extent.most) / alpha) / 2


def _chamfer(similarity: Chamfer, p: np.ndarray, extent: Extent, modality: str) -> float:
    return (p.max() + p.mean()) / 2


def _nearest_pair(similarity: Similarity, p: np.ndarray, extent: Extent, modality: str) -> float:
    return p.max()


def _sum_max(similarity: SumMax, p: np.ndarray, extent: Extent, modality: str) -> float:
    """The query's elements find at most p_j each; every element of the item finds at most the largest p."""
    direction, mean = similarity.options["direction"], similarity.options["aggregate"] == "mean"
    of_query = p.mean() if mean else p.sum()
    of_items = p.max() if mean else p.max() * (extent.most if p.max() > 0 else extent.fewest)
    of_captions, of_images = (of_query, of_items) if modality == "captions" else (of_items, of_query)
    return {"t2i": of_captions, "i2t": of_images, "both": of_captions + of_images}[direction]


def _distance_logit(similarity: DistanceLogit, query: GaussianEmbedding, cosine: float, extent: Extent) -> float:
    """The squared distance of the means is least at the norm in the gallery that is nearest to ‖μ_q‖ · cosine."""
    length = query.mean.double().norm().item()
    sigma = query.log_std.double().exp().norm().item()
    norm = min(max(length * cosine, extent.shortest), extent.longest)
    distance = max(0.0, norm**2 + length**2 - 2 * norm * length * cosine)
    if similarity.distance == "CSD":
        distance += extent.variance + sigma**2
    elif similarity.distance == "2-Wasserstein":
        distance += max(0.0, sigma - extent.widest, extent.narrowest - sigma) ** 2
    return similarity.b.item() - similarity.a.item() * distance


_BOUNDS = {
    SmoothChamfer: _smooth_chamfer,
    Chamfer: _chamfer,
    MaxPairwise: _nearest_pair,
    Cosine: _nearest_pair,
    SumMax: _sum_max,
    DistanceLogit: _distance_logit,
}
