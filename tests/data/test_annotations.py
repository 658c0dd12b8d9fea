"""The shapes in annotations are those that run: a reader may believe them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOMS = "similarities", "heads", "losses", "encoders", "base", "methods", "evaluation"
# Tests that compute; those that hand in wrong shapes to see them refused would be refused by the checker first.
FILES = {
    "test_similarities.py": "equals_the_loop or blocks_equal",
    "test_chan.py": "every_form_of_chan_equals_the_loop or settings",
    "test_heads.py": "padding_has_no_say or elements_are_unit",
    "test_losses.py": "loop or gradient or ignore",
    "test_encoders.py": "equation or padding or dropped",
    "test_methods.py": "take_a_step",
    "test_rank_metrics.py": "every_form_of_relevance",
    "test_pcmepp.py": "mixed",
    "test_nested.py": "",
}


WRONG = """
import torch
from xmr_core.losses.regularisers import gram_diversity
def test_wrong():
    gram_diversity(torch.zeros(2, 3))
"""


@pytest.mark.slow
def test_what_is_annotated_is_what_runs_and_a_wrong_shape_fails(tmp_path):
    (tmp_path / "test_wrong.py").write_text(WRONG)
    words = [f"({file.removesuffix('.py')} and ({words}))" if words else file.removesuffix(".py")
             for file, words in FILES.items()]  # fmt: skip
    hook = "--jaxtyping-packages=" + ",".join(f"xmr_core.{room}" for room in ROOMS) + ",shape_checks.checked"
    files = [str(next(TESTS.rglob(file))) for file in FILES] + [str(tmp_path / "test_wrong.py")]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", hook]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    command += ["-k", " or ".join([*words, "test_wrong"]), *files]
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True)
    assert re.search(r"\b1 failed, \d{3} passed", done.stdout), done.stdout[-2000:]
    assert "TypeCheckError" in done.stdout and "def test_wrong" in done.stdout
