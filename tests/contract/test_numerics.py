"""Numbers change only together with a version: nobody is given the finished run of other numbers."""

import numpy as np
import pytest
import record_numbers
from record_numbers import STAGES, expected, of_method, of_stage

from xmr_core.methods.registry import papers
from xmr_core.training.runs import config

FORMS = [(method, form) for method, spec in papers().items() for form in spec.forms]
AGAIN = "record the new numbers: python tests/record_numbers.py"
pytestmark = pytest.mark.usefixtures("own_home")


def check(name: str, now: dict, remedy: str) -> None:
    """now: {'versions', 'numbers'}. Processors differ in the last bits, so numbers may differ by a thousandth."""
    assert name in expected(), f"there are no numbers of {name}; {AGAIN}"
    recorded, other = expected()[name], f"numbers of {name} were recorded with other versions; {AGAIN}"
    meant = f"numbers of {name} changed and no version did. If that was meant, raise {remedy}; then {AGAIN}"
    assert len(now["numbers"]) == len(recorded["numbers"])
    same = np.allclose(now["numbers"], recorded["numbers"], rtol=1e-3, atol=1e-6)
    assert same, meant if recorded["versions"] == now["versions"] else other


@pytest.mark.slow
@pytest.mark.parametrize(("method", "form"), FORMS)
def test_numbers_of_a_method_belong_to_its_version(method, form):
    remedy = f"`version` in the spec of {method}, or, where several changed, the stage in training/runs/config.py"
    check(f"{method} {form}", of_method(method, form), remedy)


@pytest.mark.parametrize("stage", STAGES)
def test_numbers_of_a_stage_belong_to_its_version(stage):
    check(stage, of_stage(stage), f"{stage!r} in training/runs/config.py (of an extractor: `version` in its class)")


def test_a_forgotten_version_is_named(monkeypatch):
    real = record_numbers._evaluation()
    monkeypatch.setitem(record_numbers._MEASURES, "evaluation", lambda: [*real[:-1], real[-1] * 1.01])
    with pytest.raises(AssertionError, match="raise 'evaluation'"):
        test_numbers_of_a_stage_belong_to_its_version("evaluation")
    monkeypatch.setitem(config.STAGES, "evaluation", 99)
    with pytest.raises(AssertionError, match="other versions"):
        test_numbers_of_a_stage_belong_to_its_version("evaluation")
