"""Checks of option values, with one wording for all of them."""

import math
from collections.abc import Iterable
from numbers import Real

from xmr_core.base.errors import BadInput, unknown


def require_number(name: str, value: object, low: float = -math.inf, above: float = -math.inf, hint: str = "") -> None:
    """Raise BadInput unless value is a finite real number, at least `low` and more than `above`."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < low or value <= above:
        kind = "a positive, finite number" if above == 0 else "a finite number"
        bound = (
            f" of at least {low:g}" if low > -math.inf else f" above {above:g}" if above not in (0, -math.inf) else ""
        )
        raise BadInput(f"{name} must be {kind}{bound}, got {value!r}.{' ' if hint else ''}{hint}")


def require_flag(name: str, value: object) -> None:
    """Raise BadInput unless value is True or False."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be True or False, got {value!r}.")


def require_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise BadInput, with the nearest known word, unless value is one of the known ones."""
    if value not in (choices := tuple(choices)):
        raise unknown(name, value, choices)
