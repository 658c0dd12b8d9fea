"""One scoring, all metrics: both directions, several kinds of relevance, any protocol; and what an evaluation holds."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Num, Shaped
from scipy import sparse
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.machine import Environment, as_a_run, resolve_device
from xmr_core.base.reachable import in_words, reachable_in
from xmr_core.base.types import Brief, Corpus, Relevance, Representation, distinct
from xmr_core.evaluation import metrics
from xmr_core.evaluation.metrics import FULL, KS, Protocol
from xmr_core.evaluation.ranks import MatrixScores, RankQuery, Scores, Scoring, checked_k, ranks
from xmr_core.evaluation.stats import bootstrap_interval
from xmr_core.features.images import image_contents


def score_table(scores: object) -> Float[np.ndarray, "q g"]:
    """Scores of any kind (lists, numpy or torch, half precision, whole numbers, with a gradient) as an array of float32
    or float64. Raises: BadInput for what is no table of numbers.

    >>> score_table(torch.eye(2, dtype=torch.bfloat16)).dtype
    dtype('float64')
    """
    if isinstance(scores, Tensor):
        scores = scores.detach().cpu().to_dense()
        scores = (scores if scores.dtype in (torch.float32, torch.float64) else scores.double()).numpy()
    scores = np.asarray(scores)
    if scores.ndim != 2 or scores.dtype.kind not in "fiub":
        raise BadInput(f"scores must be a table of numbers, queries × gallery; got {scores.shape} of {scores.dtype}.")
    return scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)


@dataclass(frozen=True)
class Evaluation(Brief):
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
    relevances: "RelevantItems | Mapping[str, RelevantItems]",
    protocol: Protocol = FULL,
    done: Callable[[int], object] = lambda pairs: None,
    device: torch.device | str | None = None,
) -> Evaluation:
    """Score every image against every caption, block by block, and rank in both directions.

    Args: relevances: what is relevant to each caption among the images, in any form that `as_relevance` takes; or kind
            → one of these, for several. The ids of the first are those of the representations, in their order. A
            caption with exactly one image in it follows that image into its fold, and is resampled with it; a protocol
            of several folds needs that of every caption. The others may have fewer ids (PMRP leaves unlabelled images
            out), or those of more splits; queries and gallery are then those that both have.
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


@as_a_run()
def evaluate_scores(
    scores: Float[np.ndarray, "i t"] | Scores,
    relevances: "RelevantItems | Mapping[str, RelevantItems]",
    protocol: Protocol = FULL,
    done: Callable[[int], object] = lambda pairs: None,
) -> Evaluation:
    """As evaluate, from a score matrix "i t" or any Scores (of an ensemble, say). Rows of the scores are images, and
    those of the relevance captions: in a square table a wrong orientation cannot be noticed.

    Raises: BadInput for no relevance, or one that does not fit the scores; what the protocol raises.

    >>> relevance = Relevance.from_pairs([("a", 0), ("b", 1)], ["a", "b"], [0, 1])
    >>> evaluate_scores(np.array([[0.1, 0.9], [0.8, 0.2]]), {"annotated": relevance}).per_query["first_rank"].tolist()
    [2, 2, 2, 2]
    >>> len(evaluate_scores(np.eye(2), [0, 1]).per_query)  # caption 0 describes image 0
    4
    """
    scores = scores if isinstance(scores, Scores) else MatrixScores(score_table(scores))
    relevances = _by_kind(relevances, scores.shape[::-1])
    own = next(iter(relevances.values()))
    image_of = np.full(len(own), -1)
    image_of[own.counts == 1] = own.indices[own.indptr[:-1][own.counts == 1]]
    tables, dropped = [], {}
    for fold, (i, t) in enumerate(protocol.folds(scores.shape[0], image_of)):
        questions = [q for kind, r in relevances.items() for q in _questions(kind, r, own, i, t, image_of)]
        complete = len(i) == scores.shape[0] and len(t) == scores.shape[1]
        answers = ranks(scores if complete else scores.part(i, t), [question for *_, question in questions], done)
        for (kind, direction, without, image, question), query_ranks in zip(questions, answers.ranks, strict=True):
            dropped[kind, direction] = dropped.get((kind, direction), 0) + without
            columns = {"relevance": kind, "direction": direction, "fold": fold, "query": question.relevance.query_ids}
            columns |= {"image": image, "n_relevant": question.relevance.counts}
            columns |= {name: getattr(metrics, name)(query_ranks) for name in ("first_rank", "r_precision", "map_at_r")}
            tables.append(pd.DataFrame(columns | {f"R@{k}": metrics.recall_at_k(query_ranks, k) for k in KS}))
    return Evaluation(pd.concat(tables, ignore_index=True), dropped, protocol)


