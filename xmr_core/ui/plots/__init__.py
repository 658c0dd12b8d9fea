"""Figures from tables: a DataFrame in, a matplotlib Figure out, all in one style for comparison."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        **dict.fromkeys(("budget_grid", "budgets"), "budgets"),
        "ledger": "claims",
        **dict.fromkeys(("counted_and_timed", "scaling"), "cost"),
        **dict.fromkeys(("element_maps", "elements", "spread_over_training"), "elements"),
        **dict.fromkeys(
            ("answers", "cells", "element_cosines", "gallery", "slot_attention", "word_attention"), "images"
        ),
        **dict.fromkeys(("ablation", "learning_curves", "variants"), "sweeps"),
        **dict.fromkeys(
            ("against_truth", "agreement", "ambiguity", "corruption", "distances", "recall_by_bin"), "uncertainty"
        ),
    },
)
