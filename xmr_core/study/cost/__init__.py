"""What a pair of items costs when it is scored: multiply–adds by formula, and what measured rows say (those of
benchmarks/cost.py)."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        **dict.fromkeys(("FORMULAS", "Shape", "count", "table"), "flops"),
        **dict.fromkeys(("COLUMNS", "of_one_machine", "read", "study_rows"), "sweeps"),
        **dict.fromkeys(("Exponent", "beside_print", "exponents", "fit_exponent", "speeds", "verdicts"), "tables"),
    },
)
