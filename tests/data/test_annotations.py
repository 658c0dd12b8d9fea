"""The shapes in annotations are those that run: a reader may believe them."""

import os
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


def checked(*words: str, rooms=ROOMS) -> subprocess.CompletedProcess:
    hook = "--jaxtyping-packages=" + ",".join(f"xmr_core.{room}" for room in rooms) + ",shape_checks.checked"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-x", hook, *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    return subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_what_is_annotated_is_what_runs(half):
    files = list(FILES.items())[half::2]
    words = " or ".join(f"({file.removesuffix('.py')} and ({words}))" if words else file.removesuffix(".py")
                        for file, words in files)  # fmt: skip
    done = checked("-m", "not slow", "-k", words, *(str(next(TESTS.rglob(file))) for file, _ in files))
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.slow
def test_a_wrong_annotation_fails(tmp_path):
    wrong = tmp_path / "test_wrong.py"
    wrong.write_text(
        "import torch\n"
        "from xmr_core.losses.regularisers import gram_diversity\n"
        "def test():\n"
        "    gram_diversity(torch.zeros(2, 3))\n"
    )
    assert "TypeCheckError" in checked(str(wrong), rooms=["losses"]).stdout
