"""Numbers that a claim needs and an evaluation does not give: which function measures them in a finished run."""

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

import pandas as pd

from xmr_core.base.errors import unknown
from xmr_core.study.claims_data.claim import Claim
from xmr_core.training.runs import TrainedRun

# Name of a metric → "module:function". The function takes a TrainedRun and returns rows for its metrics table
# (Evaluated.with_metrics). A function may give several metrics and is called once for a run.
MEASURES: dict[str, str] = {
    "spearman_uncertainty_r1": "xmr_core.study._measures.gaussian:uncertainty",
    "spearman_uncertainty_answers": "xmr_core.study._measures.gaussian:uncertainty",
    "r_precision_gain_of_sampling": "xmr_core.study._measures.gaussian:sampling",
    "saf_content_weight": "xmr_core.study._measures.sgraf:content_weight",
    "log_circular_variance": "xmr_core.study._measures.sets:variances",
    "rsum_of_weakest_element": "xmr_core.study._measures.sets:elements",
    "rsum_first": "xmr_core.study._measures.sets:prefixes",
    "same_slot_share": "xmr_core.study._measures.sets:neighbours",
    "attention_overlap_gain": "xmr_core.study._measures.sets:attention",
    "attention_overlap_over_others": "xmr_core.study._measures.sets:attention",
    "attention_entropy_fall": "xmr_core.study._measures.sets:attention",
    "rsum_after_a_tenth": "xmr_core.study._measures.convergence:convergence",
    "negatives_fall": "xmr_core.study._measures.convergence:negatives",
    "negatives_below_5": "xmr_core.study._measures.convergence:negatives",
    "r_precision_of_means": "xmr_core.study._measures.gaussian:means",
    "r_precision_gain_of_kl": "xmr_core.study._measures.gaussian:divergences",
    "r_precision_gain_of_kl_official": "xmr_core.study._measures.gaussian:divergences",
    "r_precision_of_samples": "xmr_core.study._measures.gaussian:drawn",
    "r_precision_gain_of_samples": "xmr_core.study._measures.gaussian:drawn",
    "least_gain_of_samples": "xmr_core.study._measures.gaussian:drawn",
    "mean_log_std": "xmr_core.study._measures.gaussian:widths",
    "uncertainty_rise": "xmr_core.study._measures.gaussian:corruption",
    "selective_gain_over_margin": "xmr_core.study._measures.selective:selective",
    "selective_gain_over_entropy": "xmr_core.study._measures.selective:selective",
    "inclusion_by_erasing": "xmr_core.study._measures.gaussian:algebra",
    "intersection_by_mixing": "xmr_core.study._measures.gaussian:algebra",
    "mean_r1": "xmr_core.study._measures.means:both_directions",
    "mean_r_precision": "xmr_core.study._measures.means:both_directions",
    "pmrp": "xmr_core.study._measures.means:plausible",
}


def measuring(metrics: set[str]) -> list[Callable[[TrainedRun], pd.DataFrame]]:
    """The functions that give these metrics, each once; metrics that every evaluation gives need none.

    >>> [function.__name__ for function in measuring({"rsum", "spearman_uncertainty_r1"})]
    ['uncertainty']
    """
    return [_function(address) for address in dict.fromkeys(MEASURES[m] for m in sorted(metrics) if m in MEASURES)]


def measured(run: TrainedRun, labels: Sequence[str], claims: Iterable[Claim]) -> TrainedRun:
    """The run with the metrics that some claim about one of its labels needs.

    A function that gives no row at all says that this corpus cannot answer (it does not know its objects, say).
    Raises: BadInput where a function gave rows, and none of a metric that MEASURES promises of it, or of its error.
    """
    about = {c.measure.metric for c in claims if not {*labels}.isdisjoint((*c.above, *c.below))}
    for function in measuring(about):
        rows = function(run)
        promised = {metric for metric, address in MEASURES.items() if _function(address) is function}
        if len(rows) and not set(rows["metric"].str.removesuffix("_error")) & promised:
            raise unknown(f"metric measured by {function.__name__}", ", ".join(sorted(promised)), set(rows["metric"]))
        run = run.with_metrics(rows)
    return run


def _function(address: str) -> Callable[[TrainedRun], pd.DataFrame]:
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)
