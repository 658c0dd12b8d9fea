"""Packages that only some tasks need, in the extras of pyproject.toml: a missing one is named before it is imported."""

from importlib.util import find_spec

from xmr_core.base.errors import BadInput


def require(task: str, extra: str, *packages: str) -> None:
    """Check that packages can be imported, without importing them.

    task: what needs them, in words. extra: of pyproject.toml, which installs them.
    Raises: BadInput that names the first missing package and the command that installs it.

    >>> require("counting", "notebooks", "json")
    >>> require("a figure", "notebooks", "no_such_package")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: a figure needs no_such_package: pip install 'xmr-study[notebooks]'.
    """
    for package in packages:
        if not _installed(package):
            raise BadInput(f"{task} needs {package}: pip install 'xmr-study[{extra}]'.")


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # ValueError: hidden, or imported without a spec
        return False
