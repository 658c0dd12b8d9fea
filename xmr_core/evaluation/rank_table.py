"""All metrics of one direction, from a table of scores that was made anywhere."""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set

import numpy as np
from jaxtyping import Num, Shaped
from scipy import sparse
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.evaluation import metrics
from xmr_core.evaluation.engine import MatrixScores, Question, ranks
from xmr_core.evaluation.score_table import score_table

RelevantItems = (
    Relevance
    | Shaped[np.ndarray, "query gallery"]
    | Shaped[Tensor, "query gallery"]
    | sparse.sparray
    | sparse.spmatrix
    | Sequence[Collection[int] | int]
    | Mapping[int, Collection[int] | int]
    | Mapping[str, Mapping[str, int]]
)


def rank_metrics(
    scores: Num[np.ndarray, "query gallery"] | Num[Tensor, "query gallery"],
    relevance: RelevantItems,
    ks: Sequence[int] = (1, 5, 10),
    query_ids: Sequence | None = None,
    gallery_ids: Sequence | None = None,
) -> dict[str, float | int]:
    """Metrics of one direction: every row of `scores` is a query, every column a gallery item, larger is more alike.

    A query may have several relevant items, and an item may be relevant to several queries. A query without any
    relevant item is in no average. An irrelevant item with an equal score counts as ranked before a relevant one
    (docs/evaluation.md). For the other direction give `scores.T` and the transposed relevance. In a square table a
    wrong orientation cannot be noticed.

    Args:
        scores: "query gallery", numpy or torch, without NaN.
        relevance: one of
            a Relevance, with as many queries and gallery items as the scores;
            a matrix "query gallery" of Booleans or of 0 and 1, numpy, torch or scipy.sparse (CSR);
            a list with the gallery positions of each query (a list, a set, or one position), which may be empty;
            a dictionary from query position to gallery positions; queries that are not in it have no relevant item;
            qrels: a dictionary from query to a dictionary from gallery item to its grade, relevant above 0.
        ks: the K of R@K. query_ids, gallery_ids: names of the rows and of the columns, for a dictionary that names
            queries and items by them and not by position; it may name others too, which are left out.
    Returns: 'R@K' for each K, 'R-Precision' and 'mAP@R' as fractions in [0, 1]; 'median rank' and 'mean rank' of the
        best relevant item, counted from 1; 'queries', how many were averaged; 'dropped', how many have no relevant
        item.
    Raises: BadInput for sizes that do not fit, a position outside the gallery, a matrix with other values than 0 and 1,
        a score that is NaN, K < 1, or no query with a relevant item.

    >>> scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.8]])
    >>> values = rank_metrics(scores, [[0], [1, 2]])
    >>> values["R@1"], values["R-Precision"], values["queries"]
    (1.0, 1.0, 2)
    """
    matrix, ks = score_table(scores), _listed(ks)
    if wrong := [k for k in ks if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1]:
        raise BadInput(f"ks are whole numbers from 1, got {wrong[0]!r}.")
    if query_ids is not None or gallery_ids is not None or _is_qrels(relevance):
        relevance = _by_position(relevance, matrix.shape, query_ids, gallery_ids)
    relevant = _relevance(relevance, matrix.shape)
    queries = np.flatnonzero(relevant.counts)
    if not len(queries):
        raise BadInput(f"none of the {len(relevant):,} queries has a relevant item, so there is nothing to rank.")
    question = Question(relevant.restrict(queries, np.arange(matrix.shape[1])), "images", queries)
    ranked = ranks(MatrixScores(matrix), [question]).ranks[0]
    return {
        **{f"R@{k}": float(metrics.recall_at_k(ranked, k).mean()) for k in ks},
        "R-Precision": float(metrics.r_precision(ranked).mean()),
        "mAP@R": float(metrics.map_at_r(ranked).mean()),
        "median rank": metrics.median_rank(ranked),
        "mean rank": metrics.mean_rank(ranked),
        "queries": len(queries),
        "dropped": len(relevant) - len(queries),
    }


def _listed(ks: object) -> list:
    try:
        return list(ks)
    except TypeError:
        raise BadInput(f"ks are a list of whole numbers from 1, got {ks!r}.") from None


