"""The command line: run a notebook safely, and say what is here."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import yaml

from xmr_core import paths
from xmr_core.errors import BadInput, XmrError, unknown
from xmr_core.notebook import RECORD_VARIABLE, Parameter, checked_value, declared_parameters


def main(argv: list[str] | None = None) -> int:
    """Entry point. Returns the exit status: 0 done, 1 the notebook failed, 2 it could not be started as asked."""
    parser = argparse.ArgumentParser(prog="python -m xmr_core", description="Image–text retrieval, five papers, matched conditions.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="check parameters, run a notebook, say where its results are")
    run.add_argument("notebook", help="for example notebooks/ablation_alpha.ipynb")
    run.add_argument("output", nargs="?", help="where the executed notebook goes (default: outputs/…)")
    run.add_argument("-p", "--parameter", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"))
    run.add_argument("-y", "--yaml", action="append", default=[], help="parameters as YAML, for lists: 'alphas: [1, 4]'")
    run.add_argument("--parameters", action="store_true", help="list the notebook's parameters and stop")
    commands.add_parser("info", help="versions, and what is kept where")
    arguments = parser.parse_args(argv)
    try:
        return _info() if arguments.command == "info" else _run(arguments)
    except XmrError as e:
        if os.environ.get("XMR_DEBUG"):
            raise
        print(f"error: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; what was trained so far is kept and continued next time", file=sys.stderr)
        return 130


def given_parameters(declared: dict[str, Parameter], pairs: list, yamls: list[str]) -> dict[str, object]:
    """Values from -p (read by the declared type) and -y (YAML), checked. Raises BadInput for an unknown name or a wrong type."""
    given: dict[str, object] = {}
    for text in yamls:
        try:
            values = yaml.safe_load(text)
        except yaml.YAMLError:
            values = None
        if not isinstance(values, dict):
            raise BadInput(f"-y needs YAML of the form 'name: value', got {text!r}.")
        given.update(values)
    for name, text in pairs:
        if name in declared:
            given[name] = _read(declared[name], text)
        else:
            given[name] = text
    for name in given:
        if name not in declared:
            raise unknown("parameter", name, declared)
    return {name: checked_value(declared[name], value) for name, value in given.items()}


def _read(parameter: Parameter, text: str) -> object:
    """A -p value by the declared type: text stays text, everything else is read as YAML or a plain number."""
    if parameter.type == "str":
        return text
    if parameter.type in ("int", "float"):
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                continue
        return text
    return yaml.safe_load(text)


def _run(arguments: argparse.Namespace) -> int:
    source = Path(arguments.notebook)
    declared = declared_parameters(source)
    if arguments.parameters:
        for p in declared.values():
            print(f"{p.name}: {p.type} = {p.default!r}  {p.help}")
        return 0
    given = given_parameters(declared, arguments.parameter, arguments.yaml)
    values = {name: p.default for name, p in declared.items()} | given
    folder = paths.folder("outputs") / f"{source.stem}-{paths.content_hash(values)}"
    output = Path(arguments.output) if arguments.output else folder / source.name
    if output.resolve() == source.resolve():
        raise BadInput(f"the output would overwrite the notebook {source}. Choose another path.")
    paths.write_atomic(output, source.read_bytes())  # fails now, in one line, rather than after the work
    print(f"running {source} → {output}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as private:
        record_file = Path(private) / "record.json"
        error = _execute(source, output, given, record_file)
        record = paths.read_json(record_file) if record_file.exists() else None
    if error or record is None:
        reason = error or "it ended without writing its completion record"
        print(f"error: {source} failed: {reason}\nThe notebook as far as it got: {output}", file=sys.stderr)
        return 1
    print(f"done in {time.monotonic() - started:.0f} s\n  notebook  {output}")
    for label, path in record["files"].items():
        print(f"  {label:9s} {path}")
    return 0


def _execute(source: Path, output: Path, given: dict, record_file: Path) -> str | None:
    """Run through papermill. Returns None, or one line saying what failed."""
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    import papermill
    from nbclient.exceptions import DeadKernelError

    # the kernel spec 'python3' starts plain `python`: make that this interpreter, also in a venv that is not activated
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    os.environ[RECORD_VARIABLE] = str(record_file)
    try:
        for attempt in (1, 2):
            try:
                papermill.execute_notebook(
                    str(source), str(output), parameters=given, kernel_name="python3", progress_bar=True, log_output=False
                )
                return None
            except (RuntimeError, DeadKernelError) as e:  # two kernels starting at once may race for a port
                if isinstance(e, papermill.PapermillExecutionError) or attempt == 2 or "Kernel died" not in str(e):
                    return str(e).strip().splitlines()[-1]
            except papermill.PapermillExecutionError as e:
                return f"{e.ename}: {e.evalue}" if e.ename else str(e).strip().splitlines()[-1]
    except OSError as e:
        raise paths.cannot_write(output, e) from None
    finally:
        os.environ.pop(RECORD_VARIABLE, None)
    return None


def _info() -> int:
    from xmr_core.provenance import environment

    for name, value in environment("cpu").items():
        print(f"{name:12s} {value}")
    for kind in ("runs", "cache", "outputs"):
        folder = paths.root() / kind
        size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) if folder.exists() else 0
        print(f"{kind:12s} {folder} ({size / 1e6:.0f} MB)")
    return 0
