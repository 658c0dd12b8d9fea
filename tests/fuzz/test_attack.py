"""A share of the attack with every run of the tests; `python -m tests.fuzz` is all of it."""

import os
import random
from collections import defaultdict

import pytest

from .others import fuzz_cases, odd_files
from .outcomes import GOOD, Case, outcome_of, outcomes, table
from .values import value_cases


def some(cases: list[Case], each: int) -> list[Case]:
    """The same few cases of every face in every run."""
    by_face, rng = defaultdict(list), random.Random(0)
    for case in cases:
        by_face[case.face].append(case)
    return [case for own in by_face.values() for case in rng.sample(own, min(each, len(own)))]


def test_wrong_values_are_refused_in_one_line():
    bad = [(c.name, o) for c in some(value_cases(), 60) if (o := outcome_of(c)) not in GOOD]
    assert not bad, bad


def test_a_judge_that_sees_nothing_would_be_noticed(tmp_path):
    """Each class of bad outcome is recognised: an error that nobody foresaw, a silent acceptance, a crash."""
    cases = [
        Case("x", "traceback", lambda: 1 / 0),
        Case("x", "silent", lambda: "SILENT: accepted"),
        Case("x", "crash", lambda: os.kill(os.getpid(), 9)),
        Case("x", "good", lambda: "tolerated"),
    ]
    results = [outcome for _, outcome in outcomes(cases)]
    assert results[0].startswith("TRACEBACK") and results[1].startswith("SILENT") and results[2].startswith("CRASH")
    assert results[3] == "tolerated" and "| x | 4 | 0 | 1 | 0 | 0 | 3 |" in table(zip(cases, results, strict=True))


@pytest.mark.slow
def test_doors_lead_nowhere_else(tmp_path, own_home):
    from .doors import door_cases

    bad = [(c.face, c.name, o) for c, o in outcomes(door_cases(tmp_path, 60, seed=1)) if o not in GOOD]
    assert not bad, bad


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["files", "flips"])
def test_odd_and_damaged_files_end_in_a_clear_error_or_have_no_effect(kind, tmp_path, own_home, monkeypatch):
    from .flips import flip_cases

    monkeypatch.setenv("PYTHONPATH", "")
    files = lambda: [*some(odd_files(tmp_path), 60), *fuzz_cases(tmp_path, 160, seed=1)]  # noqa: E731
    results = outcomes(files() if kind == "files" else flip_cases(tmp_path, 1))
    bad = [(case.face, case.name, outcome) for case, outcome in results if outcome not in GOOD]
    assert len(results) > 20 and not bad, bad


@pytest.mark.slow
def test_a_killed_cache_ends_as_if_nothing_had_happened(tmp_path):
    from .kills import kill_all

    tally = kill_all(tmp_path, {"cache": 3})["cache"]
    assert tally.kills == 3 and not tally.different
