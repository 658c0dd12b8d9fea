"""Imports point down only. A rule without a test is a wish."""

import ast
from pathlib import Path

import pytest

import xmr_core

PACKAGE = Path(xmr_core.__file__).parent
# lowest first; a room is a folder with its files. A room may import any room of a lower floor, none of its own
FLOORS = (
    {"base"},
    {"data/features", "data/images", "data/text", "heads", "losses", "similarities"},
    {"data/readers", "encoders", "evaluation/engine"},
    {"data/scenes", "evaluation", "methods"},
    {"data", "methods/checkpoints", "study/cost", "study/paper_tables"},
    {"evaluation/analysis", "training", "ui/plots"},
    {"training/runs"},
    {"search", "study"},
    {"ui", "ui/widgets"},
    {"."},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
NO_TORCH = {
    "evaluation/metrics.py", "evaluation/stats.py", "evaluation/protocols.py", "base/paths.py", "base/errors.py",
    "study/paper_tables/dive.py",
}  # fmt: skip
FRONT_END = {"matplotlib", "seaborn", "ipywidgets", "IPython", "papermill", "nbclient", "nbformat", "jupyter_client"}
MAY_SHOW = {"ui", "ui/plots", "ui/widgets"}
ROOT = {
    "base",
    "data",
    "encoders",
    "heads",
    "losses",
    "similarities",
    "methods",
    "evaluation",
    "training",
    "study",
    "search",
    "ui",
}


def imports(source: str) -> list[str]:
    """Dotted names a file imports, anywhere in it; 'from xmr_core.base import paths' gives 'xmr_core.base.paths'."""
    out = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            out += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import: write xmr_core.… in full"
            out += [f"{node.module}.{alias.name}" for alias in node.names]
    return out


def room_of(path: str) -> str:
    """The folder of a file of the package: 'data/readers' of 'data/readers/coco.py'. A private folder belongs to the
    one around it.
    """
    folder = Path(path).parent
    return (folder.parent if folder.name.startswith("_") else folder).as_posix()


def room_imported(name: str, files: set[str]) -> str | None:
    """The room that 'xmr_core.data.readers.coco.load_coco' leads to, or None when there is no such module."""
    parts = name.split(".")[1:]
    for end in range(len(parts), -1, -1):
        stem = "/".join(parts[:end])
        for file in (f"{stem}.py", f"{stem}/__init__.py" if stem else "__init__.py"):
            if file in files:
                return room_of(file) if end or len(parts) <= 1 else None
    return None


def faults(files: dict[str, str]) -> list[str]:
    """What is wrong with files given as {path below the package: source}."""
    out, known = [], set(package_files()) | set(files)
    for path, source in files.items():
        room = room_of(path)
        if room not in FLOOR:
            out.append(f"{path}: give the room {room!r} a floor")
            continue
        for name in imports(source):
            top = name.split(".")[0]
            if top == "xmr_core":
                other = room_imported(name, known)
                if (
                    other is None
                    or other not in FLOOR
                    or (other == "." and "__version__" not in name and name != "xmr_core")
                ):
                    out.append(f"{path}: imports {name}, which is in no room")
                elif other not in (room, ".") and FLOOR[other] >= FLOOR[room]:
                    out.append(f"{path}: imports {name}, {'sideways' if FLOOR[other] == FLOOR[room] else 'upward'}")
            elif top == "torch" and path in NO_TORCH:
                out.append(f"{path}: imports torch")
            elif top in FRONT_END and room not in MAY_SHOW:
                out.append(f"{path}: imports {top}")
    return out


def package_files() -> dict[str, str]:
    return {p.relative_to(PACKAGE).as_posix(): p.read_text() for p in sorted(PACKAGE.rglob("*.py"))}


def test_every_import_points_down():
    files = package_files()
    assert {"base/types.py", "methods/dive.py", "ui/cli.py"} <= set(files), "the package was not found"
    assert not faults(files)


def test_no_floor_lists_a_room_that_is_gone():
    assert set(FLOOR) == {room_of(path) for path in package_files()}
    assert len(FLOORS) <= 10 and len(FLOOR) <= 30


def test_the_root_shows_its_stages_and_nothing_else():
    names = {Path(path).parts[0].removesuffix(".py") for path in package_files()} - {"__init__", "__main__"}
    assert names == ROOT and 8 <= len(names) <= 12


@pytest.mark.parametrize(
    ("path", "source", "fault"),
    [
        ("losses/new.py", "from xmr_core.methods.registry import build", "upward"),
        ("losses/new.py", "from xmr_core.heads.slots import SlotHead", "sideways"),
        ("losses/new.py", "from xmr_core.evaluation import stats", "upward"),
        ("training/loop.py", "def f():\n    import xmr_core.ui.cli", "upward"),
        ("evaluation/metrics.py", "import torch.nn", "torch"),
        ("training/runs/new.py", "from IPython.display import display", "IPython"),
        ("losses/new.py", "from xmr_core.utils import helper", "no room"),
        ("utils/new.py", "", "give the room"),
        ("losses/new.py", "from xmr_core import similarities", "sideways"),
    ],
)
def test_a_made_up_fault_is_found(path, source, fault):
    found = faults({path: source})
    assert len(found) == 1 and fault in found[0]


def test_what_is_allowed_is_not_a_fault():
    allowed = (
        "import torch\nfrom xmr_core.base import paths\n"
        "from xmr_core.losses.checks import x\nfrom xmr_core.base.types import Batch"
    )
    assert not faults(
        {"losses/new.py": allowed, "ui/plots/x.py": "import matplotlib", "ui/x.py": "from xmr_core import __version__"}
    )


def test_relative_imports_are_refused():
    with pytest.raises(AssertionError, match="relative"):
        faults({"losses/new.py": "from .checks import x"})


MAY_NAME_A_DEVICE = {
    "base/devices.py",  # which there are
    "evaluation/engine/precision.py",  # whose products torch makes faster and coarser
    "evaluation/engine/scoring.py",  # which have no float64
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
    assert named_devices({"a.py": "x.to('cuda:0')", "b.py": "x.cuda()", "c.py": "torch.ones(2, device=x.device)"}) == [
        "a.py",
        "b.py",
    ]
