"""Imports point down only, in both packages, and the core never imports the study. A rule without a test is a wish."""

import ast

import pytest
from layout import FLOOR, faults, package_files, room_of


def test_every_import_points_down():
    files = package_files()
    assert {"xmr_core/base/types.py", "xmr_core/methods/dive.py", "xmr_study/cli.py"} <= set(files)
    assert not faults(files)


def test_no_floor_lists_a_room_that_is_gone():
    assert set(FLOOR) == {room_of(path) for path in package_files()}


@pytest.mark.parametrize(
    ("path", "source", "fault"),
    [
        ("xmr_core/losses/new.py", "from xmr_core.methods.registry import build", "upward"),
        ("xmr_core/losses/new.py", "from xmr_core.heads.slots import SlotHead", "sideways"),
        ("xmr_core/training/loop.py", "def f():\n    import xmr_study.cli", "upward"),
        ("xmr_core/cli.py", "from xmr_study.notebook import start", "upward"),
        ("xmr_core/evaluation/metrics.py", "import torch.nn", "torch"),
        ("xmr_core/retrieval/new.py", "from IPython.display import display", "IPython"),
        ("xmr_core/losses/new.py", "from xmr_core.utils import helper", "no room"),
        ("xmr_core/utils/new.py", "", "give the room"),
    ],
)
def test_a_made_up_fault_is_found(path, source, fault):
    found = faults({path: source})
    assert len(found) == 1 and fault in found[0]


def test_what_is_allowed_is_not_a_fault():
    allowed = "import torch\nfrom xmr_core.base import paths\nfrom xmr_core.losses.scores import x\nimport xmr_core"
    study = "import matplotlib\nfrom xmr_core import __version__\nfrom xmr_core.methods.registry import build"
    assert not faults({"xmr_core/losses/new.py": allowed, "xmr_study/plots/x.py": study})


MAY_NAME_A_DEVICE = {
    "xmr_core/base/machine.py",  # which there are, and whose products torch makes faster and coarser
    "xmr_core/evaluation/ranks.py",  # which have no float64
}


def named_devices(files: dict[str, str]) -> list[str]:
    """Files with a string or attribute that names an accelerator."""
    names = ("cuda", "mps", "xpu")
    found = set()
    for path, source in files.items():
        for node in ast.walk(ast.parse(source)):
            word = node.value if isinstance(node, ast.Constant) else getattr(node, "attr", None)
            if isinstance(word, str) and word.split(":")[0] in names:
                found.add(path)
    return sorted(found)


def test_no_code_names_a_device():
    assert set(named_devices(package_files())) == MAY_NAME_A_DEVICE
    made = {"a.py": "x.to('cuda:0')", "b.py": "x.cuda()", "c.py": "torch.ones(2, device=x.device)"}
    assert named_devices(made) == ["a.py", "b.py"]
