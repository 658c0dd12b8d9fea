"""From scores to numbers: ranks, metrics, protocols and statistics. Definitions: docs/evaluation.md.

A finished table of scores, one direction:   rank_metrics(scores, relevance)
Both directions, several relevance sets:     evaluate_scores(scores, relevances), evaluate(similarity, images, …)
"""

from xmr_core.evaluation.evaluate import (
    Evaluation, evaluate, evaluate_corpus, evaluate_scores, judgment_agreement, rank_metrics,
)  # fmt: skip
from xmr_core.evaluation.metrics import (
    PROTOCOLS, Protocol, first_rank, get_protocol, map_at_r, mean_rank, median_rank, precision_at_k, r_precision,
    random_hit, random_rsum, recall_at_k,
)  # fmt: skip
from xmr_core.evaluation.ranks import Question, Ranked, best, checked_k, ranks, relevant_ranks, top_k
from xmr_core.evaluation.scoring import (
    MAX_ELEMENTS, MatrixScores, MeanScores, Scores, Scoring, as_matrix, score_matrix,
)  # fmt: skip
from xmr_core.evaluation.stats import bootstrap_interval, decided, holm, paired_permutation, seed_interval

__all__ = [
    "MAX_ELEMENTS", "PROTOCOLS", "Evaluation", "MatrixScores", "MeanScores", "Protocol", "Question", "Ranked",
    "Scores", "Scoring", "as_matrix", "best", "bootstrap_interval", "checked_k", "decided", "evaluate",
    "evaluate_corpus", "evaluate_scores", "first_rank", "get_protocol", "holm", "judgment_agreement", "map_at_r",
    "mean_rank", "median_rank", "paired_permutation", "precision_at_k", "r_precision", "random_hit", "random_rsum",
    "rank_metrics", "ranks", "recall_at_k", "relevant_ranks", "score_matrix", "seed_interval", "top_k",
]  # fmt: skip
