"""From scores to numbers: ranks, metrics, protocols and statistics. Definitions: docs/evaluation.md.

A finished table of scores, one direction:   rank_metrics(scores, relevance)
Both directions, several relevance sets:     evaluate_scores(scores, relevances), evaluate(similarity, images, …)
"""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        **dict.fromkeys(("Evaluation", "evaluate", "evaluate_scores"), "evaluate"),
        "rank_metrics": "rank_table",
        **dict.fromkeys(
            ("first_rank", "map_at_r", "mean_rank", "median_rank", "precision_at_k", "r_precision", "recall_at_k"),
            "metrics",
        ),
        **dict.fromkeys(("PROTOCOLS", "Protocol", "get_protocol"), "protocols"),
        **dict.fromkeys(("bootstrap_interval", "decided", "holm", "paired_permutation", "seed_interval"), "stats"),
        **dict.fromkeys(("ZeroShot", "zero_shot_scores"), "zero_shot"),
        **dict.fromkeys(("analysis", "engine", "metrics", "protocols", "stats"), ""),
    },
)
