"""What every notebook uses: checked parameters, a folder for its results, and a record that it finished.

A notebook counts as finished only when its last cell has written its own record, because papermill also reports success
after `sys.exit(0)`.
"""

import argparse
import ast
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import xmr_core
from xmr_core.base import files as storage
from xmr_core.base import fingerprint, paths
from xmr_core.base.errors import BadInput, XmrError
from xmr_core.base.paths import say
from xmr_study.parameters import Parameter, Parameters, check_values, checked_values
from xmr_study.tidy import carried

if TYPE_CHECKING:
    import pandas as pd

RECORD_VARIABLE = "XMR_RECORD"  # set by `run`: a second place for the completion record
_started = {"utc": datetime.now(UTC)}  # check_parameters sets it again when a notebook is run again in the same kernel


def check_parameters(namespace: dict) -> Parameters:
    """The first statement after a parameters cell: `p = check_parameters(globals())`.

    Checks the value of every declared parameter against its annotation, and every name that papermill injected against
    the declared ones. Ints are accepted for floats and converted, also in the notebook's own variables.
    Raises: BadInput, which a notebook shows as one line.

    >>> check_parameters({"__annotations__": {"alpha": float}, "alpha": 8})
    alpha = 8.0
    """
    import pandas as pd

    _shorten_errors()
    pd.set_option("display.max_colwidth", 160)  # tables hold claims and captions, cut after 50 letters otherwise
    _started["utc"] = datetime.now(UTC)
    annotate = namespace.get("__annotate__")  # where Python 3.14 and later keep the annotations of a module
    hints = namespace.get("__annotations__") or (annotate(1) if callable(annotate) else {})
    declared = {n: Parameter(n, t.__name__ if type(t) is type else str(t), None, "") for n, t in hints.items()}
    # papermill puts the given values into a cell of its own, which has this first line.
    injected = next((cell for cell in reversed(namespace.get("In", [])) if cell.startswith("# Parameters\n")), "")
    targets = [target for node in ast.parse(injected).body for target in getattr(node, "targets", [])]
    names = dict.fromkeys([*declared, *(target.id for target in targets if isinstance(target, ast.Name))])
    if missing := [name for name in names if name not in namespace]:
        raise BadInput(f"parameter {missing[0]} has no value. Run the parameters cell first.")
    values = checked_values(declared, {name: namespace[name] for name in names})
    check_values(values)
    namespace.update(values)
    return Parameters(values)


def output_folder(name: str, parameters: Mapping[str, object]) -> Path:
    """The folder outputs/NAME-HASH, created; equal parameters have equal hashes and so equal folders. Raises:
    CannotWrite."""
    return storage.make_folder(paths.folder("outputs") / f"{name}-{fingerprint.content_hash(dict(parameters))}")


def close(
    name: str,
    parameters: Mapping[str, object],
    figures: Mapping[str, object],
    tables: Mapping[str, object],
    summary: Mapping[str, object],
) -> None:
    """The last statement of a notebook: save its figures (PNG and PDF) and tables (CSV) in its output folder, and write
    the completion record (`finish`).

    name: of the notebook, which names the folder. figures: file name without ending → matplotlib figure. tables: the
    same → frame; 'rows' has the form of study.tidy.rows and is written as such. summary: a few numbers.
    Raises: BadInput for no figure; CannotWrite.
    """
    from xmr_study import tidy

    if not figures:
        raise BadInput(f"notebook {name} has no figure to save.")
    folder, made = output_folder(name, parameters), {}
    for label, figure in figures.items():
        for ending in ("png", "pdf"):
            made[f"{label} ({ending})"] = folder / f"{label}.{ending}"
            with storage.atomic(made[f"{label} ({ending})"]) as temporary:
                dated = {"CreationDate": None} if ending == "pdf" else {}
                figure.savefig(temporary, format=ending, dpi=120, metadata=dated)
    for label, table in tables.items():
        made[label] = folder / f"{label}.csv"
        if label == "rows":
            tidy.write(table, made[label])
        else:
            storage.write_atomic(made[label], table.to_csv(index=False))
    finish(folder, parameters, made, summary)  # a value would be shown below the cell, and it is a path of this machine


