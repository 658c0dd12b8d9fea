"""What a method costs when it scores: multiply–adds by formula, seconds and memory by measurement, and how both grow."""

from xmr_core.study.cost.exponent import Exponent, fit_exponent
from xmr_core.study.cost.flops import FORMULAS, Shape, count, implied_words, table
from xmr_core.study.cost.sweeps import Case, joined, of_one_machine, plan, read, run_case, study_rows, table_of, write
from xmr_core.study.cost.tables import beside_print, exponents, speeds, verdicts
from xmr_core.study.cost.timing import TIMED, Scene, Timing, measure, scene

__all__ = [
    "FORMULAS", "TIMED", "Case", "Exponent", "Scene", "Shape", "Timing", "beside_print", "count", "exponents", "fit_exponent", "implied_words", "joined",
    "measure", "of_one_machine", "plan", "read", "run_case", "scene", "speeds", "study_rows", "table", "table_of", "verdicts", "write",
]  # fmt: skip
