"""Where the elements of embedding sets lie: a map in two dimensions, and their nearest neighbours."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64

from xmr_core.base.coerce import Comparable, as_sets
from xmr_core.base.errors import BadInput, require
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import EmbeddingSet
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.nested import Cut, doubled

_USUAL, _LEAST = 30.0, 12  # perplexity in the paper of t-SNE; fewest points that make a map


def element_map(
    images: EmbeddingSet, captions: EmbeddingSet, seed: int = 0, perplexity: float | None = None
) -> pd.DataFrame:
    """All elements of all items on one map by t-SNE, for visualisation.

    Columns x, y, modality ('images' or 'captions'), item (its position), element. The distance is that of the cosine,
    and the start is given by the first two principal components, so equal inputs and an equal seed give equal maps. In
    t-SNE distances between groups that lie far apart have no meaning.

    perplexity: None or 0 takes 30, or a quarter of the points where these are fewer.
    Raises: BadInput for fewer than 12 elements, or one vector per item.
    Source: van der Maaten & Hinton, JMLR 2008; DivE, Figure A1.

    >>> sets = EmbeddingSet(torch.randn(4, 2, 3, generator=torch.Generator()), torch.ones(4, 2, dtype=torch.bool))
    >>> element_map(sets, sets).columns.tolist()
    ['modality', 'item', 'element', 'x', 'y']
    """
    modalities, parts = {"images": images, "captions": captions}, []
    if not (isinstance(images, EmbeddingSet) and isinstance(captions, EmbeddingSet)):
        raise BadInput("a map of set elements needs a method with embedding sets: dive, pvse, scan or sgraf.")
    for modality, sets in modalities.items():
        item, element = (index.numpy() for index in sets.mask.nonzero(as_tuple=True))
        parts.append(pd.DataFrame({"modality": modality, "item": item, "element": element}))
    table = pd.concat(parts, ignore_index=True)
    points = np.concatenate([sets.x[sets.mask].float().numpy() for sets in modalities.values()])
    if len(points) < _LEAST:
        raise BadInput(f"a map needs at least {_LEAST} elements, got {len(points)}. Take more items.")
    perplexity = perplexity or min(_USUAL, len(points) / 4)
    # On unit vectors the Euclidean distance orders as the cosine does.
    points = points / np.linalg.norm(points, axis=1, keepdims=True).clip(1e-12)
    require("a map by t-SNE", "notebooks", "sklearn")
    from sklearn.manifold import TSNE

    xy = TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=1).fit_transform(points)
    return table.assign(x=xy[:, 0], y=xy[:, 1])


def neighbourhood(images: EmbeddingSet, captions: EmbeddingSet) -> dict[str, float]:
    """What the map shows, measured in the space itself: shares of elements by their nearest other element (cosine).

    In percent. 'same element': the neighbour has the same number in its set (of random elements 100/K).
    'same modality': both are of images, or of captions. 'same item': it is of the same set, which says that the set
    has collapsed.

    >>> sets = EmbeddingSet(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2, dtype=torch.bool))
    >>> neighbourhood(sets, sets)
    {'same element': 100.0, 'same modality': 0.0, 'same item': 0.0}
    """
    index = [s.mask.nonzero() for s in (images, captions)]
    modality = torch.cat([torch.full((len(pairs),), n) for n, pairs in enumerate(index)])
    item, element = torch.cat(index).T
    x = torch.cat([s.x[s.mask] for s in (images, captions)])
    x = x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    nearest = (x @ x.T).fill_diagonal_(-2.0).argmax(1)
    same = modality == modality[nearest]
    shares = {"same element": element == element[nearest], "same modality": same}
    shares["same item"] = same & (item == item[nearest])
    return {name: 100 * float(share.float().mean()) for name, share in shares.items()}


def nearest_partner(images: EmbeddingSet, captions: EmbeddingSet) -> pd.DataFrame:
    """For each element of each image the caption that holds its nearest element: columns image, element, caption,
    cosine.

    Source: DivE, Figure 4 ("the nearest caption of each element").

    >>> sets = EmbeddingSet(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2, dtype=torch.bool))
    >>> nearest_partner(sets, sets)["caption"].tolist()
    [0, 0, 1, 1]
    """
    x, y = (s.x.float() / s.x.float().norm(dim=-1, keepdim=True).clamp(min=1e-12) for s in (images, captions))
    rows = []
    for i in range(len(images)):
        cosines = (y @ x[i].T).masked_fill(~captions.mask[..., None], -2.0).amax(1)  # caption × element of the image
        best = cosines.max(0)
        for k in images.mask[i].nonzero()[:, 0].tolist():
            rows.append((i, k, int(best.indices[k]), float(best.values[k])))
    return pd.DataFrame(rows, columns=["image", "element", "caption", "cosine"])


# What single elements of a set contribute: retrieval with some of them left out, without training again.


def keep_elements(sets: EmbeddingSet, numbers: Sequence[int]) -> EmbeddingSet:
    """The elements with these numbers only, in this order; means then run over the remaining ones.

    Shapes: "n k d" → "n len(numbers) d"; residual and attention follow.
    Raises: BadInput for no number, a repeated one, or one outside 0 … k − 1.

    >>> sets = EmbeddingSet(torch.zeros(5, 4, 8), torch.ones(5, 4, dtype=torch.bool))
    >>> keep_elements(sets, [2, 0]).x.shape
    torch.Size([5, 2, 8])
    """
    k = sets.x.shape[1]
    if not numbers or len(set(numbers)) != len(numbers) or not all(0 <= e < k for e in numbers):
        raise BadInput(
            f"elements are numbered 0 to {k - 1}, each at most once and at least one of them; got {list(numbers)}."
        )
    index = torch.as_tensor(list(numbers), device=sets.x.device)
    fields = {name: getattr(sets, name) for name in ("x", "mask", "residual", "attention")}
    return replace(sets, **{name: None if tensor is None else tensor[:, index] for name, tensor in fields.items()})


def element_ablation(
    similarity: Callable, images: EmbeddingSet, captions: EmbeddingSet, relevances: Mapping[str, Relevance]
) -> pd.DataFrame:
    """RSUM with one element alone and with one left out, of one modality at a time.

    Returns: columns side ('both', 'images', 'captions'), kept ('all', 'only 0', 'without 0', …), relevance, rsum in
        percent (0 … 600). The first rows are those of all elements. A modality with one element has no rows of its own.
    Raises: BadInput for representations without several elements; as evaluate.
    Source: DivE (Kim et al., CVPR 2023), Table 5.

    >>> from xmr_core.similarities import chamfer
    >>> sets = EmbeddingSet(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2, dtype=torch.bool))
    >>> own = Relevance.from_positions([0, 1], [0, 1], range(2), range(2))
    >>> element_ablation(chamfer, sets, sets, {"annotated": own})["rsum"].tolist()[0]
    600.0
    """
    modalities = {"images": images, "captions": captions}
    sizes = [s.x.shape[1] if isinstance(s, EmbeddingSet) else 0 for s in (images, captions)]
    if not min(sizes) or max(sizes) < 2:
        raise BadInput(
            "only a method with several elements per item has elements to leave out; train dive or pvse with slots ≥ 2."
        )
    cases = [("both", "all", None)]
    for modality, sets in modalities.items():
        k = sets.x.shape[1] if sets.x.shape[1] > 1 else 0
        choices = {f"only {e}": [e] for e in range(k)}
        choices |= {f"without {e}": [f for f in range(k) if f != e] for e in range(k)}
        cases += [(modality, name, numbers) for name, numbers in choices.items()]
    rows = []
    for modality, name, numbers in cases:
        parts = modalities | ({} if numbers is None else {modality: keep_elements(modalities[modality], numbers)})
        summary = evaluate(similarity, *parts.values(), relevances).summary()
        for line in summary[summary["metric"] == "rsum"].itertuples():
            rows.append({"side": modality, "kept": name, "relevance": line.relevance, "rsum": 100 * line.value})
    return pd.DataFrame(rows)


def numbers_from_one(names: pd.Series) -> pd.Series:
    """Names of element_ablation with elements counted from 1, as figures and texts count them.

    >>> numbers_from_one(pd.Series(["all", "only 0", "without 11"])).tolist()
    ['all', 'only 1', 'without 12']
    """
    return names.str.replace(r"\d+", lambda number: str(int(number[0]) + 1), regex=True)


def weakest_elements(table: pd.DataFrame) -> pd.DataFrame:
    """For each modality and relevance the element that retrieves worst alone, and what is lost without it.

    table: of element_ablation. Returns: columns side, relevance, element, alone (its own RSUM), gain (RSUM of all minus
    that of all but it; positive where the set is better with it).
    Source: DivE, Table 5, whose second image element is nearly useless alone and not in company.

    >>> lines = [("both", "all", 500.8), ("images", "only 0", 491.1), ("images", "only 1", 309.6)]
    >>> lines += [("images", "without 0", 309.6), ("images", "without 1", 491.1)]
    >>> table = pd.DataFrame(lines, columns=["side", "kept", "rsum"]).assign(relevance="annotated")
    >>> weakest_elements(table)[["element", "alone", "gain"]].round(1).to_dict("records")
    [{'element': 1, 'alone': 309.6, 'gain': 9.7}]
    """
    lines = []
    for relevance, part in table.groupby("relevance", sort=False):
        rsum = part.set_index(["side", "kept"])["rsum"]
        for modality in dict.fromkeys(part.loc[part["side"] != "both", "side"]):
            alone = rsum[modality][[name for name in rsum[modality].index if name.startswith("only ")]]
            element = int(alone.idxmin().removeprefix("only "))
            gain = rsum["both", "all"] - rsum[modality, f"without {element}"]
            lines.append((modality, relevance, element, alone.min(), gain))
    return pd.DataFrame(lines, columns=["side", "relevance", "element", "alone", "gain"])


# Retrieval with the first elements of every set only: quality and cost of a trained model at every budget.


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
