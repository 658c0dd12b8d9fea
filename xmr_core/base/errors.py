"""Errors that a user can act on, one line that says what was given and what to do; the checks of option values, with
one wording for all of them; and packages that only some tasks need."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib.util import find_spec
from numbers import Integral, Real
from typing import get_args

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?", re.S)


def printable(text: object) -> str:
    r"""A text of others for a terminal or a figure: escape sequences are removed, other control characters, marks that
    turn the direction of writing, and bytes that are no text become '�'. Line ends stay.

    >>> printable("a \x1b[31mred\x1b[0m dog\x07")
    'a red dog�'
    """
    plain = _ESCAPES.sub("", str(text))
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in plain)


class XmrError(Exception):
    """Base of every error this package raises on purpose; its text is one line meant for a person, and printable."""

    def __str__(self) -> str:
        return printable(super().__str__())


class BadInput(XmrError, ValueError):
    """A value, name or file that was given is not usable; the text says what was given and what to do."""


class DamagedFile(XmrError, OSError):
    """A file exists but does not hold what was written to it (truncated, altered, of another kind)."""


class CannotWrite(XmrError, OSError):
    """The output folder refuses the write (full, read-only, not a folder)."""


class TrainingFailed(XmrError, RuntimeError):
    """Training diverged or collapsed; the text says at which step and what to change."""


class Interrupted(TrainingFailed):
    """The process that trained is gone, by no fault of the training; asked for again, it continues."""


_LISTED = 24  # of more names than this only the nearest are said


def unknown(kind: str, value: object, choices, where: str = "") -> BadInput:
    """The error for a name that is not in a list: it repeats the name, suggests the nearest and lists the others, or,
    of many, the nearest few. where: all of them, in words.

    >>> print(unknown("method", "scna", ["scan", "dive"]))
    unknown method 'scna'. Did you mean 'scan'? Known: dive, scan.
    >>> print(unknown("method", "vsepp", ["pvse", "vse++"]))
    unknown method 'vsepp'. Did you mean 'vse++'? Known: pvse, vse++.
    >>> print(unknown("fine_tune", "none", ["", "image"]))
    unknown fine_tune 'none'. Known: '', image.
    """
    import difflib

    names = sorted(str(choice) or "''" for choice in choices)
    plain = [re.sub(r"[\W_]", "", str(name).lower().replace("+", "p")) for name in (*names, value)]
    near = difflib.get_close_matches(plain.pop(), plain, n=1, cutoff=0.5)
    hint = f" Did you mean {names[plain.index(near[0])]!r}?" if near else ""
    listing = f"Known: {', '.join(names)}."
    if len(names) > _LISTED:
        close = ", ".join(difflib.get_close_matches(str(value), names, n=5, cutoff=0.0))
        listing = f"{len(names)} are known, the nearest {close}{f'; all are {where}' if where else ''}."
    return BadInput(f"unknown {kind} {value!r}.{hint} {listing}")


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


LARGEST = 1e12  # of any number that is given: larger ones only overflow
LARGEST_SEED = 2**63 - 1  # that torch and numpy both take


def require_number(
    name: str, value: object, low: float = -math.inf, above: float = -math.inf, hint: str = "", most: float = LARGEST
) -> None:
    """Raise BadInput unless value is a finite real number, at least `low`, more than `above`, at most `most`."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not max(low, -LARGEST) <= value <= most or value <= above:
        bound = f" above {above:g}" if above > -math.inf else f" of at least {low:g}" if low > -math.inf else ""
        bound += f" and at most {most:g}" if most < LARGEST else ""
        raise BadInput(f"{name} must be a finite number{bound}, got {_shown(value)}. {hint}".rstrip())


def checked_index(index: int, n: int) -> int:
    """An index counted from the front. Raises: IndexError outside n items, by which Python's loops notice the end.

    >>> checked_index(-1, 5)
    4
    """
    if not -n <= index < n:
        raise IndexError(f"index {index} of {n} items")
    return int(index) % n


def require_flag(name: str, value: object) -> None:
    """Raise BadInput unless value is True or False."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be True or False, got {value!r}.")


def require_choice(name: str, value: object, choices: Iterable[str], where: str = "") -> None:
    """Raise BadInput, with the nearest known word, unless value is one of the known ones."""
    if value not in (choices := tuple(choices)):
        raise unknown(name, value, choices, where)


def require_fields(
    values: object, limits: Mapping[str, tuple[float, float]], choices: Mapping[str, Iterable[str]]
) -> None:
    """Check every field of a dataclass of plain values: its declared type, its limits (both included) and its choices.

    Numbers become Python's own of the declared type, so that 2, 2.0 and numpy's 2 name the same run. A list stands for
    a field of several types. Raises: BadInput with all faults in one line.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Mine:
    ...     epochs: int = 0
    ...     unit: str = "imges"
    >>> require_fields(Mine(), {"epochs": (1, 1000)}, {"unit": ("images", "captions")})
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: epochs must be a number from 1 to 1000, got 0. unknown unit ...
    """
    faults = []
    for f in fields(values):
        value, kinds = getattr(values, f.name), get_args(f.type) or (f.type,)
        if not set(kinds) <= {int, float, str, bool, type(None)}:
            continue
        try:
            _require_field(f.name, value, kinds, limits.get(f.name, _NO_LIMITS))
            if isinstance(value, Real) and not isinstance(value, bool):
                object.__setattr__(values, f.name, float(value) if float in kinds else int(value))
            if f.name in choices:
                require_choice(f.name, value, choices[f.name])
        except BadInput as e:
            faults.append(str(e))
    if faults:
        raise BadInput(" ".join(faults))


_NO_LIMITS = (-math.inf, math.inf)
_ACCEPTED = {int: Integral, float: Real}  # numbers of numpy count, too


def _require_field(name: str, value: object, kinds: tuple, limits: tuple[float, float]) -> None:
    accepted = tuple(_ACCEPTED.get(kind, kind) for kind in kinds)
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join("nothing" if kind is type(None) else kind.__name__ for kind in kinds)
        raise BadInput(f"{name} must be of type {wanted}, got {_shown(value)}.")
    if isinstance(value, Real) and not isinstance(value, bool):
        low, high = limits
        if not math.isfinite(value) or not low <= value <= high:
            raise BadInput(f"{name} must be a number from {low:g} to {high:g}, got {_shown(value)}.")


def _shown(value: object) -> str:
    return text if len(text := repr(value)) < 60 else f"{text[:57]}…"
