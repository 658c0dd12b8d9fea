"""Every benchmark number of a run beside the exhaustive truth, which notebook ambiguity_benchmarks compares."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.data.corpora import corpus_of
from xmr_core.data.readers.relevance import ZETAS
from xmr_core.data.scenes import scenes_plausible
from xmr_core.evaluation.analysis.ambiguity import per_query_values, punished
from xmr_core.evaluation.evaluate import evaluate_scores
from xmr_core.training.runs import RunConfig, TrainedRun
from xmr_core.training.runs.ensemble import scores_of

TRUTH = "R-P exhaustive"
_ANNOTATED = [f"{name} annotated" for name in ("R@1", "R@5", "R@10", "RSUM", "R-P", "mAP@R")]
BENCHMARKS = (*_ANNOTATED, *(f"PMRP ζ={z}" for z in ZETAS), "PMRP")
_COLUMNS = {"R@1": "R@1", "R@5": "R@5", "R@10": "R@10", "R-P": "r_precision", "mAP@R": "map_at_r"}


def check_benchmarks(config: RunConfig, labels: Sequence[str]) -> None:
    """Refuse, before anything is trained, what the comparison could not say afterwards.

    Raises: BadInput for fewer than three methods, of which no order can be compared, or a corpus whose truth is not
    known exhaustively.

    >>> from xmr_core.study.presets import base_config
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
    """punished: analysis.ambiguity.punished. values: name → percent, mean of both directions (RSUM: of 600), for
    BENCHMARKS and TRUTH. queries: the same per query (no RSUM). rows: PMRP and punished shares, for
    Evaluated.with_metrics."""

    punished: pd.DataFrame
    values: dict[str, float]
    queries: pd.DataFrame
    rows: pd.DataFrame


def benchmark_run(run: TrainedRun) -> Benchmarks:
    """Evaluate a finished run, on a corpus that check_benchmarks accepts, by annotated pairs, plausible matches and the
    exhaustive truth. PMRP on scenes takes the set of shapes in an image for COCO's object labels (scenes_plausible).
    """
    corpus = run.prepared().corpus
    relevance_sets = {kind: corpus.relevance_sets[kind]("test") for kind in ("annotated", "exhaustive")}
    relevance_sets |= {f"plausible {z}": scenes_plausible(corpus, "test", z) for z in ZETAS}
    scores = scores_of(run)
    evaluation = evaluate_scores(scores, relevance_sets)
    sources = {f"{name} annotated": ("annotated", column) for name, column in _COLUMNS.items()}
    sources |= {f"PMRP ζ={z}": (f"plausible {z}", "r_precision") for z in ZETAS}
    sources[TRUTH] = ("exhaustive", "r_precision")
    queries = per_query_values(evaluation.per_query, sources)
    queries["PMRP"] = queries[[f"PMRP ζ={z}" for z in ZETAS]].mean(axis=1)
    values = (100 * queries.groupby("direction")[[*sources, "PMRP"]].mean()).mean().to_dict()
    values["RSUM annotated"] = 2 * sum(values[f"R@{k} annotated"] for k in (1, 5, 10))
    summary = evaluation.summary()
    pmrp = summary[summary["relevance"].str.startswith("plausible") & (summary["metric"] == "r_precision")]
    wrong = punished(scores, relevance_sets["annotated"], relevance_sets["exhaustive"])
    share = wrong.assign(relevance="exhaustive", metric="punished_though_right", n_queries=0)
    share["value"] = wrong["of these right"] / 100
    rows = pd.concat([pmrp, share[list(pmrp)]], ignore_index=True)
    return Benchmarks(wrong, values, queries, rows)
