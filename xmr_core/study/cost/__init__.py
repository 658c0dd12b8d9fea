"""What a method costs when it scores: multiply–adds by formula, seconds and memory by measurement, and how both
grow."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        **dict.fromkeys(("FORMULAS", "Shape", "count", "implied_words", "table"), "flops"),
        **dict.fromkeys(
            ("Case", "joined", "of_one_machine", "plan", "read", "run_case", "study_rows", "table_of", "write"),
            "sweeps",
        ),
        **dict.fromkeys(("Exponent", "beside_print", "exponents", "fit_exponent", "speeds", "verdicts"), "tables"),
        **dict.fromkeys(("TIMED", "Scene", "Timing", "measure", "scene"), "timing"),
    },
)
