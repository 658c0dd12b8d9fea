"""The floors of both packages, and what breaks their rule: imports point down only, never from core to study."""

import ast
from pathlib import Path

import xmr_core

ROOT = Path(xmr_core.__file__).resolve().parents[1]
# lowest first; a room is a folder with its files. A room may import any room of a lower floor, none of its own
FLOORS = (
    {"xmr_core/base"},
    {"xmr_core/features", "xmr_core/heads", "xmr_core/losses", "xmr_core/similarities"},
    {"xmr_core/encoders", "xmr_core/data/readers"},
    {"xmr_core/methods", "xmr_core/data/scenes", "xmr_core/evaluation"},
    {"xmr_core/data"},
    {"xmr_core/evaluation/analysis", "xmr_core/training"},
    {"xmr_core/training/runs"},
    {"xmr_core/models"},
    {"xmr_core/retrieval"},
    {"xmr_core"},
    {"xmr_study/claims", "xmr_study/paper_tables", "xmr_study/plots"},
    {"xmr_study/explorer"},
    {"xmr_study"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
NO_TORCH = {
    "xmr_core/evaluation/metrics.py", "xmr_core/evaluation/stats.py",
    "xmr_core/base/paths.py", "xmr_core/base/errors.py", "xmr_study/paper_tables/dive.py",
}  # fmt: skip
FRONT_END = {"matplotlib", "seaborn", "ipywidgets", "IPython", "papermill", "nbclient", "nbformat", "jupyter_client"}


def package_files() -> dict[str, str]:
    """Path below the repository → source, of both packages."""
    files = sorted(p for package in ("xmr_core", "xmr_study") for p in (ROOT / package).rglob("*.py"))
    return {p.relative_to(ROOT).as_posix(): p.read_text() for p in files}


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
    """The folder of a file; similarities/kernels belongs to the room around it."""
    return Path(path).parent.as_posix().removesuffix("/kernels")


def room_imported(name: str, files: set[str]) -> str | None:
    """The room that 'xmr_core.data.readers.official.load_coco' leads to, or None when there is no such module."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        stem = "/".join(parts[:end])
        for file in (f"{stem}.py", f"{stem}/__init__.py"):
            if file in files:
                return room_of(file) if end > 1 or len(parts) <= 2 else None
    return None


def faults(files: dict[str, str]) -> list[str]:
    """What is wrong with files given as {path: source}."""
    out, known = [], set(package_files()) | set(files)
    for path, source in files.items():
        room = room_of(path)
        if room not in FLOOR:
            out.append(f"{path}: give the room {room!r} a floor")
            continue
        for name in imports(source):
            top = name.split(".")[0]
            if top in ("xmr_core", "xmr_study"):
                other = room_imported(name, known)
                if other is None or other not in FLOOR:
                    out.append(f"{path}: imports {name}, which is in no room")
                elif name in ("xmr_core", "xmr_core.__version__") or other == room:
                    continue
                elif FLOOR[other] >= FLOOR[room]:
                    out.append(f"{path}: imports {name}, {'sideways' if FLOOR[other] == FLOOR[room] else 'upward'}")
            elif top == "torch" and path in NO_TORCH:
                out.append(f"{path}: imports torch")
            elif top in FRONT_END and path.startswith("xmr_core/"):
                out.append(f"{path}: imports {top}")
    return out
