"""Search in two stages for galleries larger than memory: elements propose items, the exact similarity ranks them."""

import numpy as np
import torch
from jaxtyping import Float, Int

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, EmbeddingSet
from xmr_core.search.elements import Elements, unit_elements
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.functions import as_similarity


def two_stage(
    index: Elements, queries: Embedding | EmbeddingSet, similarity: Similarity, k: int = 10, per_element: int = 100,
    probes: int = 64, modality: str = "captions",
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:  # fmt: skip
    """(scores, positions of items), best first, equal scores in file order; −∞ and −1 where fewer than k items were
    proposed.

    Every real element of a query proposes the items of the `per_element` elements nearest to it (by cosine, among the
    `probes` lists nearest to it). All proposed items are taken from the gallery and scored exactly, so a returned item
    has the score of exact search. An item can be missed only if none of its elements is near one of the query's.

    modality: of the queries: 'captions' (the gallery holds images) or 'images'.
    Raises: BadInput for k, per_element or probes below 1, another modality, or another width than the gallery's.
    """
    if min(k, per_element, probes) < 1 or modality not in ("captions", "images"):
        raise BadInput(
            "k, per_element and probes must be at least 1 and modality 'captions' or 'images'; "
            f"got {k}, {per_element}, {probes}, {modality!r}."
        )
    if queries.x.shape[-1] != index.about["width"]:
        raise BadInput(f"queries of width {queries.x.shape[-1]} do not fit elements of width {index.about['width']}.")
    score = as_similarity(similarity).score
    elements, owner = unit_elements(queries)
    proposed = index.propose(elements, per_element, probes)
    scores = np.full((len(queries), k), -np.inf, np.float32)
    positions = np.full((len(queries), k), -1, np.int64)
    with torch.inference_mode():
        for q in range(len(queries)):
            items = np.unique(proposed[owner == q])  # ascending, so that equal scores come in file order
            items = torch.from_numpy(items[items >= 0])
            if not len(items):
                continue
            gallery = index.gallery[items]
            exact = score(gallery, queries[q])[:, 0] if modality == "captions" else score(queries[q], gallery)[0]
            best = exact.float().argsort(descending=True, stable=True)[:k]
            scores[q, : len(best)], positions[q, : len(best)] = exact[best].float().numpy(), items[best].numpy()
    return scores, positions


def recall(approximate: Int[np.ndarray, "q k"], exact: Int[np.ndarray, "q k"]) -> float:
    """Share of the exact answers that are among the approximate ones, in any order, over all queries, in [0, 1].

    Raises: BadInput for another number of queries, or none.

    >>> recall([[1, 2]], [[2, 3]])
    0.5
    """
    approximate, exact = np.asarray(approximate), np.asarray(exact)
    if approximate.ndim != 2 or exact.ndim != 2 or len(approximate) != len(exact) or not exact.size:
        raise BadInput(
            "approximate and exact answers must be those of the same queries (queries × answers), "
            f"got {approximate.shape} and {exact.shape}."
        )
    return float(np.mean([np.isin(e, a).mean() for a, e in zip(approximate, exact, strict=True)]))