def _relevance(relevance: RelevantItems, shape: tuple[int, int]) -> Relevance:
    if isinstance(relevance, Relevance):
        _check_sizes((len(relevance.query_ids), len(relevance.gallery_ids)), shape)
        return relevance
    if isinstance(relevance, Tensor):
        relevance = relevance.detach().cpu().to_dense().numpy()
    if sparse.issparse(relevance) or isinstance(relevance, np.ndarray):
        if relevance.dtype == object or relevance.ndim != 2:
            raise BadInput(
                f"a relevance matrix must be queries × gallery, got shape {relevance.shape} of {relevance.dtype}."
            )
        _check_sizes(relevance.shape, shape)
        cells = relevance.tocoo() if sparse.issparse(relevance) else None
        if not np.isin(relevance if cells is None else cells.data, (0, 1)).all():
            raise BadInput(
                "a relevance matrix may hold only True and False, or 1 and 0; threshold graded values first."
            )
        query, item = np.nonzero(relevance) if cells is None else cells.nonzero()
    else:
        query, item = _pairs(relevance, shape)
    return Relevance.from_positions(query, item, np.arange(shape[0]), np.arange(shape[1]))


def _is_qrels(relevance: object) -> bool:
    return isinstance(relevance, Mapping) and any(isinstance(items, Mapping) for items in relevance.values())


def _by_position(relevance: object, shape: tuple[int, int], *ids: Sequence | None) -> dict:
    """A dictionary of names, or of grades, as one of positions."""
    if not isinstance(relevance, Mapping):
        raise BadInput("query_ids and gallery_ids name the items of a dictionary; this relevance is given by position.")
    places = []
    for names, n, what in zip(ids, shape, ("query_ids", "gallery_ids"), strict=True):
        names = range(n) if names is None else list(names)
        if len(names) != n or len(set(names)) != n:
            raise BadInput(
                f"{what} must name each of {n:,} once, got {len(names):,} names, {len(set(names)):,} different."
            )
        places.append({name: position for position, name in enumerate(names)})
    of_query, of_item = places
    if not relevance.keys() & of_query.keys():
        example = next(iter(relevance), None)
        raise BadInput(f"no query of the relevance is a row of the scores (for example {example!r}). Give query_ids.")
    graded = {query: _names(items) for query, items in relevance.items()}
    return {
        of_query[query]: [of_item[item] for item in items if item in of_item]
        for query, items in graded.items()
        if query in of_query
    }


def _names(items: object) -> list:
    """The relevant items of one query: of a mapping those with a grade above 0; a single name or number is one item."""
    if isinstance(items, Mapping):
        return [item for item, grade in items.items() if grade > 0]
    return list(items) if isinstance(items, Iterable) and not isinstance(items, str | bytes) else [items]


def _pairs(relevance: object, shape: tuple[int, int]) -> tuple[list[int], list[int]]:
    """Positions of queries and items from a list of lists or a dictionary."""
    if not isinstance(relevance, Mapping):
        relevance = list(relevance)
        if len(relevance) != shape[0]:
            raise BadInput(
                f"{len(relevance):,} lists of relevant items do not fit "
                f"scores of {shape[0]:,} queries × {shape[1]:,} items."
            )
        relevance = dict(enumerate(relevance))
    lists = {q: list(items) if isinstance(items, Set) else items for q, items in relevance.items()}
    pairs = [(q, item) for q, items in lists.items() for item in np.atleast_1d(np.asarray(items)).tolist()]
    for n, what, values in (
        (shape[0], "query", list(relevance)),
        (shape[1], "gallery item", [item for _, item in pairs]),
    ):
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < n:
                raise BadInput(f"a {what} is given by its position, 0 to {n - 1:,}; got {value!r}.")
    return [q for q, _ in pairs], [item for _, item in pairs]


def _check_sizes(sizes: tuple[int, ...], shape: tuple[int, int]) -> None:
    if tuple(sizes) != shape:
        turned = " One of the two is transposed: rows of both are queries."
        raise BadInput(
            f"a relevance of {sizes[0]:,} queries × {sizes[1]:,} items does not fit "
            f"scores of {shape[0]:,} × {shape[1]:,}." + turned * (tuple(sizes) == shape[::-1])
        )
