"""Imports point down only. A rule without a test is a wish."""

import ast
from pathlib import Path

import pytest

import xmr_core

PACKAGE = Path(xmr_core.__file__).parent
FLOORS = (  # lowest first; a room may import any room of a lower floor, none of its own
    {"__init__", "errors", "numerics"},
    {"paths", "types", "relevance", "masked", "provenance"},
    {"data", "encoders", "heads", "similarities", "losses", "metrics", "stats", "protocols"},
    {"method", "recipe_parts", "retrieval"},
    {"recipes", "evaluate"},
    {"prepare", "train", "checkpoints"},
    {"analysis", "cost", "zero_shot"},
    {"runs"},
    {"presets", "results", "published"},
    {"study", "proxies", "explore", "claims"},
    {"search"},
    {"plots", "notebook"},
    {"widgets"},
    {"cli_search"},
    {"cli"},
    {"__main__"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
NO_TORCH = {"metrics", "stats", "protocols", "paths", "errors", "published"}
FRONT_END = {"matplotlib", "seaborn", "ipywidgets", "IPython", "papermill", "nbclient", "nbformat", "jupyter_client"}
MAY_SHOW = FLOORS[FLOOR["plots"]] | FLOORS[FLOOR["widgets"]] | FLOORS[FLOOR["cli"]]
MAX_LINES = 250


def imports(source: str) -> list[str]:
    """Dotted names a file imports, anywhere in it; 'from xmr_core import paths' gives 'xmr_core.paths'."""
    out = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            out += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import: write xmr_core.… in full"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            out += whole if node.module == "xmr_core" else [node.module]
    return out


def faults(files: dict[str, str]) -> list[str]:
    """What is wrong with files given as {path below the package: source}."""
    out = []
    for path, source in files.items():
        room = Path(path).parts[0].removesuffix(".py")
        if room not in FLOOR:
            out.append(f"{path}: give the room {room!r} a floor")
            continue
        for name in imports(source):
            top, *rest = name.split(".")
            if top == "xmr_core":
                other = rest[0] if rest and not rest[0].startswith("__version__") else "__init__"
                if other not in FLOOR:
                    out.append(f"{path}: imports {name}, which has no floor")
                elif other != room and FLOOR[other] >= FLOOR[room]:
                    out.append(f"{path}: imports {name}, {'sideways' if FLOOR[other] == FLOOR[room] else 'upward'}")
            elif top == "torch" and room in NO_TORCH:
                out.append(f"{path}: imports torch")
            elif top in FRONT_END and room not in MAY_SHOW:
                out.append(f"{path}: imports {top}")
    return out


def package_files() -> dict[str, str]:
    return {p.relative_to(PACKAGE).as_posix(): p.read_text() for p in sorted(PACKAGE.rglob("*.py"))}


def test_every_import_points_down():
    files = package_files()
    assert {"types.py", "recipes/dive.py", "cli.py"} <= set(files), "the package was not found"
    assert not faults(files)


def test_no_floor_lists_a_room_that_is_gone():
    assert set(FLOOR) == {Path(path).parts[0].removesuffix(".py") for path in package_files()}


def test_files_are_small():
    assert not {path: n for path, source in package_files().items() if (n := len(source.splitlines())) > MAX_LINES}


@pytest.mark.parametrize(
    ("path", "source", "fault"),
    [
        ("losses/new.py", "from xmr_core.recipes import build", "upward"),
        ("losses/new.py", "from xmr_core.heads.slots import SlotHead", "sideways"),
        ("losses/new.py", "from xmr_core import stats", "sideways"),
        ("train/loop.py", "def f():\n    import xmr_core.cli", "upward"),
        ("metrics.py", "import torch.nn", "torch"),
        ("runs/new.py", "from IPython.display import display", "IPython"),
        ("losses/new.py", "from xmr_core.utils import helper", "no floor"),
        ("utils.py", "", "give the room"),
    ],
)
def test_a_made_up_fault_is_found(path, source, fault):
    found = faults({path: source})
    assert len(found) == 1 and fault in found[0]


def test_what_is_allowed_is_not_a_fault():
    allowed = "import torch\nfrom xmr_core import paths\nfrom xmr_core.losses.checks import x\nfrom xmr_core.types import Batch"
    assert not faults({"losses/new.py": allowed, "plots.py": "import matplotlib", "cli.py": "from xmr_core import __version__"})


def test_relative_imports_are_refused():
    with pytest.raises(AssertionError, match="relative"):
        faults({"losses/new.py": "from .checks import x"})


MAY_NAME_A_DEVICE = {"runs/config.py", "train/state.py", "provenance.py"}  # choosing one, its random state, what it was


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
    assert named_devices({"a.py": "x.to('cuda:0')", "b.py": "x.cuda()", "c.py": "torch.ones(2, device=x.device)"}) == ["a.py", "b.py"]
