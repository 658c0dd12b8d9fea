"""Recall and precision as one number for both directions, and plausible matches."""

import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.data.plausible import plausible_sets
from xmr_core.evaluation.analysis.both_directions import mean_rows
from xmr_core.evaluation.evaluate import evaluate_scores
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.training.runs import TrainedRun
from xmr_core.training.runs.ensemble import scoring_of


def both_directions(run: TrainedRun) -> pd.DataFrame:
    """R@1 and R-Precision, each the mean of both directions, for every relevance set."""
    return mean_rows(run.per_query, {"mean_r1": "R@1", "mean_r_precision": "r_precision"})


def plausible(run: TrainedRun) -> pd.DataFrame:
    """PMRP: R-Precision of plausible matches, the mean over ζ = 0, 1, 2 and both directions.

    On scenes a set of shapes takes the place of COCO's object categories; no row for a corpus without categories.
    """
    corpus = run.prepared().corpus
    try:
        sets = plausible_sets(corpus)
    except BadInput:
        return pd.DataFrame(columns=METRIC_COLUMNS)
    relevances = {"annotated": corpus.relevance_sets["annotated"]("test"), **sets}
    per_query = evaluate_scores(scoring_of(run), relevances).per_query
    own = per_query[per_query["relevance"] != "annotated"]
    mean = own.groupby(["direction", "query", "image"], sort=False, as_index=False)["r_precision"].mean()
    return mean_rows(mean.assign(relevance="plausible"), {"pmrp": "r_precision"})
