"""The study: presets, variants, tables of results, the verdicts of today, and what the papers print.

Notebooks and reports are made of these; nothing here trains or scores anything itself.
"""

from xmr_study.cost import (
    COLUMNS,
    FORMULAS,
    Exponent,
    Shape,
    beside_print,
    count,
    exponents,
    fit_exponent,
    of_one_machine,
    read,
    speeds,
    study_rows,
    table,
    verdicts,
)
from xmr_study.ledger import compared, ledger
from xmr_study.measures import epochs_to, negatives_in_training
from xmr_study.notebook import answer, check_parameters, finish, output_folder
from xmr_study.parameters import Parameter, Parameters, checked_value, declared_parameters, parse_parameters
from xmr_study.running import given_parameters, kernel_environment, own_kernel, run_notebook
from xmr_study.runs import Runs, ensemble_runs, run, run_table, seed_means, verdict, within_test
from xmr_study.variants import ablation, comparison, label_of, sweep_configs, variant_configs

__all__ = [
    "COLUMNS",
    "FORMULAS",
    "Exponent",
    "Parameter",
    "Parameters",
    "Runs",
    "Shape",
    "ablation",
    "answer",
    "beside_print",
    "check_parameters",
    "checked_value",
    "compared",
    "comparison",
    "count",
    "declared_parameters",
    "ensemble_runs",
    "epochs_to",
    "exponents",
    "finish",
    "fit_exponent",
    "given_parameters",
    "kernel_environment",
    "label_of",
    "ledger",
    "negatives_in_training",
    "of_one_machine",
    "output_folder",
    "own_kernel",
    "parse_parameters",
    "read",
    "run",
    "run_notebook",
    "run_table",
    "seed_means",
    "speeds",
    "study_rows",
    "sweep_configs",
    "table",
    "variant_configs",
    "verdict",
    "verdicts",
    "within_test",
]
