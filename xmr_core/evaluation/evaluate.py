"""One scoring, all metrics: both directions, several kinds of relevance, any protocol; and what an evaluation holds."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from xmr_core.base.types import Corpus, Relevance, Representation
from xmr_core.evaluation import metrics
from xmr_core.evaluation.metrics import FULL, KS, Protocol
from xmr_core.evaluation.ranks import MatrixScores, RankQuery, Scores, Scoring, checked_k, ranks
from xmr_core.evaluation.stats import bootstrap_interval


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
        raise BadInput(f"scores must be a table of numbers, queries × gallery; got {scores.shape} of {scores.dtype}.")
    return scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)


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


@as_a_run()
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
    scores = scores if isinstance(scores, Scores) else MatrixScores(score_table(scores))
    own = next(iter(relevances.values()), None) if isinstance(relevances, Mapping) else None
    if not isinstance(own, Relevance) or scores.shape != (len(own.gallery_ids), len(own.query_ids)):
        raise BadInput(
            f"{scores.shape[0]} × {scores.shape[1]} scores (images × captions) need a mapping to a Relevance of as "
            "many: {'annotated': Relevance.from_pairs(pairs, caption_ids, image_ids)}."
        )
    image_of = np.full(len(own), -1)
    image_of[own.counts == 1] = own.indices[own.indptr[:-1][own.counts == 1]]
    tables, dropped = [], {}
    for fold, (i, t) in enumerate(protocol.folds(scores.shape[0], image_of)):
        questions = [
            q for kind, relevance in relevances.items() for q in _questions(kind, relevance, own, i, t, image_of)
        ]
        complete = len(i) == scores.shape[0] and len(t) == scores.shape[1]
        answers = ranks(scores if complete else scores.part(i, t), [question for *_, question in questions], done)
        for (kind, direction, without, image, question), query_ranks in zip(questions, answers.ranks, strict=True):
            dropped[kind, direction] = dropped.get((kind, direction), 0) + without
            columns = {
                "relevance": kind,
                "direction": direction,
                "fold": fold,
                "query": question.relevance.query_ids,
                "image": image,
                "n_relevant": question.relevance.counts,
                "first_rank": metrics.first_rank(query_ranks),
                "r_precision": metrics.r_precision(query_ranks),
                "map_at_r": metrics.map_at_r(query_ranks),
            }
            tables.append(pd.DataFrame(columns | {f"R@{k}": metrics.recall_at_k(query_ranks, k) for k in KS}))
    return Evaluation(pd.concat(tables, ignore_index=True), dropped, protocol)


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
        if len(np.unique(grade)) > 1:
            value = kendalltau(scores.pairs(i[valid], t[valid]), grade, variant="c").statistic
            rows.append((kind, "both", "kendall_tau_c", 0, float(value), int(valid.sum())))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


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
    ks: Sequence[int] = KS,
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
    relevant = _relevance(relevance, matrix.shape, query_ids, gallery_ids)
    queries = np.flatnonzero(relevant.counts)
    if not len(queries):
        raise BadInput(f"none of the {len(relevant):,} queries has a relevant item; query_ids name the rows of scores.")
    question = RankQuery(relevant.restrict(queries, np.arange(matrix.shape[1])), "images", queries)
    ranked = ranks(MatrixScores(matrix), [question]).ranks[0]
    return {
        **{f"R@{k}": float(metrics.recall_at_k(ranked, k).mean()) for k in map(checked_k, ks)},
        "R-Precision": float(metrics.r_precision(ranked).mean()),
        "mAP@R": float(metrics.map_at_r(ranked).mean()),
        "median rank": metrics.median_rank(ranked),
        "mean rank": metrics.mean_rank(ranked),
        "queries": len(queries),
        "dropped": len(relevant) - len(queries),
    }


def _relevance(relevance: RelevantItems, shape: tuple[int, int], *ids: Sequence | None) -> Relevance:
    if isinstance(relevance, Tensor):
        relevance = relevance.detach().cpu().to_dense().numpy()
    table = isinstance(relevance, np.ndarray) or sparse.issparse(relevance)
    if table or isinstance(relevance, Relevance):
        sizes = relevance.shape if table else (len(relevance), len(relevance.gallery_ids))
        if tuple(sizes) != shape:
            turned = " One of the two is transposed: rows of both are queries." * (tuple(sizes) == shape[::-1])
            sizes = " × ".join(map(str, sizes))
            raise BadInput(
                f"a relevance of queries × items {sizes} does not fit scores of {shape[0]} × {shape[1]}.{turned}"
            )
        if not table:
            return relevance
        cells = relevance.tocoo() if sparse.issparse(relevance) else relevance
        if not np.isin(cells.data if sparse.issparse(cells) else cells, (0, 1)).all():
            raise BadInput(
                "a relevance matrix may hold only True and False, or 1 and 0; threshold graded values first."
            )
        query, item = cells.nonzero()
    else:
        query, item = _pairs(relevance, shape, ids)
    return Relevance.from_positions(query, item, np.arange(shape[0]), np.arange(shape[1]))


def _pairs(relevance: object, shape: tuple[int, int], ids: Sequence) -> tuple[list[int], list[int]]:
    """Positions of queries and items from a list of lists, or from a dictionary of positions, names or grades."""
    mapping = isinstance(relevance, Mapping)
    named = any(names is not None for names in ids)
    named = named or (mapping and any(isinstance(items, Mapping) for items in relevance.values()))
    places = [
        {name: place for place, name in enumerate(range(n) if names is None else names)}
        for names, n in zip(ids, shape, strict=True)
    ]
    lists = [] if mapping else list(relevance)
    if tuple(map(len, places)) != shape or (not mapping and (named or len(lists) != shape[0])):
        raise BadInput(
            f"scores of {shape[0]} × {shape[1]} need a list of relevant items for each row, or a dictionary, for which "
            "query_ids and gallery_ids name each row and column once."
        )
    relevance = relevance if mapping else dict(enumerate(lists))
    out = []
    for query, items in relevance.items():
        for item in _items(items):
            if query in places[0] and item in places[1] and not isinstance(item, bool):
                out.append((places[0][query], places[1][item]))
            elif not named:
                raise BadInput(
                    f"queries and items are given by their positions in scores of {shape[0]} × {shape[1]}; got query "
                    f"{query!r} with item {item!r}."
                )
    return [query for query, _ in out], [item for _, item in out]


def _items(items: object) -> list:
    """The relevant items of one query: of a mapping those with a grade above 0; a single name or number is one item."""
    if isinstance(items, Mapping):
        return [item for item, grade in items.items() if grade > 0]
    items = items.tolist() if isinstance(items, np.ndarray | np.generic | Tensor) else items
    return list(items) if isinstance(items, Iterable) and not isinstance(items, str | bytes) else [items]


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
class Provenance:
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
class Evaluated:
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
    parts = [
        (100 * table[f"R@{k}"].to_numpy(), table["image"].to_numpy())
        for _, table in own.groupby("direction")
        for k in KS
    ]
    return bootstrap_interval(parts, level)
