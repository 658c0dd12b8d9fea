"""Shapes checked by jaxtyping. pytest
--jaxtyping-packages=xmr_core.heads,shape_checks.checked tests/unit/test_heads.py.

It checks annotations that name shapes and leaves the others alone, which allow less than Python does (a list where a
Sequence is meant, an int for a float).
"""

from typing import get_args

from beartype import beartype
from jaxtyping import AbstractArray


def checked(function):
    """The function, whose arguments and result must have the shapes and types of numbers that are annotated."""
    function.__annotations__ = {name: kind for name, kind in function.__annotations__.items() if _shaped(kind)}
    return beartype(function)


def _shaped(kind: object) -> bool:
    is_array = isinstance(kind, type) and issubclass(kind, AbstractArray)
    return is_array or any(_shaped(part) for part in get_args(kind))
