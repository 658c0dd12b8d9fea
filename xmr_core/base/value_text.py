"""Plain values as text that differs where they do."""

import types
from collections.abc import Mapping
from functools import partial

import numpy as np

from xmr_core.base.fingerprint import bytes_hash


def value_text(value: object) -> str | None:
    """A text for a number, a string, an array or tensor, or for tuples, lists, sets and mappings of such; any other
    object counts by its class alone. None for a module.

    >>> value_text({"scales": [1.0, 2.0]}), value_text(np.zeros(2)) == value_text(np.ones(2))
    ("{'scales': [1.0, 2.0]}", False)
    """
    if isinstance(value, types.ModuleType):
        return None
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, tuple):
        return repr(value) if _is_plain(value) else f"({', '.join(map(str, map(value_text, value)))})"
    if isinstance(value, list):
        return f"[{', '.join(map(str, map(value_text, value)))}]"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(str, map(value_text, value))))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{value_text(k)}: {value_text(v)}' for k, v in value.items())}}}"
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        array = np.ascontiguousarray(np.asarray(value))
        return f"{array.dtype} {array.shape} {bytes_hash(array.tobytes())}"
    kind = value if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def arguments_text(function: object) -> str:
    """The arguments that a partial function binds; '' for anything else.

    >>> arguments_text(partial(round, ndigits=2)), arguments_text(round)
    ("() {'ndigits': 2}", '')
    """
    if not isinstance(function, partial):
        return ""
    return f"{value_text(function.args)} {value_text(function.keywords)}{arguments_text(function.func)}"


def _is_plain(value: tuple) -> bool:
    return all(v is None or isinstance(v, (bool, int, float, complex, str, bytes)) for v in value)
