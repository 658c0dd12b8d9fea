"""Search past memory in two stages: elements propose items, the exact set similarity ranks them."""

import numpy as np
import torch
from jaxtyping import Float, Int

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, EmbeddingSet
from xmr_core.search.elements import Elements, unit_elements
from xmr_core.similarities.base import Similarity, as_similarity


def two_stage(
    index: Elements, queries: Embedding | EmbeddingSet, similarity: Similarity, k: int = 10, per_element: int = 100, probes: int = 64,
    asking: str = "captions",
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:  # fmt: skip
    """(scores, positions of items), best first, equal scores in file order; −∞ and −1 where fewer than k items were proposed.

    Every real element of a query proposes the items of the `per_element` elements nearest to it (by cosine, in the `probes` lists nearest
    to it); the items of all of them together are fetched from the gallery and scored exactly. Only an item none of whose elements is
    near any of the query's can be missed, so what is returned has the score that exact search gives it.

    asking: which side asks, as in top_k: 'captions' (the gallery is of pictures) or 'images'.
    Raises: BadInput for k, per_element or probes below 1, another word, or another width than the gallery's.
    """
    if min(k, per_element, probes) < 1 or asking not in ("captions", "images"):
        raise BadInput(
            f"k, per_element and probes must be at least 1 and asking 'captions' or 'images'; got {k}, {per_element}, {probes}, {asking!r}."
        )
    if queries.x.shape[-1] != index.about["width"]:
        raise BadInput(f"queries of width {queries.x.shape[-1]} cannot be asked of elements of width {index.about['width']}.")
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
            found = score(gallery, queries[q])[:, 0] if asking == "captions" else score(queries[q], gallery)[0]
            best = found.float().argsort(descending=True, stable=True)[:k]
            scores[q, : len(best)], positions[q, : len(best)] = found[best].float().numpy(), items[best].numpy()
    return scores, positions


def recall(found: Int[np.ndarray, "q k"], exact: Int[np.ndarray, "q k"]) -> float:
    """Share of the exact answers that were found, whatever their order, over all queries, in [0, 1].

    Raises: BadInput for another number of queries, or none.
    """
    found, exact = np.asarray(found), np.asarray(exact)
    if found.ndim != 2 or exact.ndim != 2 or len(found) != len(exact) or not exact.size:
        raise BadInput(f"found and exact must hold the same queries (queries × answers), got {found.shape} and {exact.shape}.")
    return float(np.mean([np.isin(e, f).mean() for f, e in zip(found, exact, strict=True)]))
