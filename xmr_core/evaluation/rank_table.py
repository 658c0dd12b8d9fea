"""All metrics of one direction, from a table of scores that was made anywhere."""

from collections.abc import Collection, Iterable, Mapping, Sequence

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
    matrix = score_table(scores)
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


def _relevance(relevance: RelevantItems, shape: tuple[int, int]) -> Relevance:
    if isinstance(relevance, Relevance):
        _check_sizes((len(relevance.query_ids), len(relevance.gallery_ids)), shape)
        return relevance
    if isinstance(relevance, Tensor):
        relevance = relevance.detach().cpu().to_dense().numpy()
    if isinstance(relevance, np.ndarray) or sparse.issparse(relevance):
        _check_sizes(relevance.shape, shape)
        cells = relevance.tocoo() if sparse.issparse(relevance) else relevance
        if not np.isin(cells.data if sparse.issparse(relevance) else cells, (0, 1)).all():
            raise BadInput(
                "a relevance matrix may hold only True and False, or 1 and 0; threshold graded values first."
            )
        query, item = cells.nonzero()
    else:
        query, item = _pairs(relevance, shape)
    return Relevance.from_positions(query, item, np.arange(shape[0]), np.arange(shape[1]))


def _is_qrels(relevance: object) -> bool:
    return isinstance(relevance, Mapping) and any(isinstance(items, Mapping) for items in relevance.values())


def _by_position(relevance: object, shape: tuple[int, int], *ids: Sequence | None) -> dict:
    """A dictionary of names, or of grades, as one of positions."""
    if not isinstance(relevance, Mapping):
        raise BadInput("query_ids and gallery_ids name the items of a dictionary; this relevance is given by position.")
    of_query, of_item = (
        {name: place for place, name in enumerate(range(n) if names is None else names)}
        for names, n in zip(ids, shape, strict=True)
    )
    if (len(of_query), len(of_item)) != shape:
        raise BadInput(
            f"query_ids and gallery_ids must name each row and column of the scores once, {shape[0]:,} and "
            f"{shape[1]:,}; got {len(of_query):,} and {len(of_item):,} different names."
        )
    if not relevance.keys() & of_query.keys():
        example = next(iter(relevance), None)
        raise BadInput(f"no query of the relevance is a row of the scores (for example {example!r}). Give query_ids.")
    return {
        of_query[query]: [of_item[item] for item in _items(items) if item in of_item]
        for query, items in relevance.items()
        if query in of_query
    }


def _items(items: object) -> list:
    """The relevant items of one query: of a mapping those with a grade above 0; a single name or number is one item."""
    if isinstance(items, Mapping):
        return [item for item, grade in items.items() if grade > 0]
    items = items.tolist() if isinstance(items, np.ndarray | np.generic | Tensor) else items
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
    pairs = [(q, item) for q, items in relevance.items() for item in _items(items)]
    for n, what, values in (
        (shape[0], "query", relevance),
        (shape[1], "gallery item", [item for _, item in pairs]),
    ):
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < n:
                raise BadInput(f"a {what} is given by its position, 0 to {n - 1:,}; got {value!r}.")
    return [q for q, _ in pairs], [item for _, item in pairs]


def _check_sizes(sizes: tuple[int, ...], shape: tuple[int, int]) -> None:
    if tuple(sizes) != shape:
        turned = " One of the two is transposed: rows of both are queries." * (tuple(sizes) == shape[::-1])
        listed = " × ".join(f"{n:,}" for n in sizes)
        raise BadInput(
            f"a relevance of queries × items {listed} does not fit scores of {shape[0]:,} × {shape[1]:,}.{turned}"
        )
