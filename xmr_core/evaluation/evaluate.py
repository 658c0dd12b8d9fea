"""Scores in the forms in which a user has them, as an array."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Num, Shaped
from scipy import sparse
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.machine import resolve_device
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import RelevantRanks, Representation
from xmr_core.evaluation import metrics
from xmr_core.evaluation.protocols import FULL, Protocol
from xmr_core.evaluation.ranks import Question, ranks
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.evaluation.scoring import MatrixScores, Scores, Scoring


def score_table(scores: object) -> Float[np.ndarray, "q g"]:
    """Scores of any kind (lists, numpy or torch, half precision, whole numbers, with a gradient) as an array of float32
    or float64. Raises: BadInput for what is no table of numbers.

    >>> score_table(torch.eye(2, dtype=torch.bfloat16)).dtype
    dtype('float64')
    """
    if isinstance(scores, Tensor):
        scores = scores.detach().cpu()
        scores = (scores if scores.dtype in (torch.float32, torch.float64) else scores.double()).numpy()
    scores = np.asarray(scores)
    if scores.ndim != 2 or scores.dtype.kind not in "fiub":
        raise BadInput(
            f"scores must be a table of numbers, queries × gallery; got shape {scores.shape} of {scores.dtype}."
        )
    return scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)


# One scoring, all metrics: both directions, several kinds of relevance, any protocol.


KS = (1, 5, 10)


@dataclass(frozen=True)
class Evaluation:
    """Ranks of all queries, and what was left out.

    per_query: one row per (relevance, direction, fold, query), with columns image, n_relevant, first_rank, r_precision,
    map_at_r and R@k. `image` is the position of the image that a query belongs to, for resampling; −1 for a caption to
    which the first relevance gives no image or several.
    dropped: number of queries without a relevant item, by relevance and direction; they are in no average.
    """

    per_query: pd.DataFrame
    dropped: dict[tuple[str, str], int]
    protocol: Protocol

    def summary(self) -> pd.DataFrame:
        """Tidy rows: relevance, direction, metric, k, value, n_queries; the mean over folds.

        Recalls, R-Precision and mAP@R are fractions; rsum (direction 'both') is the sum of six recalls, in [0, 6];
        median_rank and mean_rank count from 1. See docs/evaluation.md.
        """
        rows = []
        for (relevance, direction), table in self.per_query.groupby(["relevance", "direction"], sort=False):
            folds = [f for _, f in table.groupby("fold")]
            per_fold = {("recall", k): np.mean([f[f"R@{k}"].mean() for f in folds]) for k in KS}
            per_fold |= {(m, 0): np.mean([f[m].mean() for f in folds]) for m in ("r_precision", "map_at_r")}
            per_fold["mean_rank", 0] = np.mean([f["first_rank"].mean() for f in folds])
            per_fold["median_rank", 0] = np.mean([np.floor(np.median(f["first_rank"] - 1)) + 1 for f in folds])
            rows += [(relevance, direction, m, k, float(v), len(table)) for (m, k), v in per_fold.items()]
        out = pd.DataFrame(rows, columns=METRIC_COLUMNS)
        recalls = out[out["metric"] == "recall"].groupby("relevance", sort=False)
        sums = recalls.agg(value=("value", "sum"), n_queries=("n_queries", "sum")).reset_index()
        return pd.concat([out, sums.assign(direction="both", metric="rsum", k=0)], ignore_index=True)[list(out)]


def evaluate(
    similarity: Callable,
    images: Representation,
    captions: Representation,
    relevances: Mapping[str, Relevance],
    protocol: Protocol = FULL,
    done: Callable[[int], object] = lambda pairs: None,
    device: torch.device | str | None = None,
) -> Evaluation:
    """Score every image against every caption, block by block, and rank in both directions.

    Args: relevances: kind → Relevance with captions as queries and images as gallery. The ids of the first are those of
            the representations, in their order. A caption with exactly one image in it follows that image into its
            fold, and is resampled with it; a protocol of several folds needs that of every caption. The others may have
            fewer ids (PMRP leaves unlabelled images out); queries and gallery are then those that both have.
        protocol: which images and captions are ranked together. done: receives the number of pairs of each block
            that is done. device: where blocks are scored, 'auto' for an accelerator where there is one, None for where
            the representations are.
    Raises: BadInput as evaluate_scores does, and for a device that this machine does not have.

    >>> import torch
    >>> from xmr_core.base.types import Embedding
    >>> from xmr_core.similarities.vectors import cosine
    >>> relevance = Relevance.from_pairs([("a", 0), ("b", 1)], ["a", "b"], [0, 1])
    >>> items = Embedding(torch.eye(2))
    >>> float(evaluate(cosine, items, items, {"annotated": relevance}).summary()["value"].iloc[-1])
    6.0
    """
    if not (isinstance(images, Representation) and isinstance(captions, Representation)):
        raise BadInput("images and captions must be representations, such as Embedding(tensor); not scores or arrays.")
    device = None if device is None else resolve_device(str(device))
    return evaluate_scores(Scoring(similarity, images, captions, device=device), relevances, protocol, done)


def evaluate_scores(
    scores: Float[np.ndarray, "i t"] | Scores,
    relevances: Mapping[str, Relevance],
    protocol: Protocol = FULL,
    done: Callable[[int], object] = lambda pairs: None,
) -> Evaluation:
    """As evaluate, from a score matrix "i t" or any Scores (of an ensemble, say).

    Raises: BadInput for no relevance, or scores that do not fit the first one; what the protocol raises.

    >>> relevance = Relevance.from_pairs([("a", 0), ("b", 1)], ["a", "b"], [0, 1])
    >>> evaluate_scores(np.array([[0.1, 0.9], [0.8, 0.2]]), {"annotated": relevance}).per_query["first_rank"].tolist()
    [2, 2, 2, 2]
    """
    kinds = relevances.values() if isinstance(relevances, Mapping) else [None]
    if not relevances or not all(isinstance(relevance, Relevance) for relevance in kinds):
        raise BadInput(f"relevances must be a mapping such as {{'annotated': Relevance}}, got {relevances!r:.60}.")
    scores = scores if isinstance(scores, Scores) else MatrixScores(score_table(scores))
    own = next(iter(relevances.values()))
    if scores.shape != (len(own.gallery_ids), len(own.query_ids)):
        raise BadInput(
            f"{scores.shape[0]} × {scores.shape[1]} scores (images × captions) do not fit a relevance of "
            f"{len(own.gallery_ids)} images and {len(own.query_ids)} captions."
        )
    image_of = np.full(len(own), -1)
    image_of[own.counts == 1] = own.indices[own.indptr[:-1][own.counts == 1]]
    tables, dropped = [], {}
    for fold, (i, t) in enumerate(protocol.folds(scores.shape[0], image_of)):
        questions = [
            (kind, *question)
            for kind, relevance in relevances.items()
            for question in _questions(relevance, own, i, t, image_of, dropped, kind)
        ]
        complete = len(i) == scores.shape[0] and len(t) == scores.shape[1]
        answers = ranks(scores if complete else scores.part(i, t), [question for *_, question in questions], done)
        for (kind, direction, image, question), own_ranks in zip(questions, answers.ranks, strict=True):
            tables.append(_table(kind, direction, fold, image, question.relevance, own_ranks))
    return Evaluation(pd.concat(tables, ignore_index=True), dropped, protocol)


def _questions(
    relevance: Relevance, own: Relevance, i: np.ndarray, t: np.ndarray, image_of: np.ndarray, dropped: dict, kind: str
) -> list[tuple[str, np.ndarray, Question]]:
    """(direction, image of each query, question) of both directions, among the images i and captions t of a fold.

    Positions in a question are those in the fold.
    """
    t_own, t_relevance = _shared(t, own.query_ids, relevance.query_ids)
    i_own, i_relevance = _shared(i, own.gallery_ids, relevance.gallery_ids)
    complete = (len(t_relevance), len(i_relevance)) == (len(relevance.query_ids), len(relevance.gallery_ids))
    complete = complete and (np.diff(t_relevance) == 1).all() and (np.diff(i_relevance) == 1).all()
    t2i = relevance if complete else relevance.restrict(t_relevance, i_relevance)
    captions, images = np.searchsorted(t, t_own), np.searchsorted(i, i_own)
    questions = []
    for direction, relevant, modality, queries, gallery, owner in (
        ("i2t", t2i.transpose(), "images", images, captions, i_own),
        ("t2i", t2i, "captions", captions, images, image_of[t_own]),
    ):
        rows = np.flatnonzero(relevant.counts)
        dropped[kind, direction] = dropped.get((kind, direction), 0) + len(relevant) - len(rows)
        if len(rows) < len(relevant):
            relevant = relevant.restrict(rows, np.arange(len(gallery)))
        questions.append((direction, owner[rows], Question(relevant, modality, queries[rows], gallery)))
    return questions


def _table(
    kind: str, direction: str, fold: int, image: np.ndarray, relevance: Relevance, ranks: RelevantRanks
) -> pd.DataFrame:
    columns = {
        "relevance": kind,
        "direction": direction,
        "fold": fold,
        "query": relevance.query_ids,
        "image": image,
        "n_relevant": relevance.counts,
        "first_rank": metrics.first_rank(ranks),
        "r_precision": metrics.r_precision(ranks),
        "map_at_r": metrics.map_at_r(ranks),
    }
    return pd.DataFrame(columns | {f"R@{k}": metrics.recall_at_k(ranks, k) for k in KS})


def _shared(positions: np.ndarray, ids: np.ndarray, other_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(those positions in ids whose id is also in other_ids, their positions there)."""
    if ids is other_ids or np.array_equal(ids, other_ids):
        return positions, positions
    position_of = {value: n for n, value in enumerate(other_ids.tolist())}
    others = np.array([position_of.get(value, -1) for value in ids[positions].tolist()], np.int64)
    return positions[others >= 0], others[others >= 0]


# All metrics of one direction, from a table of scores that was made anywhere.


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