def answer(*sentences: str, of: str = "Answer", rows: "pd.DataFrame | None" = None) -> None:
    """Show the answer of a notebook: sentences made from numbers, so that they are true for any parameters. of: what
    speaks, 'Answer' or 'This run'. rows: of study.tidy.rows; where the study decided otherwise, the answer
    says so, and what they say of each claim is stored with it."""
    from IPython.display import Markdown, display

    from xmr_study.ledger import unlike_study

    unlike, claims = ("", {}) if rows is None else unlike_study(rows)
    said = [sentence.strip(" ") for sentence in (*sentences, unlike)]  # not line breaks, which part lists from text
    text = Markdown(f"**{of}.** " + " ".join(sentence for sentence in said if sentence))
    display(text, metadata={"claims": claims} if claims else None)


def finish(
    folder: Path, parameters: Mapping[str, object], files: Mapping[str, Path], summary: Mapping[str, object]
) -> None:
    """The last statement of a notebook: write the completion record into the folder, and to where `run` expects it.

    Args: files: label → path of a file that the notebook made; recorded relative to the folder. summary: a few numbers.
    Raises: BadInput when a file is missing; CannotWrite.
    """
    from xmr_core.base.machine import environment, resolve_device

    for label, path in files.items():
        storage.existing(path, f"the {label} this notebook should have made")
    device = resolve_device(str(parameters.get("device", "cpu")))
    record = {
        "notebook": folder.name.rpartition("-")[0] or folder.name,
        "parameters": dict(parameters),
        "files": {label: os.path.relpath(path, folder) for label, path in files.items()},
        "summary": {name: value.item() if hasattr(value, "item") else value for name, value in summary.items()},
        "started_utc": _started["utc"].isoformat(timespec="seconds"),
        "finished_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": {"xmr_core": xmr_core.__version__} | vars(environment(device)),
    }
    storage.write_json(folder / "record.json", record)
    if second := os.environ.get(RECORD_VARIABLE):
        storage.write_json(second, record | {"folder": str(folder.resolve())})
    say("finished; made: " + ", ".join(f"{label} ({Path(path).name})" for label, path in files.items()))


def _shorten_errors() -> None:
    """In IPython, show this package's errors as their one line; the cell still fails."""
    if (ipython := sys.modules.get("IPython")) is None or (shell := ipython.get_ipython()) is None:
        return

    def show(self, kind, error, trace, tb_offset=None):
        line = [f"\x1b[31m{kind.__name__}\x1b[0m: {error}"]
        self._showtraceback(kind, error, line)
        return line

    shell.set_custom_exc((XmrError,), show)


# The study's notebooks as files.


def shipped_notebooks() -> list[Path]:
    """The notebooks, in alphabetical order. Raises: BadInput where there are none.

    >>> "train.ipynb" in [path.name for path in shipped_notebooks()]
    True
    """
    folder = carried("notebooks")
    if not (notebooks := sorted(folder.glob("*.ipynb"))):
        raise BadInput(f"{folder} holds no notebooks. Install the package again.")
    return notebooks


def copy_notebooks(target: Path | str) -> list[Path]:
    """Copy the notebooks into a folder, which is created. A file that is already there is not replaced.

    Returns: the files that were written. Raises: BadInput for a path that is a file; CannotWrite.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(copy_notebooks(folder)) > 20, len(copy_notebooks(folder))
    (True, 0)
    """
    target = Path(target).expanduser()
    if target.is_file():
        raise BadInput(f"{target} is a file. Give a folder.")
    storage.make_folder(target)
    new = [path for path in shipped_notebooks() if not (target / path.name).exists()]
    for path in new:
        storage.write_atomic(target / path.name, path.read_bytes())
    return [target / path.name for path in new]


def notebooks(arguments: argparse.Namespace) -> int:
    """Run `notebooks`. Returns 0."""
    new, n = copy_notebooks(arguments.folder), len(shipped_notebooks())
    left = f"; {n - len(new)} were there already and stay as they are" if len(new) < n else ""
    say(f"{arguments.folder}: {len(new)} notebooks{left}")
    say(f"xmr run {Path(arguments.folder) / 'train.ipynb'}  (or open the folder in JupyterLab)")
    return 0
