"""Where runs, caches and outputs live."""

import os
from pathlib import Path

from xmr_core.base.errors import BadInput
from xmr_core.base.files import make_folder


def root() -> Path:
    """The folder that holds `runs/`, `cache/` and `outputs/`.

    It is `$XMR_HOME` when that is set; else the checkout this package was imported from (recognised by the
    `pyproject.toml` beside the package); else the current folder. A notebook therefore finds the same runs from
    JupyterLab, papermill and pytest, whose current folders differ. Raises: BadInput for the home of an unknown user.
    """
    if home := os.environ.get("XMR_HOME"):
        try:
            return Path(home).expanduser().resolve()
        except RuntimeError:  # no such user
            raise BadInput(f"XMR_HOME is {home}, and there is no such home folder. Give a full path.") from None
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "pyproject.toml").exists() else Path.cwd()


def folder(kind: str) -> Path:
    """`root()/kind`, created. kind: 'runs', 'cache' or 'outputs'. Raises: CannotWrite when it cannot be created."""
    return make_folder(root() / kind)
