"""The study: presets, variants, tables of results, the verdicts of today, and what the papers print.

Notebooks and reports are made of these; nothing here trains or scores anything itself.
"""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        **dict.fromkeys(("base_config", "config_from", "seeds", "PRESETS"), "presets"),
        **dict.fromkeys(("run", "Runs", "within_test"), "runs"),
        **dict.fromkeys(("comparison", "ablation", "label_of", "sweep_configs", "variant_configs"), "variants"),
        **dict.fromkeys(("run_table", "seed_means", "ensemble_runs", "verdict"), "tables"),
        **dict.fromkeys(("ledger", "compared"), "claims"),
        **dict.fromkeys(("epochs_to", "negatives_in_training"), "adaptive"),
        **dict.fromkeys(("results", "paper_tables", "claims", "cost"), ""),
    },
)
