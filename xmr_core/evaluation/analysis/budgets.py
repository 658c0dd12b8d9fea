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


def nesting_in_words(verdicts: pd.DataFrame, curves: pd.DataFrame) -> list[str]:
    """For each method: whether its nested model serves every number of elements, and whether it must be trained so.

    verdicts: columns method, stored (elements), nested against ('trained for this number' or 'plain, cut'), difference
    (RSUM, nested minus other), verdict. curves: columns method, model (those two, and 'nested, cut'), elements, seed,
    rsum.

    >>> curves = pd.DataFrame({"model": ["nested, cut", "trained for this number"], "rsum": [98.0, 100.0]})
    >>> curves = curves.assign(method="DivE", elements=1, seed=0)
    >>> line = {"method": "DivE", "stored": 1, "nested against": "trained for this number", "difference": -2.0}
    >>> nesting_in_words(pd.DataFrame([line | {"verdict": "undecided"}]), curves)[0][:58]
    'DivE: it cannot be told whether one nested model serves ev'
    """
    lines = []
    for name, part in verdicts.groupby("method", sort=False):
        own = curves[curves["method"] == name]
        seeds = own["seed"].nunique()
        means = own.groupby(["elements", "model"])["rsum"].mean().unstack()
        for other, rows in part.groupby("nested against", sort=False):
            trained = other == "trained for this number"
            if not trained:
                rows = rows[rows["stored"] < means.index.max()]  # of all elements a cut model is the plain one
            if len(rows):
                lines.append(f"{name}: {_nesting(rows, means, other, trained, seeds)}")
    return lines


def _nesting(rows: pd.DataFrame, means: pd.DataFrame, other: str, trained: bool, seeds: int) -> str:
    share = 100 * (means["nested, cut"] / means[other])[list(rows["stored"])]
    stored = {word: rows.loc[rows["verdict"] == word, "stored"].tolist() for word in ("held", "contradicted")}
    if trained and stored["contradicted"]:
        lead = f"no, one nested model does not serve every number; it is worse at {_numbers(stored['contradicted'])}"
    elif trained and len(stored["held"]) == len(rows):
        lead = "yes, one nested model serves every number, and is better than the models trained for one"
    elif trained:
        lead = "it cannot be told whether one nested model serves every number"
    elif stored["held"]:
        lead = f"the training is needed; a plain model that is cut is worse at {_numbers(stored['held'])}"
    elif stored["contradicted"]:
        lead = f"the training does harm; a plain model that is cut is better at {_numbers(stored['contradicted'])}"
    else:
        lead = "it cannot be told whether the training is needed"
    against = "models trained for each number" if trained else "a plain model that is cut"
    span = f"{share.min():.0f} to {share.max():.0f} %" if len(share) > 1 else f"{share.iloc[0]:.0f} %"
    return f"{lead} ({seeds} seed{'s' * (seeds != 1)}). Nested, it has {span} of the RSUM of {against}."


def _numbers(numbers: list[int]) -> str:
    return f"{', '.join(map(str, numbers))} element{'s' * (numbers != [1])}"
