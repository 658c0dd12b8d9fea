"""Queries to look at, and every benchmark number of a run beside the exhaustive truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import UInt8

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.types import Corpus, Relevance
from xmr_core.data.corpora import corpus_of
from xmr_core.data.readers.assembly import ZETAS
from xmr_core.data.scenes.corpus import scenes_plausible
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.evaluate import evaluate_scores
from xmr_core.evaluation.ranks import Scoring, best
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.ensemble import scores_of
from xmr_core.training.runs.folder import TrainedRun
from xmr_study.analysis import agreement_of_benchmarks, false_negative_rate, per_query_values

COLUMNS = ["query", "rank", "item", "score", "mark"]


def disputed(runs: Mapping[str, TrainedRun], direction: str, n: int) -> list[int]:
    """Positions in the test split of the first n queries whose first answer is right for some methods and wrong for
    others, by the annotated pairs, one of each image; where there are fewer, others of theirs, then the first of all.

    runs: label → a run on the same corpus. direction: 'i2t' or 't2i'. Raises: BadInput for another direction.
    """
    require_choice("direction", direction, ("i2t", "t2i"))
    first = {}
    for label, run in runs.items():
        own = run.per_query[(run.per_query["relevance"] == "annotated") & (run.per_query["direction"] == direction)]
        first[label] = own["R@1"].to_numpy()
    table = pd.DataFrame(first)
    apart = table.nunique(axis=1).to_numpy() > 1
    again = pd.DataFrame({"apart": apart, "image": own["image"].to_numpy()}).duplicated().to_numpy()
    return np.lexsort((again, ~apart))[:n].tolist()


def top(run: TrainedRun, direction: str, queries: list[int], k: int = 5) -> pd.DataFrame:
    """The k best items of each query, best first: columns query and item (positions in the test split), rank, score,
    mark: 'annotated' for a pair of the corpus; 'true' for one that only the corpus's complete truth ('exhaustive')
    knows, where it has one; else 'wrong'.

    Raises: BadInput for k < 1 or another direction.
    """
    require_choice("direction", direction, ("i2t", "t2i"))
    method, prepared = run.method(), run.prepared()
    split = prepared.splits["test"]
    images, captions = encode_split(method, split)
    kinds = prepared.corpus.relevance_sets
    every = kinds["exhaustive"]("test") if "exhaustive" in kinds else split.relevance
    chosen = torch.tensor(queries)
    pair = (images[chosen], captions) if direction == "i2t" else (images, captions[chosen])
    values, items = best(Scoring(method.similarity, *pair), k, "images" if direction == "i2t" else "captions")
    lines = []
    for query, scores, answers in zip(queries, values, items, strict=True):
        for rank, (score, item) in enumerate(zip(scores.tolist(), answers.tolist(), strict=True), 1):
            image, caption = (query, item) if direction == "i2t" else (item, query)
            own, true = image in split.relevance[caption], image in every[caption]
            lines.append((query, rank, item, score, "annotated" if own else "true" if true else "wrong"))
    return pd.DataFrame(lines, columns=COLUMNS)


def first_errors(run: TrainedRun, direction: str, n: int) -> pd.DataFrame:
    """Of the first n queries of the test split whose first answer is wrong, by the complete truth where the corpus
    knows it: two lines each, the first answer and the best annotated one; columns as of `top`.

    Raises: BadInput for another direction.
    """
    require_choice("direction", direction, ("i2t", "t2i"))
    kinds = set(run.per_query["relevance"])
    kind = "exhaustive" if "exhaustive" in kinds else "annotated"
    own = run.per_query[(run.per_query["relevance"] == kind) & (run.per_query["direction"] == direction)]
    queries = np.flatnonzero(own["R@1"].to_numpy() == 0)[:n].tolist()
    if not queries:
        return pd.DataFrame(columns=COLUMNS)
    relevance = run.prepared().splits["test"].relevance
    every = top(run, direction, queries, len(relevance.query_ids if direction == "i2t" else relevance.gallery_ids))
    right = every[every["mark"] == "annotated"].groupby("query").head(1)
    return pd.concat([every[every["rank"] == 1], right]).sort_values(["query", "rank"], ignore_index=True)


def canvases(corpus: Corpus, rows: Sequence[int]) -> list[UInt8[np.ndarray, "h w 3"]]:
    """What looks at images can be drawn on: the pictures at `rows` of the corpus; for features without pictures, a
    white sheet as large as the boxes of the regions reach.

    Raises: BadInput for a corpus that has neither images nor boxes.

    >>> from xmr_core.data.corpora import from_arrays
    >>> canvases(from_arrays(np.zeros((10, 36, 4)), ["a dog", "two cats"] * 5), [0])
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: arrays has neither images nor boxes of its regions, so that...
    """
    if corpus.read_pixels is not None:
        return list(corpus.read_pixels(np.asarray(rows)))
    if corpus.boxes is None:
        raise BadInput(
            f"{corpus.name} has neither images nor boxes of its regions, so that attention cannot be drawn; "
            "add its boxes (docs/data.md#data-precomputed) or take another data set."
        )
    if corpus.about.get("boxes") == "relative":
        return [np.full((240, 320, 3), 255, np.uint8) for _ in rows]
    corners = [np.ceil(np.asarray(corpus.boxes[row])[:, 2:].max(0)).astype(int) for row in rows]
    return [np.full((height, width, 3), 255, np.uint8) for width, height in corners]


# Every benchmark number of a run beside the exhaustive truth, which notebook ambiguity_benchmarks compares.


TRUTH = "R-P exhaustive"
_ANNOTATED = [f"{name} annotated" for name in ("R@1", "R@5", "R@10", "RSUM", "R-P", "mAP@R")]
BENCHMARKS = (*_ANNOTATED, *(f"PMRP ζ={z}" for z in ZETAS), "PMRP")
POOLED = ("R-P pooled", "mAP@R pooled")
_COLUMNS = {"R@1": "R@1", "R@5": "R@5", "R@10": "R@10", "R-P": "r_precision", "mAP@R": "map_at_r"}


def check_benchmarks(config: RunConfig, labels: Sequence[str]) -> None:
    """Refuse, before anything is trained, what the comparison could not say afterwards.

    Raises: BadInput for fewer than three methods, of which no order can be compared, or a corpus whose truth is not
    known exhaustively.

    >>> from xmr_core.training.runs.config import base_config
    >>> check_benchmarks(base_config("dive", device="cpu", size="tiny"), ["DivE"])
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: an order of methods needs at least 3 of them, got DivE.
    """
    if len(labels) < 3:
        raise BadInput(f"an order of methods needs at least 3 of them, got {', '.join(labels) or 'none'}.")
    corpus = corpus_of(config.data)
    if "exhaustive" not in corpus.relevance_sets:
        raise BadInput(f"{corpus.name} does not know all right answers; use the corpus scenes.")


@dataclass(frozen=True)
class Benchmarks:
    """false_negative_rate: of xmr_study.analysis. values: name → percent, mean of both directions (RSUM: of 600), for
    BENCHMARKS, TRUTH and, with a pool, POOLED. queries: the same per query (no RSUM). rows: PMRP and false negatives,
    for Evaluated.with_metrics."""

    false_negative_rate: pd.DataFrame
    values: dict[str, float]
    queries: pd.DataFrame
    rows: pd.DataFrame


def pooled(scorings: Sequence[Scoring], corpus: Corpus, k: int = 5) -> Relevance:
    """The pairs that people would find who judge answers and make no mistake: the annotated ones, and of the k best
    answers of each scoring to every query of either direction those that are true. scorings: of runs (scoring_of) on
    the test split of a corpus that check_benchmarks accepts.
    Source: Chun et al., ECCV 2022 (ECCV Caption), who asked people about five models.
    """
    annotated, true = (corpus.relevance_sets[kind]("test") for kind in ("annotated", "exhaustive"))
    found = [(annotated.queries, annotated.indices)]
    for scoring in scorings:
        captions, images = (best(scoring, k, modality)[1] for modality in ("images", "captions"))
        rows = [np.repeat(np.arange(len(answers)), answers.shape[1]) for answers in (captions, images)]
        found += [(captions.ravel(), rows[0]), (rows[1], images.ravel())]
    query, gallery = map(np.concatenate, zip(*found, strict=True))
    n = len(true.gallery_ids)
    right = np.isin(query * n + gallery, true.queries * n + true.indices)
    return Relevance.from_positions(query[right], gallery[right], annotated.query_ids, annotated.gallery_ids)


def pool_bias(labels: Sequence[str], scorings: Sequence[Scoring], corpus: Corpus, k: int = 5) -> pd.DataFrame:
    """mAP@R (percent, the mean of both directions and of a label's scorings) by pools of k answers: of the label
    itself, of one other (the mean over which), of all others, and of all. Index label. scorings, corpus: as for
    `pooled`."""
    every, lines = pooled(scorings, corpus, k), {}
    single = {str(n): pooled([scoring], corpus, k) for n, scoring in enumerate(scorings)}
    for label in dict.fromkeys(labels):
        own, others = ({str(n): s for n, s in enumerate(scorings) if (labels[n] == label) == i} for i in (True, False))
        pools = {"own": pooled([*own.values()], corpus, k), "all others": pooled([*others.values()], corpus, k)}
        pools |= {"all": every, **{n: single[n] for n in others}}
        tables = [evaluate_scores(scoring, pools).per_query for scoring in own.values()]
        by_pool = pd.concat(tables).groupby(["relevance", "direction"])["map_at_r"].mean()
        value = 100 * by_pool.groupby("relevance").mean()
        lines[label] = {"own": value["own"], "one other": value[[*others]].mean(), **value[["all others", "all"]]}
    return pd.DataFrame(lines).T.rename_axis("answers judged", axis=1)


def benchmark_run(run: TrainedRun, pool: Relevance | None = None) -> Benchmarks:
    """Evaluate a finished run, on a corpus that check_benchmarks accepts, by annotated pairs, plausible matches, the
    exhaustive truth and, if given, a pool of judged answers (`pooled`), which adds POOLED. PMRP on scenes takes the set
    of shapes in an image for COCO's object labels (scenes_plausible).
    """
    corpus = run.prepared().corpus
    relevance_sets = {kind: corpus.relevance_sets[kind]("test") for kind in ("annotated", "exhaustive")}
    relevance_sets |= {f"plausible {z}": scenes_plausible(corpus, "test", z) for z in ZETAS}
    relevance_sets |= {"pooled": pool} if pool is not None else {}
    scores = scores_of(run)
    evaluation = evaluate_scores(scores, relevance_sets)
    sources = {f"{name} annotated": ("annotated", column) for name, column in _COLUMNS.items()}
    sources |= {f"PMRP ζ={z}": (f"plausible {z}", "r_precision") for z in ZETAS}
    judged = zip(POOLED, [("pooled", "r_precision"), ("pooled", "map_at_r")], strict=True)
    sources |= dict(judged) if pool is not None else {}
    sources[TRUTH] = ("exhaustive", "r_precision")
    queries = per_query_values(evaluation.per_query, sources)
    queries["PMRP"] = queries[[f"PMRP ζ={z}" for z in ZETAS]].mean(axis=1)
    values = (100 * queries.groupby("direction")[[*sources, "PMRP"]].mean()).mean().to_dict()
    values["RSUM annotated"] = 2 * sum(values[f"R@{k} annotated"] for k in (1, 5, 10))
    summary = evaluation.summary()
    pmrp = summary[summary["relevance"].str.startswith("plausible") & (summary["metric"] == "r_precision")]
    wrong = false_negative_rate(scores, relevance_sets["annotated"], relevance_sets["exhaustive"])
    share = wrong.assign(relevance="exhaustive", metric="punished_though_right", n_queries=0)
    share["value"] = wrong["of these right"] / 100
    rows = pd.concat([pmrp, share[list(pmrp)]], ignore_index=True)
    return Benchmarks(wrong, values, queries, rows)


def compared_benchmarks(labels: Sequence[str], evaluated: Sequence[Benchmarks]) -> pd.DataFrame:
    """How far each benchmark orders methods (labels, a run each or several), and the queries of a method (the mean over
    runs), as the truth does: Kendall's τ, 1 for the same order. Index benchmark, columns tau of methods, tau of queries
    (NaN for RSUM, which is of all queries together); the highest first.
    """
    names = [name for name in (*BENCHMARKS, *POOLED) if name in evaluated[0].values]
    values = pd.DataFrame([b.values for b in evaluated]).groupby(np.array(labels), sort=False).mean()
    own = [agreement_of_benchmarks(b.queries, TRUTH, [n for n in names if n in b.queries]) for b in evaluated]
    methods = agreement_of_benchmarks(values, TRUTH, names).set_index("benchmark")["tau"]
    queries = pd.concat(own).groupby("benchmark")["tau"].mean()
    return pd.DataFrame({"tau of methods": methods, "tau of queries": queries}).loc[methods.index]
