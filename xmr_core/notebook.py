"""What every notebook leans on: parameters that are checked, a folder for what it makes, a record that it finished.

papermill injects whatever it is given, warns about unknown names in a log line only, turns `-p fast false` into a string,
and reports success after `sys.exit(0)`. So names and types are checked here, and a notebook counts as finished only when
its last cell wrote its own record.
"""

import ast
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import nbformat

from xmr_core import paths
from xmr_core.errors import BadInput, XmrError, unknown

_TYPES = {"int": int, "float": float, "str": str, "bool": bool, "list": list}
RECORD_VARIABLE = "XMR_RECORD"  # set by `run`: where the completion record goes besides the output folder


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell: `alpha: float = 16.0  # inverse temperature`."""

    name: str
    type: str
    default: object
    help: str


def parse_parameters(source: str) -> dict[str, Parameter]:
    """The parameters of a parameters cell. Raises BadInput for a line that is not `name: type = literal  # help`."""
    comments = {n: line.partition("#")[2].strip() for n, line in enumerate(source.splitlines(), 1)}
    out = {}
    for node in ast.parse(source).body:
        annotated = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
        kind = ast.unparse(node.annotation) if annotated else ""
        if not annotated or kind.split("[")[0] not in _TYPES:
            raise BadInput(f"line {node.lineno} of the parameters cell is not 'name: type = value  # help' with a known type.")
        out[node.target.id] = Parameter(node.target.id, kind, ast.literal_eval(node.value), comments.get(node.end_lineno, ""))
    return out


def declared_parameters(path: Path | str) -> dict[str, Parameter]:
    """The parameters of a notebook file, without running it. Raises BadInput when it is no notebook or has no such cell."""
    path = paths.existing(path, "notebook")
    try:
        cells = nbformat.read(path, as_version=4).cells
    except Exception as e:  # nbformat raises many kinds for many ways of not being a notebook
        raise BadInput(f"{path} is not a notebook ({type(e).__name__}).") from None
    tagged = [c for c in cells if c.cell_type == "code" and "parameters" in c.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise BadInput(f"{path} has {len(tagged)} cells tagged 'parameters'; a notebook of this study has exactly one.")
    return parse_parameters(tagged[0].source)


def checked_value(parameter: Parameter, value: object) -> object:
    """The value as the declared type. Raises BadInput naming parameter, type, what was given and how to write it."""
    base, _, inner = parameter.type.rstrip("]").partition("[")
    wanted = _TYPES[base]
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
        if inner:
            element = Parameter(f"{parameter.name}[…]", inner, None, "")
            return [checked_value(element, v) for v in value]
        return value
    hint = ""
    if isinstance(value, str) and wanted in (int, float) and re.fullmatch(r"[-+]?\d+(\.\d*)?e[-+]?\d+", value.strip()):
        hint = " In YAML write it with a point: 1.0e-4, not 1e-4."
    elif wanted is list:
        hint = f" Give lists by -y '{parameter.name}: [1, 2]'."
    elif wanted is bool:
        hint = " Write True or False."
    raise BadInput(f"parameter {parameter.name} must be {parameter.type}, got {value!r} ({type(value).__name__}).{hint}")


def check_parameters(namespace: dict) -> SimpleNamespace:
    """First line after a parameters cell: `p = check_parameters(globals())`.

    Checks the value of every declared parameter against its annotation, and every name that papermill injected against
    the declared ones. Ints are accepted for floats and converted, also in the notebook's own variables.
    Returns: the parameters as attributes. Raises: BadInput, shown in a notebook as one line.
    """
    _short_errors()
    hints = namespace.get("__annotations__") or _annotations(namespace)
    declared = {n: Parameter(n, t.__name__ if type(t) is type else str(t), None, "") for n, t in hints.items()}
    # papermill puts what it was given into a cell of its own, recognisable by its first line
    injected = next((cell for cell in reversed(namespace.get("In", [])) if cell.startswith("# Parameters\n")), "")
    for node in ast.parse(injected).body:
        for target in getattr(node, "targets", []):
            if isinstance(target, ast.Name) and target.id not in declared:
                raise unknown("parameter", target.id, declared)
    values = {name: checked_value(parameter, namespace[name]) for name, parameter in declared.items()}
    namespace.update(values)
    return SimpleNamespace(**values)


def output_folder(name: str, parameters: SimpleNamespace | Mapping) -> Path:
    """outputs/<notebook>-<hash of its parameters>, created: equal parameters, equal folder."""
    values = dict(vars(parameters) if isinstance(parameters, SimpleNamespace) else parameters)
    return paths.make_folder(paths.folder("outputs") / f"{name}-{paths.content_hash(values)}")


def finish(folder: Path, parameters: SimpleNamespace, files: Mapping[str, Path], summary: Mapping[str, object]) -> None:
    """Last line of every notebook: write the completion record, and show where everything is.

    files: label → path of what the notebook made; each must exist. summary: a few numbers worth keeping.
    Raises: BadInput when a file is missing; CannotWrite.
    """
    from xmr_core.provenance import environment

    for label, path in files.items():
        paths.existing(path, f"the {label} this notebook should have made")
    record = {
        "parameters": vars(parameters),
        "files": {label: str(path) for label, path in files.items()},
        "summary": dict(summary),
        "finished_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": environment("cpu"),
    }
    paths.write_json(folder / "record.json", record)
    if asked := os.environ.get(RECORD_VARIABLE):
        paths.write_json(asked, record)
    print("finished; made: " + ", ".join(f"{label} ({Path(path).name})" for label, path in files.items()))


def _annotations(namespace: dict) -> dict:
    """Module-level annotations of newer Pythons live behind a function."""
    annotate = namespace.get("__annotate__")
    return annotate(1) if callable(annotate) else {}


def _short_errors() -> None:
    """In IPython, show this package's errors as their one line; the cell still fails."""
    try:
        shell = get_ipython()
    except NameError:
        return

    def show(self, kind, error, trace, tb_offset=None):
        line = [f"\x1b[31m{kind.__name__}\x1b[0m: {error}"]
        self._showtraceback(kind, error, line)
        return line

    shell.set_custom_exc((XmrError,), show)
