"""The study's notebooks as files: those of the checkout, or those that the wheel carries."""

import argparse
from pathlib import Path

from xmr_core.base import files
from xmr_core.base.errors import BadInput

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_notebooks() -> list[Path]:
    """The notebooks, in alphabetical order: of `notebooks/` beside the package, or of the installed wheel.

    Raises: BadInput where there are none.

    >>> "train.ipynb" in [path.name for path in shipped_notebooks()]
    True
    """
    beside = _PACKAGE.parent
    folder = beside / "notebooks" if (beside / "pyproject.toml").exists() else _PACKAGE / "notebooks"
    if not (notebooks := sorted(folder.glob("*.ipynb"))):
        raise BadInput(f"{folder} holds no notebooks. Install the package again.")
    return notebooks


def copy_notebooks(target: Path | str) -> list[Path]:
    """Copy the notebooks into a folder, which is created. A file that is already there is not replaced.

    Returns: the files that were written. Raises: BadInput for a path that is a file; CannotWrite.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(copy_notebooks(folder)) > 20, len(copy_notebooks(folder))
    (True, 0)
    """
    target = Path(target).expanduser()
    if target.is_file():
        raise BadInput(f"{target} is a file. Give a folder.")
    files.make_folder(target)
    new = [path for path in shipped_notebooks() if not (target / path.name).exists()]
    for path in new:
        files.write_atomic(target / path.name, path.read_bytes())
    return [target / path.name for path in new]


def notebooks(arguments: argparse.Namespace) -> int:
    """Run `notebooks`. Returns 0."""
    new, n = copy_notebooks(arguments.folder), len(shipped_notebooks())
    left = f"; {n - len(new)} were there already and stay as they are" if len(new) < n else ""
    print(f"{arguments.folder}: {len(new)} notebooks{left}")
    print(f"xmr run {Path(arguments.folder) / 'train.ipynb'}  (or open the folder in JupyterLab)")
    return 0
