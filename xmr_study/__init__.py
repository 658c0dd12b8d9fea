"""The study: variants, tables of results, the verdicts of today, and what the papers print.

Notebooks and reports are made of these. `from xmr_study import notebook, plots` is what a notebook begins with.
"""

from xmr_core.training.runs.config import PRESETS, base_config
from xmr_study import cost, paper_tables, tidy
from xmr_study.ledger import beside, compared, in_words, ledger, reached, show_verdicts, swept
from xmr_study.measures import epochs_to, negatives_in_training
from xmr_study.records import results
from xmr_study.runs import Runs, ensemble_runs, run, run_table, seed_means, verdict, within_test
from xmr_study.variants import ablation, comparison, config_from, label_of, seeds, variant_configs

__all__ = [
    "PRESETS", "Runs", "ablation", "base_config", "beside", "compared", "comparison", "config_from", "cost",
    "ensemble_runs", "epochs_to", "in_words", "label_of", "ledger", "negatives_in_training", "paper_tables", "reached",
    "results", "run", "run_table", "seed_means", "seeds", "show_verdicts", "swept", "tidy", "variant_configs",
    "verdict", "within_test",
]  # fmt: skip
