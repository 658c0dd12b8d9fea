"""The study: presets, variants, tables of results, the ledger of claims, and what the papers print.

Notebooks and reports are made of these; nothing here trains or scores anything itself.
"""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "base_config": "presets",
        "config_from": "presets",
        "seeds": "presets",
        "PRESETS": "presets",
        "run": "runs",
        "Runs": "runs",
        "within_test": "runs",
        "comparison": "variants",
        "ablation": "variants",
        "label_of": "variants",
        "sweep_configs": "variants",
        "variant_configs": "variants",
        "run_table": "tables",
        "seed_means": "tables",
        "ensemble_runs": "tables",
        "verdict": "tables",
        "verdict_text": "tables",
        "CLAIMS": "claims",
        "ledger": "claims",
        "in_words": "claims",
        "epochs_to": "adaptive",
        "negatives_in_training": "adaptive",
        "results": "",
        "paper_tables": "",
        "claims": "",
        "cost": "",
    },
)
