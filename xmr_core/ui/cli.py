"""The command line: run a notebook safely, and say what is here; cli_search adds its commands."""

import argparse
import ast
import html
import os
import sys
import tempfile
import time
from pathlib import Path

import yaml

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, XmrError, unknown
from xmr_core.ui import cli_search
from xmr_core.ui.notebook import RECORD_VARIABLE, Parameter, checked_value, declared_parameters


def main(argv: list[str] | None = None) -> int:
    """Entry point. Returns the exit status: 0 done, 1 the notebook failed or the data cannot be trained on, 2 it could not be started as
    asked, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        return {"info": _info, "check": _check, "run": _run, **cli_search.COMMANDS}[arguments.command](arguments)
    except XmrError as e:
        if os.environ.get("XMR_DEBUG") == "1":
            raise
        print(f"error: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; what was trained so far is kept and continued next time", file=sys.stderr)
        return 130


def given_parameters(declared: dict[str, Parameter], pairs: list, yamls: list[str]) -> dict[str, object]:
    """Values from -y (YAML) and -p (read by the declared type; stronger), checked.

    Raises: BadInput for a name that is not declared, or a value that is not of its type.
    """
    given: dict[str, object] = {}
    for text in yamls:
        try:
            values = yaml.safe_load(text)
        except yaml.YAMLError:
            values = None
        if not isinstance(values, dict):
            raise BadInput(f"-y needs YAML of the form 'name: value', got {text!r}.")
        given.update(values)
    given.update({name: _read(declared[name], text) if name in declared else text for name, text in pairs})
    for name in given:
        if name not in declared:
            raise unknown("parameter", name, declared)
    return {name: checked_value(declared[name], value) for name, value in given.items()}


def own_kernel():
    """A kernel manager whose kernel is this very interpreter, whatever kernel specs lie about in the user's folders."""
    import zmq
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    if manager.has_trait("transport_encryption") and zmq.has("curve"):
        manager.transport_encryption = "auto"  # without it newer kernels warn that others on the machine could listen
    return manager


def kernel_environment(**more: str) -> dict[str, str]:
    """Environment variables for a kernel: this environment's programs first, and figures drawn into the notebook."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("MPLBACKEND", RECORD_VARIABLE)}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}"
    return inherited | {"PATH": programs, "PYDEVD_DISABLE_FILE_VALIDATION": "1"} | more


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m xmr_core", description="Image–text retrieval: five papers, matched conditions.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="check parameters, run a notebook, say where its results are")
    run.add_argument("notebook", help="for example notebooks/ablation_alpha.ipynb")
    run.add_argument("output", nargs="?", help="file or folder for the executed notebook (default: a folder in outputs/)")
    pair = {"nargs": 2, "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
    run.add_argument("-p", "--parameter", **pair, help="for example -p alpha 8 or -p alphas '[1, 4]'")
    run.add_argument("-y", "--yaml", action="append", default=[], help="parameters as YAML, for example 'alphas: [1, 4]'")
    run.add_argument("--help-notebook", action="store_true", help="list the notebook's parameters and stop")
    check = commands.add_parser("check", help="look through a folder of data: what is in it, everything that is wrong with it")
    check.add_argument("dataset", help="how its files are laid out, for example flickr8k or folder")
    check.add_argument("data_root", help="the folder")
    check.add_argument("--shallow", action="store_true", help="read lists and captions only, not every picture")
    cli_search.add_to(commands)
    commands.add_parser("info", help="versions, and what is kept where")
    return parser


def _read(parameter: Parameter, text: str) -> object:
    """A -p value by the declared type: text stays text, the rest is a Python literal or YAML ('false', '[a, b]')."""
    if parameter.type == "str":
        return text
    if parameter.type == "float":
        try:
            return float(text)
        except ValueError:
            return text
    for reader in (ast.literal_eval, yaml.safe_load):
        try:
            return reader(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError, yaml.YAMLError):
            continue
    return text


def _run(arguments: argparse.Namespace) -> int:
    source = Path(arguments.notebook)
    declared = declared_parameters(source)
    if arguments.help_notebook:
        for p in declared.values():
            print(f"{p.name}: {p.type} = {p.default!r}  {p.help}")
        return 0
    given = given_parameters(declared, arguments.parameter, arguments.yaml)
    values = {name: checked_value(p, p.default) for name, p in declared.items()} | given
    name = f"{source.stem}-{paths.content_hash(values)}"
    output = Path(arguments.output).expanduser() if arguments.output else paths.folder("outputs") / name / source.name
    output = output / source.name if output.is_dir() else output
    if output.resolve() == source.resolve():
        raise BadInput(f"the output would overwrite the notebook {source}. Choose another path.")
    paths.write_atomic(output, source.read_bytes())  # fails now, in one line, rather than after the work
    print(f"running {source} → {output}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as private:  # a path of this run alone: an older record cannot be mistaken for its own
        record_file = Path(private) / "record.json"
        error = _execute(source, output, given, record_file)
        record = paths.read_json(record_file) if record_file.exists() else None
    if error or record is None:
        reason = error or "it ended without writing its completion record (the last cell calls finish)"
        print(f"error: {source} failed: {reason}\nThe notebook as far as it got: {output}", file=sys.stderr)
        return 1
    folder = Path(record["folder"])
    print(f"done in {time.monotonic() - started:.0f} s\n  notebook  {output}")
    for label, path in [*record["files"].items(), ("record", "record.json")]:
        print(f"  {label:9s} {Path(os.path.normpath(folder / path))}")
    return 0


def _execute(source: Path, output: Path, given: dict, record_file: Path) -> str | None:
    """Run through papermill, in the caller's folder. Returns None, or one line saying what failed."""
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # else the debugger warns in every kernel
    import papermill
    from papermill.engines import papermill_engines

    engine = _engine(record_file)
    papermill_engines.register("xmr", engine)
    bar = {"bar_format": "{n_fmt}/{total_fmt} cells [{elapsed}]{postfix}", "dynamic_ncols": True}
    for attempt in (1, 2):
        try:
            papermill.execute_notebook(
                _literal(source), _literal(output), parameters=given, engine_name="xmr", kernel_name="python3", progress_bar=bar
            )
            return None
        except papermill.PapermillExecutionError as e:
            return f"cell In [{e.exec_count}]: {e.ename}: {e.evalue}".rstrip(": ").splitlines()[0]
        except OSError as e:
            raise paths.cannot_write(output, e) from None
        except RuntimeError as e:  # the kernel died or did not answer; two that start at once may race for a port
            if engine.cells_started or attempt == 2:
                return f"{str(e).strip().splitlines()[-1]} (the notebook's process; killed for want of memory, perhaps)"
    return None


