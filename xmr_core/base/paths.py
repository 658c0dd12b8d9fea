"""Where runs, caches and outputs live."""

import os
from pathlib import Path

from xmr_core.base.files import make_folder


def root() -> Path:
    """The folder that holds `runs/`, `cache/` and `outputs/`.

    It is `$XMR_HOME` when that is set; else the checkout this package was imported from (recognised by the
    `pyproject.toml` beside the package); else the current folder. A notebook therefore finds the same runs from
    JupyterLab, papermill and pytest, whose current folders differ.
    """
    if home := os.environ.get("XMR_HOME"):
        return Path(home).expanduser().resolve()
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "pyproject.toml").exists() else Path.cwd()


def folder(kind: str) -> Path:
    """`root()/kind`, created. kind: 'runs', 'cache' or 'outputs'. Raises: CannotWrite when it cannot be created."""
    return make_folder(root() / kind)
