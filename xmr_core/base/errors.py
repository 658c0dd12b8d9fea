"""Errors that a user can act on, one line that says what was given and what to do; and packages that only some tasks
need."""

from importlib.util import find_spec


class XmrError(Exception):
    """Base of every error this package raises on purpose; its text is one line meant for a person."""


class BadInput(XmrError, ValueError):
    """A value, name or file that was given is not usable; the text says what was given and what to do."""


class DamagedFile(XmrError, OSError):
    """A file exists but does not hold what was written to it (truncated, altered, of another kind)."""


class CannotWrite(XmrError, OSError):
    """The output folder refuses the write (full, read-only, not a folder)."""


class TrainingFailed(XmrError, RuntimeError):
    """Training diverged or collapsed; the text says at which step and what to change."""


def unknown(kind: str, value: object, choices) -> BadInput:
    """The error for a name that is not in a list: it repeats the name, suggests the nearest and lists the others.

    >>> print(unknown("method", "scna", ["scan", "dive"]))
    unknown method 'scna'. Did you mean 'scan'? Known: dive, scan.
    >>> print(unknown("fine_tune", "none", ["", "image"]))
    unknown fine_tune 'none'. Known: '', image.
    """
    import difflib

    names = sorted(str(choice) or "''" for choice in choices)
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return BadInput(f"unknown {kind} {value!r}.{hint} Known: {', '.join(names)}.")


# Packages that only some tasks need, in the extras of pyproject.toml: a missing one is named before it is imported.


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
        try:
            installed = find_spec(package) is not None
        except (ImportError, ValueError):  # ValueError: hidden, or imported without a spec
            installed = False
        if not installed:
            raise BadInput(f"{task} needs {package}: pip install 'xmr-study[{extra}]'.")
