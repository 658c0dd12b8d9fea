"""Golden cases, and single outputs of cases, that no test compares, each with the reason.

A key is "group/case" or "group/case:out.name"; * stands for anything. tests/test_golden_cases.py fails for a stored case
that is neither compared nor listed here, tests/conftest.py for an output, and both for an entry that is out of date.
"""

_NO_ORDER = "scores are equal and the authors' sort is not stable; the test compares the worst and the best possible ranks"

NOT_COMPARED = {
    **{f"evaluation/recall_N30_ties:out.{name}": _NO_ORDER for name in (
        "i2t", "t2i", "ranks_i2t", "ranks_t2i", "rsum", "top1_i2t", "top1_t2i",
    )},
}  # fmt: skip
