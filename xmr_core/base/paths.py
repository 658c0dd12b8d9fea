"""Where runs, caches and outputs live."""

import os
from pathlib import Path

# Code that is not moved yet finds these functions here; new code imports base.files and base.fingerprint.
from xmr_core.base.files import (  # noqa: F401
    cannot_write,
    existing,
    make_folder,
    read_json,
    read_sealed,
    write_atomic,
    write_json,
    write_sealed,
)
from xmr_core.base.files import warn_rebuilt as say_rebuilt  # noqa: F401
from xmr_core.base.fingerprint import content_hash, file_hash  # noqa: F401


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
