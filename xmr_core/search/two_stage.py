"""Search in two stages for galleries larger than memory: elements propose items, the exact similarity ranks them."""

from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Representation
from xmr_core.evaluation.engine import checked_k, top_k
from xmr_core.evaluation.engine.top import MODALITIES
from xmr_core.search.elements import width_of
from xmr_core.search.exact import best_of
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.functions import as_similarity


class Proposer(Protocol):
    """An engine that holds the elements of a gallery. Whatever has these two is searched by `two_stage`.

    gallery: the items themselves, from which proposed ones are scored.
    """

    gallery: Representation

    def propose(self, queries: Representation, n: int) -> list[Int[np.ndarray, " p"]]:
        """For each query the positions of the items that hold the n elements nearest to each of its own elements,
        ascending, each once."""
        ...


def two_stage(
    index: Proposer, queries: Representation, similarity: Similarity, k: int = 10, per_element: int = 100,
    modality: str = "captions",
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:  # fmt: skip
    """(scores, positions) of the best k items for every query among those that an engine proposes; −∞ and −1 where
    fewer were proposed, equal scores in file order.

    Every real element of a query proposes the items of the `per_element` elements nearest to it by cosine; a
    distribution proposes by its mean. All proposed items are taken from the gallery and scored exactly, so a returned
    item has the score of exact search. An item can be missed only if none of its elements is near one of the query's;
    `recall` measures how often.

    Args:
        index: Elements, EngineElements or any other Proposer.
        modality: of the queries: 'captions' (the gallery holds images) or 'images'.
    Raises: BadInput for k or per_element below 1, another modality, or another width than the gallery's.
    """
    require_choice("modality", modality, MODALITIES)
    if checked_k(k) and per_element < 1:
        raise BadInput(f"per_element must be at least 1, got {per_element}.")
    if width_of(queries) != width_of(index.gallery):
        raise BadInput(f"queries of width {width_of(queries)} do not fit elements of width {width_of(index.gallery)}.")
    scores, positions = np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64)
    similarity = as_similarity(similarity)
    with torch.inference_mode():
        for q, items in enumerate(index.propose(queries, per_element)):
            if len(items):  # top_k would first measure how exact its scores are, which takes longer than a few of them
                best, order = best_of(similarity, queries[q : q + 1], index.gallery, items, k, modality)
                scores[q, : len(best)], positions[q, : len(best)] = best, order
    return scores, positions


def recall(
    index: Proposer, queries: Representation, similarity: Similarity, k: int = 10, per_element: int = 100,
    modality: str = "captions",
) -> float:  # fmt: skip
    """Share of the k best items of exact search that two_stage finds, in any order, over the given queries, in [0, 1].

    Args and raises: as two_stage. Every item of the gallery is compared with every query, so give a sample of queries.
    """
    found = two_stage(index, queries, similarity, k, per_element, modality)[1]
    exact = top_k(similarity, queries, index.gallery, k, modality)[1]
    return float(np.mean([np.isin(e, f).mean() for e, f in zip(exact, found, strict=True)]))
