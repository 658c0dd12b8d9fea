"""Figures from tables: a DataFrame in, a matplotlib Figure out, all in one style for comparison."""

from xmr_core.base.extras import require
from xmr_core.base.lazy import catalogue

require("a figure", "notebooks", "matplotlib", "seaborn")

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        **dict.fromkeys(("caption_answers", "image_answers"), "ranked_answers"),
        **dict.fromkeys(("budget_grid", "budgets"), "budgets"),
        "ledger": "claims",
        **dict.fromkeys(("counted_and_timed", "scaling"), "cost"),
        **dict.fromkeys(("beside_print", "curves", "over_distance", "regions", "shares", "trade"), "distributions"),
        **dict.fromkeys(("element_maps", "elements", "spread_over_training"), "elements"),
        **dict.fromkeys(("gallery", "slot_attention", "word_attention"), "images"),
        **dict.fromkeys(("convergence", "negatives", "score_maps"), "objectives"),
        **dict.fromkeys(("ambiguity_curves", "budget_curves", "pareto"), "trade_offs"),
        "palette_png": "palette",
        "rank_weights": "pooling",
        "word_weights": "words",
        **dict.fromkeys(("ends_of_scale", "with_answers", "with_texts"), "examples"),
        "region_attention": "region_maps",
        **dict.fromkeys(("ablation", "learning_curves", "variants"), "sweeps"),
        **dict.fromkeys(("associations", "diagram", "matrices"), "toys"),
        **dict.fromkeys(
            ("against_truth", "agreement", "ambiguity", "corruption", "distances", "recall_by_bin"), "uncertainty"
        ),
    },
)
