"""Checks of option values, with one wording for all of them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import get_args

from xmr_core.base.errors import BadInput, unknown

LARGEST = 1e12  # of any number that is given: larger ones only overflow
LARGEST_SEED = 2**63 - 1  # that torch and numpy both take


def require_number(name: str, value: object, low: float = -math.inf, above: float = -math.inf, hint: str = "") -> None:
    """Raise BadInput unless value is a finite real number, at least `low` and more than `above`."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not max(low, -LARGEST) <= value <= LARGEST or value <= above:
        bound = f" above {above:g}" if above > -math.inf else f" of at least {low:g}" if low > -math.inf else ""
        raise BadInput(f"{name} must be a finite number{bound}, got {value!r}. {hint}".rstrip())


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


def require_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise BadInput, with the nearest known word, unless value is one of the known ones."""
    if value not in (choices := tuple(choices)):
        raise unknown(name, value, choices)


def require_fields(
    values: object, limits: Mapping[str, tuple[float, float]], choices: Mapping[str, Iterable[str]]
) -> None:
    """Check every field of a dataclass of plain values: its declared type, its limits (both included) and its choices.

    A list stands for a field of several types. Raises: BadInput with all faults in one line.

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
