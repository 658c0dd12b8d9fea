"""What every notebook leans on: parameters that are checked, a folder for what it makes, a record that it finished.

papermill injects whatever it is given, warns about unknown names in a log line only, turns `-p fast false` into a string,
and reports success after `sys.exit(0)`. So names and types are checked here, and a notebook counts as finished only when
its last cell wrote its own record.
"""

import ast
import io
import math
import os
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import xmr_core
from xmr_core.base import paths
from xmr_core.base.errors import BadInput, XmrError, unknown

RECORD_VARIABLE = "XMR_RECORD"  # set by `run`: where the completion record goes besides the output folder
_TYPES = {"int": int, "float": float, "str": str, "bool": bool, "list": list}
_started = {"utc": datetime.now(UTC)}  # a kernel runs one notebook; check_parameters sets it anew when the notebook is run again


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell: `alpha: float = 16.0  # inverse temperature`."""

    name: str
    type: str
    default: object
    help: str


class Parameters(Mapping):
    """Checked parameters, as attributes (`p.alpha`) and as a mapping (`dict(p)`); read-only."""

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
    """The parameters of a parameters cell. Raises BadInput for a line that is not `name: type = literal  # help`."""
    try:
        body = ast.parse(source).body
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, tokenize.TokenError) as e:
        raise BadInput(f"the parameters cell is not Python: {e}.") from None
    comments = {t.start[0]: t.string.lstrip("# ").strip() for t in tokens if t.type == tokenize.COMMENT}
    out = {}
    for node in body:
        try:
            if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
                raise ValueError
            name, kind = node.target.id, ast.unparse(node.annotation).strip("'\"")
            out[name] = Parameter(name, kind, ast.literal_eval(node.value), comments.get(node.end_lineno, ""))
        except (ValueError, TypeError, AttributeError):  # no annotation, no value, or a value that is not a literal
            raise BadInput(f"line {node.lineno} of the parameters cell is not 'name: type = value  # help'.") from None
    for parameter in out.values():
        _type_of(parameter)
    return out


def declared_parameters(path: Path | str) -> dict[str, Parameter]:
    """The parameters of a notebook file, without running it. Raises BadInput when it is no notebook or has no such cell."""
    import nbformat

    path = paths.existing(path, "notebook")
    try:
        cells = nbformat.read(path, as_version=4).cells
    except Exception as e:  # nbformat raises many kinds for many ways of not being a notebook
        raise BadInput(f"{path} is not a notebook ({type(e).__name__}). Give an .ipynb file.") from None
    tagged = [c for c in cells if c.cell_type == "code" and "parameters" in c.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise BadInput(f"{path} has {len(tagged)} cells tagged 'parameters'; a notebook of this study has exactly one.")
    try:
        return parse_parameters(tagged[0].source)
    except BadInput as e:
        raise BadInput(f"{path}: {e}") from None


def checked_value(parameter: Parameter, value: object) -> object:
    """The value as the declared type. Raises BadInput naming parameter, type, what was given and how to write it."""
    wanted, inner = _type_of(parameter)
    if wanted is float and type(value) is int:
        value = float(value)
    if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)) and value == value:  # nan differs from itself
        if inner:
            return [checked_value(Parameter(f"{parameter.name}[{i}]", inner, None, ""), v) for i, v in enumerate(value)]
        return value
    hint = ""
    if wanted is float and isinstance(value, str) and re.fullmatch(r"[-+]?\d+e[-+]?\d+", value.strip()):
        hint = f" YAML reads a number as text unless it has a point: {value.strip().replace('e', '.0e')}."
    elif wanted is list:
        hint = f" Write a list: -p {parameter.name} '[1, 2]'."
    elif wanted is bool:
        hint = " Write True or False."
    elif isinstance(value, float) and math.isnan(value):
        hint = " Give a number."
    raise BadInput(f"parameter {parameter.name} must be {parameter.type}, got {value!r} ({type(value).__name__}).{hint}")


def check_parameters(namespace: dict) -> Parameters:
    """First thing after a parameters cell: `p = check_parameters(globals())`.

    Checks the value of every declared parameter against its annotation, and every name that papermill injected against
    the declared ones. Ints are accepted for floats and converted, also in the notebook's own variables.
    Raises: BadInput, shown in a notebook as one line.
    """
    _short_errors()
    _whole_sentences()
    _started["utc"] = datetime.now(UTC)
    hints = namespace.get("__annotations__") or _annotations(namespace)
    declared = {n: Parameter(n, t.__name__ if type(t) is type else str(t), None, "") for n, t in hints.items()}
    # papermill puts what it was given into a cell of its own, recognisable by its first line
    injected = next((cell for cell in reversed(namespace.get("In", [])) if cell.startswith("# Parameters\n")), "")
    for node in ast.parse(injected).body:
        for target in getattr(node, "targets", []):
            if isinstance(target, ast.Name) and target.id not in declared:
                raise unknown("parameter", target.id, declared)
    if missing := [name for name in declared if name not in namespace]:
        raise BadInput(f"parameter {missing[0]} has no value. Run the parameters cell first.")
    values = {name: checked_value(parameter, namespace[name]) for name, parameter in declared.items()}
    namespace.update(values)
    return Parameters(values)


def output_folder(name: str, parameters: Mapping[str, object]) -> Path:
    """outputs/<notebook>-<hash of its parameters>, created: equal parameters, equal folder. Raises CannotWrite."""
    return paths.make_folder(paths.folder("outputs") / f"{name}-{paths.content_hash(dict(parameters))}")


def answer(*sentences: str) -> None:
    """The end of a notebook: its answer, as sentences made from the numbers above it, so that it is true whatever was run."""
    from IPython.display import Markdown, display

    display(Markdown("**Answer.** " + " ".join(sentences)))


def finish(folder: Path, parameters: Mapping[str, object], files: Mapping[str, Path], summary: Mapping[str, object]) -> None:
    """Last line of every notebook: write the completion record into the folder, and where `run` asked for it.

    files: label → path of what the notebook made; each must exist; recorded relative to the folder where they lie in it.
    summary: a few numbers worth keeping. Raises: BadInput when a file is missing; CannotWrite.
    """
    from xmr_core.base.provenance import environment
    from xmr_core.training.runs.config import resolve_device

    for label, path in files.items():
        paths.existing(path, f"the {label} this notebook should have made")
    record = {
        "notebook": folder.name.rpartition("-")[0] or folder.name,
        "parameters": dict(parameters),
        "files": {label: os.path.relpath(path, folder) for label, path in files.items()},
        "summary": {name: value.item() if hasattr(value, "item") else value for name, value in summary.items()},
        "started_utc": _started["utc"].isoformat(timespec="seconds"),
        "finished_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": {"xmr_core": xmr_core.__version__} | vars(environment(resolve_device(str(parameters.get("device", "cpu"))))),
    }
    paths.write_json(folder / "record.json", record)
    if asked := os.environ.get(RECORD_VARIABLE):
        paths.write_json(asked, record | {"folder": str(folder.resolve())})
    print("finished; made: " + ", ".join(f"{label} ({Path(path).name})" for label, path in files.items()))


def _type_of(parameter: Parameter) -> tuple[type, str]:
    """(type, element type or '') of an annotation. Raises BadInput for one that cannot be checked."""
    if hasattr(Mapping, parameter.name):
        raise BadInput(
            f"a parameter cannot be called {parameter.name}: p.{parameter.name} is a method of every mapping. Choose another name."
        )
    match = re.fullmatch(r"(int|float|str|bool|list)|list\[(int|float|str|bool)\]", parameter.type)
    if not match:
        known = "int, float, str, bool, list or list[one of these]"
        raise BadInput(f"parameter {parameter.name} is declared as {parameter.type}; use {known}.")
    return _TYPES[match[1] or "list"], match[2] or ""


def _annotations(namespace: dict) -> dict:
    """Module-level annotations of Python 3.14 and later live behind a function."""
    annotate = namespace.get("__annotate__")
    return annotate(1) if callable(annotate) else {}


def _whole_sentences() -> None:
    """Claims and captions stand in tables; pandas would cut them after 50 letters."""
    import pandas as pd

    pd.set_option("display.max_colwidth", 160)


def _short_errors() -> None:
    """In IPython, show this package's errors as their one line; the cell still fails."""
    if (ipython := sys.modules.get("IPython")) is None or (shell := ipython.get_ipython()) is None:
        return

    def show(self, kind, error, trace, tb_offset=None):
        line = [f"\x1b[31m{kind.__name__}\x1b[0m: {error}"]
        self._showtraceback(kind, error, line)
        return line

    shell.set_custom_exc((XmrError,), show)
