"""From scores to numbers: ranks, metrics, protocols and statistics. Definitions: docs/evaluation.md.

A finished table of scores, one direction:   rank_metrics(scores, relevance)
Both directions, one or several relevances:  evaluate_scores(scores, relevance), evaluate(similarity, images, …)
"""

from xmr_core.evaluation.evaluate import Evaluation, as_relevance, evaluate, evaluate_scores, rank_metrics
from xmr_core.evaluation.metrics import (
    PROTOCOLS, Protocol, average_precision, discounted_gain, first_rank, get_protocol, map_at_r, mean_rank,
    median_rank, precision_at_k, r_precision, recall_at_k, reciprocal_rank,
)  # fmt: skip
from xmr_core.evaluation.ranks import RankQuery, best, ranks
from xmr_core.evaluation.ranks import MeanScores, Scoring
from xmr_core.evaluation.stats import bootstrap_interval, decided, holm, paired_permutation, seed_interval

__all__ = [
    "PROTOCOLS", "Evaluation", "MeanScores", "Protocol", "RankQuery", "Scoring", "as_relevance", "average_precision",
    "best", "bootstrap_interval", "decided", "discounted_gain", "evaluate", "evaluate_scores", "first_rank",
    "get_protocol", "holm", "map_at_r", "mean_rank", "median_rank", "paired_permutation", "precision_at_k",
    "r_precision", "rank_metrics", "ranks", "recall_at_k", "reciprocal_rank", "seed_interval",
]  # fmt: skip
