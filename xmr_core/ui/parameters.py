"""The parameters cell of a notebook: what it declares, and values that are checked against it.

papermill only logs a warning about unknown names, and turns `-p fast false` into a string. So names and types are
checked here, before a notebook runs and again inside it.
"""

import ast
import io
import math
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile, unknown

_TYPES = {"int": int, "float": float, "str": str, "bool": bool, "list": list}


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell: `alpha: float = 16.0  # inverse temperature`."""

    name: str
    type: str
    default: object
    help: str


class Parameters(Mapping):
    """Checked parameters, as attributes (`p.alpha`) and as a mapping (`dict(p)`); read-only.

    >>> Parameters({"alpha": 16.0}).alpha
    16.0
    """

    def __init__(self, values: Mapping[str, object]):
        object.__setattr__(self, "_values", dict(values))

    def __getattr__(self, name: str) -> object:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(str(unknown("parameter", name, values)))
        return values[name]

    def __setattr__(self, name: str, value: object):
        raise BadInput(f"parameters are read-only: set {name} in the parameters cell and run the notebook from there.")

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return ", ".join(f"{name} = {value!r}" for name, value in self._values.items())


def parse_parameters(source: str) -> dict[str, Parameter]:
    """The parameters of a parameters cell, by name.

    Raises: BadInput for a line that is not `name: type = literal  # help`, or a type that cannot be checked.

    >>> parse_parameters("alpha: float = 16.0  # inverse temperature")["alpha"].help
    'inverse temperature'
    """
    try:
        body = ast.parse(source).body
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as e:
        raise BadInput(f"the parameters cell is not Python: {e}.") from None
    comments = {t.start[0]: t.string.lstrip("# ").strip() for t in tokens if t.type == tokenize.COMMENT}
    out = {}
    for node in body:
        try:
            if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
                raise ValueError
            name, kind = node.target.id, ast.unparse(node.annotation).strip("'\"")
            out[name] = Parameter(name, kind, ast.literal_eval(node.value), comments.get(node.end_lineno, ""))
        except (ValueError, TypeError, AttributeError, RecursionError, MemoryError):  # no annotation, value or literal
            raise BadInput(f"line {node.lineno} of the parameters cell is not 'name: type = value  # help'.") from None
    for parameter in out.values():
        _type_of(parameter)
    return out


def declared_parameters(path: Path | str) -> dict[str, Parameter]:
    """The parameters of a notebook file by name, without running it.

    Raises: BadInput for a missing file, a file that is not a notebook, or one without exactly one parameters cell.
    """
    path = files.existing_file(path, "notebook")
    try:
        value = files.read_json(path)  # and not by nbformat, which takes seconds to load
        if value["nbformat"] != 4:
            raise ValueError
        code = [c for c in value["cells"] if c["cell_type"] == "code"]
        tagged = ["".join(c["source"]) for c in code if "parameters" in c["metadata"].get("tags", [])]
    except (DamagedFile, KeyError, TypeError, ValueError, AttributeError):
        raise BadInput(f"{path} is not a notebook. Give an .ipynb file.") from None
    if len(tagged) != 1:
        raise BadInput(f"{path} has {len(tagged)} cells tagged 'parameters'; a notebook of this study has exactly one.")
    try:
        return parse_parameters(tagged[0])
    except BadInput as e:
        raise BadInput(f"{path}: {e}") from None


def checked_value(parameter: Parameter, value: object) -> object:
    """The value as the declared type; an int is accepted for a float and converted.

    Raises: BadInput naming the parameter, its type, what was given and how to write it.

    >>> checked_value(Parameter("alpha", "float", 16.0, ""), 8)
    8.0
    """
    kind, inner = _type_of(parameter)
    if kind is float and type(value) is int:
        value = float(value)
    is_nan = isinstance(value, float) and math.isnan(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)) and not is_nan:
        if inner:
            return [checked_value(Parameter(f"{parameter.name}[{i}]", inner, None, ""), v) for i, v in enumerate(value)]
        return value
    hint = ""
    if kind is float and isinstance(value, str) and re.fullmatch(r"[-+]?\d+e[-+]?\d+", value.strip()):
        hint = f" YAML reads a number as text unless it has a point: {value.strip().replace('e', '.0e')}."
    elif kind is list:
        hint = f" Write a list: -p {parameter.name} '[1, 2]'."
    elif kind is bool:
        hint = " Write True or False."
    elif is_nan:
        hint = " Give a number."
    raise BadInput(
        f"parameter {parameter.name} must be {parameter.type}, got {value!r} ({type(value).__name__}).{hint}"
    )


def _type_of(parameter: Parameter) -> tuple[type, str]:
    """(type, type of the elements or '') of an annotation. Raises: BadInput for one that cannot be checked."""
    name = parameter.name
    if hasattr(Mapping, name):
        raise BadInput(
            f"a parameter cannot be called {name}: p.{name} is a method of every mapping. Choose another name."
        )
    match = re.fullmatch(r"(int|float|str|bool|list)|list\[(int|float|str|bool)\]", parameter.type)
    if not match:
        allowed = "int, float, str, bool, list or list[one of these]"
        raise BadInput(f"parameter {name} is declared as {parameter.type}; use {allowed}.")
    return _TYPES[match[1] or "list"], match[2] or ""
