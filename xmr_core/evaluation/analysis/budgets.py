"""Retrieval with the first elements of every set only: quality and cost of a trained model at every budget."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64

from xmr_core.base.plain_tensors import Comparable, as_sets
from xmr_core.base.relevance import Relevance
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.nested import Cut, doubled

FIRST = "rsum_first"  # metric of rows: RSUM of the first k elements of both modalities, k in the column k


def budget_table(
    similarity: Similarity,
    images: Comparable,
    captions: Comparable,
    relevances: Mapping[str, Relevance],
    budgets: Iterable[tuple[int, int]] | None = None,
) -> pd.DataFrame:
    """RSUM at budgets: the first elements of image sets and of caption sets, without training again.

    Args: similarity: of sets; its scores at all elements are those of the model. images, captions: sets "n k d", or
        vectors "n d". budgets: pairs (elements of images, elements of captions); None for all pairs of 1, 2, 4, … and
        the size of the sets.
    Returns: columns images, captions (the budget), size (k, the larger of both modalities), products (of elements, that
        a pair costs: images × captions), relevance, rsum in percent (0 … 600).
    Raises: BadInput for a budget below 1 or above the size of the sets; as evaluate.

    >>> import torch
    >>> from xmr_core.similarities import Chamfer
    >>> own = Relevance.from_positions([0, 1], [0, 1], range(2), range(2))
    >>> sets = torch.eye(4).reshape(2, 2, 4)
    >>> budget_table(Chamfer(), sets, sets, {"annotated": own})[["images", "captions", "products"]].values.tolist()
    [[1, 1, 1], [1, 2, 2], [2, 1, 2], [2, 2, 4]]
    """
    images, captions = as_sets(images, captions)
    sizes = images.x.shape[1], captions.x.shape[1]
    if budgets is None:
        budgets = [(r, q) for r in doubled(sizes[0]) for q in doubled(sizes[1])]
    rows = []
    for r, q in budgets:
        summary = evaluate(Cut(similarity, r, q), images, captions, relevances).summary()
        cost = {"images": r, "captions": q, "size": max(sizes), "products": r * q}
        for line in summary[summary["metric"] == "rsum"].itertuples():
            rows.append({**cost, "relevance": line.relevance, "rsum": 100 * line.value})
    return pd.DataFrame(rows)


def first_rows(table: pd.DataFrame, n_queries: int = 0) -> pd.DataFrame:
    """Rows for the metrics of a run (Evaluated.with_metrics) from a budget_table: 'rsum_first' at each equal budget k.

    n_queries: of both directions together, for the column of that name.

    >>> table = pd.DataFrame({"images": [1, 1], "captions": [1, 2], "relevance": "annotated", "rsum": [90.0, 120.0]})
    >>> first_rows(table)[["metric", "k", "value"]].values.tolist()
    [['rsum_first', 1, 0.9]]
    """
    equal = table[table["images"] == table["captions"]]
    columns = {"direction": "both", "metric": FIRST, "k": equal["images"], "value": equal["rsum"] / 100}
    rows = pd.DataFrame({"relevance": equal["relevance"], **columns, "n_queries": n_queries})
    return rows.reset_index(drop=True)


def first_element_share(images: Comparable, captions: Comparable, owners: Int64[np.ndarray, " t"]) -> float:
    """Share of captions whose first element is nearest, of all their elements, to an element of their own image.

    MIL compares two sets by their nearest pair alone: near 1, further elements of captions change nothing.
    owners: the position of each caption's image.

    >>> import torch
    >>> first_element_share(torch.eye(4).reshape(2, 2, 4), torch.eye(4).reshape(2, 2, 4)[:, :1], np.array([0, 1]))
    1.0
    """
    images, captions = as_sets(images, captions)
    own = images[torch.from_numpy(owners)]
    x, y = (sets.x / sets.x.norm(dim=-1, keepdim=True).clamp(min=1e-12) for sets in (own, captions))
    cosines = (y @ x.mT).masked_fill(~own.mask[:, None], -2.0).amax(-1).masked_fill(~captions.mask, -2.0)  # "t l"
    return float((cosines.argmax(1) == 0).double().mean())
