"""Figures from tables: a DataFrame in, a matplotlib Figure out, all in one style for comparison."""

from xmr_core.base.errors import require

require("a figure", "notebooks", "matplotlib", "seaborn")

from xmr_study.plots.distributions import (
    against_truth, agreement, ambiguity, beside_print, corruption, curves, distances, over_distance, recall_by_bin,
    regions, shares, trade,
)  # fmt: skip
from xmr_study.plots.elements import element_maps, elements, rank_weights, spread_over_training
from xmr_study.plots.images import (
    caption_answers, ends_of_scale, gallery, image_answers, region_attention, slot_attention, with_answers,
    with_texts, word_attention, word_weights,
)  # fmt: skip
from xmr_study.plots.objectives import ablation, convergence, learning_curves, negatives, score_maps, variants
from xmr_study.plots.results import (
    budgets, counted_and_timed, ledger, levels, pareto, scaling,
    scoreboard, slopes,
)  # fmt: skip
from xmr_study.plots.style import palette_png
from xmr_study.plots.toys import associations, diagram, matrices

__all__ = [
    "ablation", "against_truth", "agreement", "ambiguity", "associations", "beside_print",
    "budgets", "caption_answers", "convergence", "corruption", "counted_and_timed",
    "curves", "diagram", "distances", "element_maps", "elements", "ends_of_scale", "gallery", "image_answers",
    "learning_curves", "ledger", "levels", "matrices", "negatives", "over_distance", "palette_png", "pareto",
    "rank_weights", "recall_by_bin", "region_attention", "regions", "scaling", "score_maps", "scoreboard", "shares",
    "slopes", "slot_attention", "spread_over_training", "trade", "variants", "with_answers", "with_texts",
    "word_attention", "word_weights",
]  # fmt: skip