def _by_kind(relevances: object, shape: tuple[int, int]) -> dict[str, Relevance]:
    """Kind → Relevance, of captions × images; a single one is 'annotated'. What is no Relevance has the first's ids."""
    kinds = isinstance(relevances, Mapping) and all(isinstance(kind, str) for kind in relevances)
    out: dict[str, Relevance] = {}
    for kind, relevance in (relevances if kinds else {"annotated": relevances}).items():
        own = next(iter(out.values()), None)
        if own is None or not isinstance(relevance, Relevance):
            try:
                relevance = as_relevance(relevance, shape)
            except BadInput as e:
                raise BadInput(f"{e} Here queries are captions, and items images.") from None
            if own is not None:
                relevance = replace(relevance, query_ids=own.query_ids, gallery_ids=own.gallery_ids)
        for ids in ("query_ids", "gallery_ids") if own is not None and len(relevance.indices) else ():
            first, other = ({*getattr(r, ids).tolist()} for r in (own, relevance))
            if not (first <= other or other <= first):
                lone = next(iter(other - first)), next(iter(first - other))
                raise BadInput(
                    f"{kind!r} has {ids} that the first kind lacks, such as {lone[0]!r}, and lacks others, such as "
                    f"{lone[1]!r}: name queries and items by the ids of the first, and not by positions."
                )
        out[kind] = relevance
    if not out:
        raise BadInput("give a relevance: for each caption the positions of its images, or what as_relevance takes.")
    return out


def _questions(
    kind: str, relevance: Relevance, own: Relevance, i: np.ndarray, t: np.ndarray, image_of: np.ndarray
) -> list[tuple[str, str, int, np.ndarray, RankQuery]]:
    """(kind, direction, queries left out, image of each query, question) of both directions, among the images i and
    captions t of a fold. Positions in a question are those in the fold."""
    t_own, t_relevance = _shared(t, own.query_ids, relevance.query_ids)
    i_own, i_relevance = _shared(i, own.gallery_ids, relevance.gallery_ids)
    t2i = relevance.restrict(t_relevance, i_relevance)
    captions, images = np.searchsorted(t, t_own), np.searchsorted(i, i_own)
    questions = []
    for direction, relevant, modality, queries, gallery, owner in (
        ("i2t", t2i.transpose(), "images", images, captions, i_own),
        ("t2i", t2i, "captions", captions, images, image_of[t_own]),
    ):
        rows = np.flatnonzero(relevant.counts)
        question = RankQuery(relevant.restrict(rows, np.arange(len(gallery))), modality, queries[rows], gallery)
        questions.append((kind, direction, len(relevant) - len(rows), owner[rows], question))
    return questions