def _literal(path: Path) -> str:
    return str(path).replace("{", "{{").replace("}", "}}")  # papermill formats paths with parameters


def _engine(record_file: Path):
    """A papermill engine that runs our own interpreter and shows on the terminal what a notebook shows: bars and messages."""
    from papermill.clientwrap import PapermillNotebookClient
    from papermill.engines import Engine

    interval = 0.2 if sys.stderr.isatty() else 20.0  # seconds between two updates: a log file is not a screen

    class Client(PapermillNotebookClient):
        shown, percent = 0.0, ""

        def papermill_execute_cells(self):
            try:
                super().papermill_execute_cells()
            except KeyboardInterrupt:
                self.shutdown_kernel = "immediate"  # with its training processes, which else would go on for minutes
                raise

        def process_message(self, message, cell, cell_index):
            content, bar = message["content"], self.nb_man.pbar
            if message["msg_type"] == "stream" and (lines := content["text"].rstrip()):
                bar.write(lines.rpartition("\r")[2], file=sys.stderr)
            elif message["msg_type"] == "comm_msg":
                text = content["data"].get("state", {}).get("value")
                text = html.unescape(text).replace("\u2007", " ").strip() if isinstance(text, str) else ""
                if text.endswith("%"):  # the left half of a tqdm bar
                    self.percent = text
                elif "/" in text and "[" in text and time.monotonic() - self.shown > interval:  # its right half
                    bar.set_postfix_str(f"{self.percent} {text}".strip())
                    self.shown = time.monotonic()
            return super().process_message(message, cell, cell_index)

    class OwnEngine(Engine):
        cells_started = False

        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, **_):
            def on_cell_start(cell, cell_index):
                cls.cells_started = True
                nb_man.pbar.set_postfix_str("")  # what the cell before it showed

            client = Client(nb_man, km=own_kernel(), kernel_name=kernel_name, startup_timeout=120, on_cell_start=on_cell_start)
            client.execute(env=kernel_environment(**{RECORD_VARIABLE: str(record_file)}), cleanup_kc=True)

    return OwnEngine


def _check(arguments: argparse.Namespace) -> int:
    """0: it can be trained on; 1: not."""
    from tqdm import tqdm

    from xmr_core.data.prepare import READERS
    from xmr_core.data.readers.check import check_corpus

    if arguments.dataset not in READERS:
        raise unknown("dataset", arguments.dataset, READERS)

    def progress(parts):
        return tqdm(parts, desc="looking at pictures", leave=False, disable=None)

    report = check_corpus(arguments.dataset, READERS[arguments.dataset], arguments.data_root, deep=not arguments.shallow, progress=progress)
    print(report.text())
    return 0 if report.usable else 1


def _info(arguments: argparse.Namespace) -> int:
    from xmr_core import __version__
    from xmr_core.base.provenance import environment
    from xmr_core.training.runs.config import resolve_device

    print(f"{'xmr_core':12s} {__version__}")
    for name, value in vars(environment(resolve_device("auto"))).items():
        print(f"{name:12s} {value}")
    for kind in ("runs", "cache", "outputs"):
        folder = paths.root() / kind
        files = [f for f in folder.rglob("*") if f.is_file()]
        print(f"{kind:12s} {folder} ({len(files)} files, {sum(f.stat().st_size for f in files) / 1e6:.0f} MB)")
    return 0
