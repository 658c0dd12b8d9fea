"""Search in two stages for galleries larger than memory: elements propose items, the exact similarity ranks them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Representation
from xmr_core.search.bounds import needed_cosine, upper_bound
from xmr_core.search.elements import unit_elements
from xmr_core.search.exact import best_of
from xmr_core.search.proposals import Extent, Proposals, Proposer
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.functions import as_similarity

_MARGIN = 1e-6  # of a score in float32


@dataclass(frozen=True)
class Answers:
    """The best items of every query, best first; `scores, positions = answers` unpacks the first two.

    scores: −∞, and positions: −1, where fewer than k items were proposed. bounds: no item that was not proposed has a
    higher score; −∞ where all were proposed. certified: whether the answer is provably that of exact search.
    reason: why there is no bound, or ''.
    """

    scores: Float[np.ndarray, "q k"]
    positions: Int[np.ndarray, "q k"]
    bounds: Float[np.ndarray, " q"]
    certified: Bool[np.ndarray, " q"]
    reason: str = ""

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.scores, self.positions))


def two_stage(
    index: Proposer, queries: Representation, similarity: Similarity, k: int = 10, per_element: int = 100,
    probes: int | None = 64, modality: str = "captions", most: int | None = None,
) -> Answers:  # fmt: skip
    """The best k items for every query among those that an engine proposes; equal scores are in file order.

    Every real element of a query proposes the items of the `per_element` elements nearest to it (by cosine, among the
    `probes` lists nearest to it); a distribution proposes by its mean. All proposed items are taken from the gallery
    and scored exactly, so a returned item has the score of exact search. An item can be missed only if none of its
    elements is near one of the query's. An answer is certified if its last score is above the bound of all others
    (`upper_bound`); then it is that of exact search.

    Args:
        index: Elements, EngineElements or any other Proposer. probes: None searches all lists.
        modality: of the queries: 'captions' (the gallery holds images) or 'images'.
        most: where an answer is not certified, ask again in all lists for this many elements for each element of the
            query, and score the items among them that could be in the answer; None: ask once.
    Raises: BadInput for k, per_element, probes or most below 1, another modality, or another width than the gallery's.
    """
    for name, count in {"k": k, "per_element": per_element, "probes": probes, "most": most}.items():
        if count is not None and count < 1:
            raise BadInput(f"{name} must be at least 1, got {count}.")
    require_choice("modality", modality, ("captions", "images"))
    similarity = as_similarity(similarity)
    elements, owner = unit_elements(queries)
    if elements.shape[1] != index.about["width"]:
        raise BadInput(f"queries of width {elements.shape[1]} do not fit elements of width {index.about['width']}.")
    out = Answers(
        np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64),
        np.full(len(queries), np.inf), np.zeros(len(queries), bool),
    )  # fmt: skip
    first, reason = index.propose(elements, per_element, probes), ""
    with torch.inference_mode():
        for q in range(len(queries)):
            rows, query = owner == q, queries[q : q + 1]
            cosines = None if first.cosines is None else first.cosines[rows]
            proposals = Proposals(first.items[rows], first.bounds[rows], first.reason, cosines)
            bound, why = _answer(out, q, index, query, similarity, proposals, modality)
            if most is not None and not out.certified[q] and bound < np.inf:
                more = index.propose(elements[rows], max(most, per_element), None)
                last = float(out.scores[q, -1])
                if last > -np.inf:  # at least k items score as much, so that far elements cannot matter
                    score, extent = last - _MARGIN * max(1.0, abs(last)), Extent(**index.about["extent"])
                    more = more.above(needed_cosine(similarity, query, score, extent, modality))
                more = replace(more, items=np.hstack([proposals.items, more.items]))
                bound, why = _answer(out, q, index, query, similarity, more, modality)
            reason = reason or why
    return replace(out, reason=reason)


def _answer(
    out: Answers, q: int, index: Proposer, query: Representation, similarity: Similarity, proposals: Proposals,
    modality: str,
) -> tuple[float, str]:  # fmt: skip
    """Write the best of the proposed items and their certificate to row q. Returns (bound, why it says little)."""
    items = np.unique(proposals.items)  # ascending, so that equal scores come in file order
    items = items[items >= 0]
    last, k = -np.inf, out.scores.shape[1]
    if len(items):
        scores, positions = best_of(similarity, query, index.gallery, items, k, modality)
        out.scores[q, : len(scores)], out.positions[q, : len(scores)] = scores, positions
        last = scores[-1] if len(scores) == k else -np.inf
    if np.isneginf(proposals.bounds).any():  # an element of the query proposed every item
        bound, reason = -np.inf, ""
    elif extent := index.about.get("extent"):
        bound, reason = upper_bound(similarity, query, proposals.bounds, Extent(**extent), modality)
        reason = reason or proposals.reason
    else:
        bound, reason = np.inf, "the elements were indexed before bounds were stored with them; index them again"
    out.bounds[q], out.certified[q] = bound, bound < last or bound == -np.inf
    return bound, "" if out.certified[q] else reason


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