def _shared(positions: np.ndarray, ids: np.ndarray, other_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(those positions in ids whose id is also in other_ids, their positions there)."""
    if ids is other_ids or np.array_equal(ids, other_ids):
        return positions, positions
    position_of = {value: n for n, value in enumerate(other_ids.tolist())}
    others = np.array([position_of.get(value, -1) for value in ids[positions].tolist()], np.int64)
    return positions[others >= 0], others[others >= 0]


def evaluate_corpus(
    scores: Float[np.ndarray, "i t"] | Scores,
    corpus: Corpus,
    split: str = "test",
    done: Callable[[int], object] = lambda pairs: None,
) -> tuple[Evaluation, pd.DataFrame]:
    """(evaluation by all kinds of relevance of the corpus, its summary with a row of Kendall's τ_c for each kind of
    grade).

    scores: a matrix or Scores of the split's images and captions, in file order. A run, an ensemble and a pretrained
    dual encoder are all evaluated here. done: receives the number of pairs of each block that is done.
    """
    relevances = {kind: relevance_of(split) for kind, relevance_of in corpus.relevance_sets.items()}
    evaluation = evaluate_scores(scores, relevances, done=done)
    agreement = judgment_agreement(scores, relevances["annotated"], corpus.grades)
    return evaluation, pd.concat([evaluation.summary(), *([agreement] if len(agreement) else [])], ignore_index=True)


def judgment_agreement(
    scores: Float[np.ndarray, "i t"] | Scores, own: Relevance, grades: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Kendall's τ_c between scores and human grades over all graded pairs, with one row for each kind of grade.

        τ_c = 2 (P − Q) / (n² (m − 1) / m)

    P and Q count the pairs of graded pairs that scores and grades order alike and in opposite ways, n is the number of
    graded pairs, and m the smaller number of distinct values (usually of grades). τ_c lies in [−1, 1] and is 0 without
    any agreement; the column n_queries holds n. Retrieval compares scores of one query only; τ_c also shows whether
    equal scores mean the same for different images.

    Args:
        own: captions as queries, images as gallery; its ids are those of the scores, in their order.
        grades: kind → columns image_id, caption_id, grade. Pairs with an id that `own` does not have (of other splits)
            are left out. A kind without two different grades has no row.
    Source: τ_c on Flickr8k's judgments is how caption metrics are compared (Hodosh et al., JAIR 2013; Anderson et al.,
        ECCV 2016).

    >>> own = Relevance.from_matrix(np.eye(2, dtype=bool), ["c0", "c1"], ["i0", "i1"])
    >>> grades = pd.DataFrame({"image_id": ["i0", "i0"], "caption_id": ["c0", "c1"], "grade": [4, 1]})
    >>> judgment_agreement(np.array([[0.9, 0.1], [0.2, 0.8]]), own, {"expert": grades})["value"].tolist()
    [1.0]
    """
    if not grades:
        return pd.DataFrame(columns=METRIC_COLUMNS)
    from scipy.stats import kendalltau  # takes as long to import as half of torch

    scores = scores if isinstance(scores, Scores) else MatrixScores(scores)
    images, captions = (pd.Index(ids) for ids in (own.gallery_ids, own.query_ids))
    rows = []
    for kind, table in grades.items():
        i, t = images.get_indexer(table["image_id"]), captions.get_indexer(table["caption_id"])
        valid = (i >= 0) & (t >= 0)
        grade = table["grade"].to_numpy()[valid]
        if len(distinct(grade)) > 1:
            value = kendalltau(scores.pairs(i[valid], t[valid]), grade, variant="c").statistic
            rows.append((kind, "both", "kendall_tau_c", 0, float(value), int(valid.sum())))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


_Matrix = Shaped[np.ndarray, "query gallery"] | Shaped[Tensor, "query gallery"] | sparse.sparray | sparse.spmatrix
_Lists = Sequence[Collection[int] | int] | Mapping[int, Collection[int] | int] | Mapping[str, Mapping[str, int]]
RelevantItems = Relevance | _Matrix | _Lists | pd.DataFrame | pd.Series


REQUESTED = {"R": metrics.recall_at_k, "P": metrics.precision_at_k, "nDCG": None}  # nDCG needs the grades
REQUESTED |= {"MRR": metrics.reciprocal_rank, "MAP": metrics.average_precision}


def rank_metrics(
    scores: Num[np.ndarray, "query gallery"] | Num[Tensor, "query gallery"],
    relevance: RelevantItems,
    ks: Sequence[int] = KS,
    query_ids: Sequence | None = None,
    gallery_ids: Sequence | None = None,
    more: Sequence[str] = (),
    per_query: bool = False,
) -> dict[str, float | int] | pd.DataFrame:
    """Metrics of one direction: every row of `scores` is a query, every column a gallery item, larger is more alike.

    A query may have several relevant items, and an item may be relevant to several queries. A query without any
    relevant item is in no average. An irrelevant item with an equal score counts as ranked before a relevant one
    (docs/evaluation.md). For the other direction give `scores.T` and the transposed relevance. In a square table a
    wrong orientation cannot be noticed.

    Args:
        scores: "query gallery", numpy or torch, without NaN.
        relevance: what `as_relevance` takes: a Relevance, a matrix, lists, a dictionary or qrels. With nDCG among
            `more` a matrix may hold grades. The other metrics take each grade above 0 as relevant.
        ks: the K of R@K. query_ids, gallery_ids: names of the rows and of the columns, for a dictionary that names
            queries and items by them and not by position; it may name others too, which are left out.
        more: further metrics: 'MRR', 'MAP' and 'nDCG', of all items or of the first K ('nDCG@10'), 'P@K', 'R@K'. nDCG
            takes the grade as the gain; of equal scores the lower grade comes first.
        per_query: give the values of every query, not their means.
    Returns: 'R@K' for each K, 'R-Precision' and 'mAP@R' as fractions in [0, 1]; 'median rank' and 'mean rank' of the
        best relevant item, counted from 1; 'queries', how many were averaged; 'dropped', how many have no relevant
        item. With per_query a frame with a row for each query that has a relevant item, and the same metrics as
        columns; 'first rank' takes the place of the last four.
    Raises: BadInput for sizes that do not fit, a position outside the gallery, a matrix with other values than 0 and 1,
        a score that is NaN, K < 1, an unknown metric, or no query with a relevant item.

    >>> scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.8]])
    >>> values = rank_metrics(scores, [[0], [1, 2]])
    >>> values["R@1"], values["R-Precision"], values["queries"]
    (1.0, 1.0, 2)
    >>> rank_metrics(scores, {0: {0: 1, 1: 3}, 1: {1: 1}}, more=["MRR", "nDCG@5"], per_query=True)["MRR"].tolist()
    [1.0, 0.5]
    """
    matrix, wanted = score_table(scores), [(name, *name.partition("@")[::2]) for name in more]
    for name, kind, k in wanted:
        if kind not in REQUESTED or (not k.isdecimal() if "@" in name or kind in "RP" else k):
            raise BadInput(f"unknown metric {name!r}. There are R@5, P@5, MRR, MAP, nDCG, MRR@5, MAP@5, nDCG@5.")
    by_grade = any(kind == "nDCG" for _, kind, _ in wanted)
    relevant, grades = _graded(relevance, matrix.shape, query_ids, gallery_ids, by_grade)
    queries = np.flatnonzero(relevant.counts)
    if not len(queries):
        raise BadInput(f"none of the {len(relevant):,} queries has a relevant item; query_ids name the rows of scores.")
    steps = distinct(grades)
    questions = [_at_least(relevant, grades, step) for step in steps]
    ranked, *_ = answers = ranks(MatrixScores(matrix), questions).ranks
    ks = ks if isinstance(ks, Iterable) else [ks]
    values = {f"R@{k}": metrics.recall_at_k(ranked, k) for k in map(checked_k, ks)}
    values |= {"R-Precision": metrics.r_precision(ranked), "mAP@R": metrics.map_at_r(ranked)}
    for name, kind, k in wanted:
        cut = int(k) if k else None
        if kind != "nDCG":
            values[name] = REQUESTED[kind](ranked, cut)
            continue
        gains = np.zeros((2, len(relevant)))  # every grade adds what it is above the next lower one
        for step, question, answer in zip(np.diff(steps, prepend=0), questions, answers, strict=True):
            gains[:, question.queries] += step * np.array(metrics.discounted_gain(answer, cut))
        values[name] = gains[0, queries] / gains[1, queries]
    if per_query:
        index = pd.Index(relevant.query_ids[queries], name="query")
        return pd.DataFrame({**values, "first rank": metrics.first_rank(ranked)}, index=index)
    means = {name: float(own.mean()) for name, own in values.items()}
    means |= {"median rank": metrics.median_rank(ranked), "mean rank": metrics.mean_rank(ranked)}
    return means | {"queries": len(queries), "dropped": len(relevant) - len(queries)}


def _at_least(relevant: Relevance, grades: np.ndarray, grade: float) -> RankQuery:
    """The question for the items of at least this grade, of the queries that have any."""
    own = grades >= grade
    rows, query = np.unique(relevant.queries[own], return_inverse=True)
    ids = relevant.query_ids[rows], relevant.gallery_ids
    return RankQuery(Relevance.from_positions(query, relevant.indices[own], *ids), "images", rows)


def as_relevance(
    relevance: RelevantItems,
    shape: tuple[int, int],
    query_ids: Sequence | None = None,
    gallery_ids: Sequence | None = None,
) -> Relevance:
    """What is relevant to what, in any form that people have, as the Relevance of `shape` = (queries, gallery items).

    Every function that takes scores and relevance takes these forms. `evaluate` and `evaluate_scores` have captions as
    queries and images as gallery: a list for each caption, or a matrix captions × images.

    relevance: one of
        a Relevance, with as many queries and gallery items;
        a matrix "query gallery" of Booleans or of 0 and 1, numpy, torch or scipy.sparse (CSR);
        a list with the gallery positions of each query (a list, a set, or one position), which may be empty;
        a dictionary from query position to gallery positions; queries that are not in it have no relevant item;
        qrels: a dictionary from query to a dictionary from gallery item to its grade, relevant above 0.
    query_ids, gallery_ids: as in rank_metrics. Raises: BadInput, as rank_metrics does.

    >>> as_relevance({"q": {"b": 2}}, (1, 2), ["q"], ["a", "b"]).indices.tolist()
    [1]
    """
    return _graded(relevance, shape, query_ids, gallery_ids)[0]


def _graded(
    relevance: RelevantItems, shape: tuple[int, int], query_ids=None, gallery_ids=None, by_grade: bool = False
) -> tuple[Relevance, Float[np.ndarray, " r"]]:
    """(Relevance, the grade of each of its pairs, in their order). by_grade: a matrix may hold grades."""
    query_ids, gallery_ids = (own if own is None else [*own] for own in (query_ids, gallery_ids))
    if isinstance(relevance, Tensor):
        relevance = relevance.detach().cpu().to_dense()
        relevance = (relevance.double() if relevance.dtype == torch.bfloat16 else relevance).numpy()
    elif hasattr(relevance, "to_numpy"):  # pandas: by position, not by label
        relevance = relevance.to_numpy()
    elif isinstance(relevance, Relevance) and (query_ids is not None or gallery_ids is not None):
        pairs = (query_ids, relevance.query_ids), (gallery_ids, relevance.gallery_ids)
        relevance = relevance.restrict(*(_places(wanted, own) for wanted, own in pairs))
    table = (isinstance(relevance, np.ndarray) and relevance.ndim != 1) or sparse.issparse(relevance)
    if table or isinstance(relevance, Relevance):
        sizes = relevance.shape if table else (len(relevance), len(relevance.gallery_ids))
        if tuple(sizes) != shape:
            turned = " One of the two is transposed: rows of both are queries." * (tuple(sizes) == shape[::-1])
            sizes, wanted = (" × ".join(map(str, own)) for own in (sizes, shape))
            raise BadInput(f"a relevance of queries × items {sizes} does not fit scores of {wanted}.{turned}")
        if not table:
            return relevance, np.ones(len(relevance.indices))
        try:
            kind = {"b": bool, "i": np.int64, "u": np.int64, "f": float, "O": float}[relevance.dtype.kind]
            cells = sparse.csr_array(relevance.astype(kind, copy=False)).tocoo()  # entries that repeat are summed
        except (KeyError, TypeError, ValueError):
            raise BadInput(f"a relevance matrix must hold numbers, got {relevance.dtype}.") from None
        if not by_grade and not np.isin(cells.data, (0, 1)).all():
            raise BadInput("a relevance matrix may hold only True and False, or 1 and 0; grades only for nDCG.")
        query, item, grades = (*cells.coords, cells.data)
    else:
        query, item, grades = map(np.asarray, _pairs(relevance, shape, (query_ids, gallery_ids)))
    if grades.dtype.kind not in "biuf" or not np.isfinite(grades).all() or (grades[grades < 0] % 1).any():
        raise BadInput("a grade of relevance must be a finite number, above 0 or, for an irrelevant item, whole.")
    positive = grades > 0
    query, item, grades = query[positive].astype(np.int64), item[positive].astype(np.int64), grades[positive]
    ids = (np.arange(n) if own is None else own for n, own in zip(shape, (query_ids, gallery_ids), strict=True))
    first = np.unique(query * shape[1] + item, return_index=True)[1]  # in the order of Relevance
    return Relevance.from_positions(query, item, *ids), grades[first] if by_grade else np.ones(len(first))


def _places(wanted: list | None, ids: np.ndarray) -> np.ndarray:
    """Where the wanted ids stand among those of a Relevance; all for None. Raises: BadInput for one that does not."""
    wanted = ids.tolist() if wanted is None else wanted
    places = pd.Index(ids.tolist(), dtype=object).get_indexer(pd.Index(wanted, dtype=object))
    if (places < 0).any() or len({*wanted}) < len(wanted):
        raise BadInput(f"query_ids and gallery_ids name ids of the Relevance, such as {ids[:1].tolist()}, once each.")
    return places


def _pairs(relevance: object, shape: tuple[int, int], ids: Sequence) -> tuple[list, ...]:
    """Positions of queries and of items, and grades, from lists, or a dictionary of positions, names or grades."""
    mapping = isinstance(relevance, Mapping)
    named = any(names is not None for names in ids)
    places = [
        {name: place for place, name in enumerate(range(n) if names is None else names)}
        for names, n in zip(ids, shape, strict=True)
    ]
    lists = list(relevance) if isinstance(relevance, Iterable) and not mapping else []
    if tuple(map(len, places)) != shape or (not mapping and (named or len(lists) != shape[0])):
        raise BadInput(
            f"scores of {shape[0]} × {shape[1]} need a list of relevant items for each query, or a "
            "dictionary, for which query_ids and gallery_ids name each query and item once."
        )
    relevance = relevance if mapping else dict(enumerate(lists))
    ordered = [_items(own) for own in relevance.values() if not isinstance(own, Mapping | Set)]
    rows = [[item for item, _ in own] for own in ordered]
    flags = any(isinstance(item, bool | np.bool_) for row in rows for item in row)
    repeats = any(len({*row}) < len(row) and not isinstance(row[0], str) for row in rows)
    if flags or repeats or (rows and shape[1] == 2 and all(sorted(row, key=str) == [0, 1] for row in rows)):
        raise BadInput("lists hold the positions of relevant items; give a matrix of 0 and 1 as an array.")
    out = []
    for query, items in relevance.items():
        for item, grade in _items(items):
            if query in places[0] and item in places[1]:
                out.append((places[0][query], places[1][item], grade))
            elif not named:
                raise BadInput(
                    f"queries and items are given by their positions in {shape[0]} × {shape[1]} without query_ids and "
                    f"gallery_ids; got query {query!r} with item {item!r}."
                )
    return [query for query, *_ in out], [item for _, item, _ in out], [grade for *_, grade in out]


def _items(items: object) -> list[tuple]:
    """The items of one query with their grades; a single name or number is one item, and grades are 1 unless given."""
    if isinstance(items, Mapping):
        return [*items.items()]
    items = items.tolist() if isinstance(items, np.ndarray | np.generic | Tensor) else items
    listed = list(items) if isinstance(items, Iterable) and not isinstance(items, str | bytes) else [items]
    return [(item, 1) for item in listed]


# columns of a table of metrics: `value` of a metric at k, in one direction, by one kind of relevance, over n_queries
METRIC_COLUMNS = ["relevance", "direction", "metric", "k", "value", "n_queries"]


@dataclass(frozen=True)
class Setting:
    """What stands in a table beside a number. size: of the scenes ('quick'), '' for other corpora. epochs: 0 if
    untrained. world: seed of the scenes' world; 0 for other corpora.
    """

    method: str
    form: str
    dataset: str
    size: str = ""
    seed: int = 0
    epochs: int = 0
    world: int = 0


@dataclass(frozen=True)
class Provenance(Brief):
    """Where the numbers came from.

    Attributes:
        started_utc: ISO time. train_seconds: of a core, all threads together, on a CPU; wall clock on another device
            and for runs before 2026-11-23. evaluate_seconds: wall clock.
        parameters: how many numbers can be trained.
        environment: packages and machine.
        code: hash of the code that was run, '' where none was computed. versions: of the components that were run.
        best_epoch: 0-based, −1 where none was chosen. best_value: its RSUM on the validation split in [0, 6], or NaN.
        messages: warnings of the training. relevances: kinds of relevance that were evaluated.
        word_vector_coverage: share of the training captions' words with a vector from a file; None without a file.
        members: ids of the runs of an ensemble. model: source and identity of a model that was used as it is.
        files: digests of the files of a stored run, by name.
    """

    started_utc: str
    train_seconds: float
    parameters: int
    environment: Environment
    code: str = ""
    versions: Mapping[str, int | str] = field(default_factory=dict)
    best_epoch: int = -1
    best_value: float = math.nan
    evaluate_seconds: float = 0.0
    messages: tuple[str, ...] = ()
    relevances: tuple[str, ...] = ()
    word_vector_coverage: float | None = None
    members: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluated(Brief):
    """A method, an ensemble or a model from elsewhere, evaluated on the test split of a corpus.

    id: names it in tables and files. metrics: tidy values; columns relevance, direction, metric, k, value, n_queries.
    per_query: one row per relevance, direction and query; see Evaluation.per_query.

    >>> from xmr_core.base.machine import environment
    >>> provenance = Provenance("2026-11-22T09:00:00+00:00", 0.0, 10, environment("cpu"))
    >>> empty = pd.DataFrame(columns=METRIC_COLUMNS)
    >>> setting = Setting("zero-shot", "as it is", "coco")
    >>> Evaluated("zero-shot-coco-s0-1", setting, empty, pd.DataFrame(), provenance).setting.method
    'zero-shot'
    """

    id: str
    setting: Setting
    metrics: pd.DataFrame
    per_query: pd.DataFrame
    provenance: Provenance

    def with_metrics(self, rows: pd.DataFrame) -> Self:
        """The same with more rows of metrics, for tables; nothing on the disk changes."""
        return replace(self, metrics=pd.concat([self.metrics, rows[list(self.metrics)]], ignore_index=True))


def rsum_interval(per_query: pd.DataFrame, relevance: str, level: float = 0.95) -> tuple[float, float, float]:
    """(RSUM, low, high) in percent of one run, by resampling images."""
    own = per_query[per_query["relevance"] == relevance]
    directions = [table for _, table in own.groupby("direction")]
    parts = [(100 * table[f"R@{k}"].to_numpy(), table["image"].to_numpy()) for table in directions for k in KS]
    return bootstrap_interval(parts, level)


class EvaluatedSplit(Evaluated):
    """What is evaluated on a split of a corpus that is at hand: a subclass has `corpus` and `split`."""

    def chance(self) -> tuple[float, float, float]:
        """(mean, low, high) of the annotated RSUM of random rankings of the split, 95 % between low and high."""
        galleries = dict(zip(("t2i", "i2t"), map(len, self.corpus.rows(self.split)), strict=True))
        return metrics.random_rsum(self.per_query[self.per_query["relevance"] == "annotated"], galleries)

    def reachable(self) -> dict[str, float]:
        """What no model exceeds on the split, by its annotated pairs: base.reachable.reachable."""
        contents = image_contents(self.corpus, self.corpus.rows(self.split)[0])[2]
        return reachable_in(self.corpus, self.split, contents)


def rsums(per_query: pd.DataFrame) -> list[dict]:
    """For each kind of relevance: relevance, rsum, low and high (rsum_interval), i2t and t2i (R@1 in percent), and how
    many images and captions are queries."""
    rows = []
    for kind, own in per_query.groupby("relevance", sort=False):
        rsum = dict(zip(("rsum", "low", "high"), rsum_interval(per_query, kind), strict=True))
        first = own.groupby("direction")["R@1"]
        counts = {"images": int(first.size().get("i2t", 0)), "captions": int(first.size().get("t2i", 0))}
        rows.append({"relevance": kind, **rsum, **(100 * first.mean()).to_dict(), **counts})
    return rows


def quality_lines(run: EvaluatedSplit) -> list[str]:
    """What train and evaluate print."""
    line = "  RSUM    {rsum:.1f} of 600 ({relevance}; {low:.1f} to {high:.1f} by the choice of images)".format_map
    lines = [*map(line, rsums(run.per_query)), f"  chance  {run.chance()[0]:.1f} (a random ranking, annotated)"]
    best = in_words(run.reachable())
    return [*lines, f"  best    {best}"] if best else lines
