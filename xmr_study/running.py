"""Running a notebook through papermill in this interpreter; it is done only when it has written its own record."""

import ast
import html
import os
import sys
import tempfile
import time
from pathlib import Path

from xmr_core.base import files
from xmr_core.base.errors import BadInput, require
from xmr_core.base.paths import printable, say
from xmr_study.notebook import RECORD_VARIABLE, output_folder
from xmr_study.parameters import Parameter, check_values, checked_values, declared_parameters


def run_notebook(source: Path, output: Path | None, pairs: list[tuple[str, str]], yamls: list[str]) -> int:
    """Check the parameters, run the notebook, and print where its results are. Returns the exit status: 0 done, 1
    failed.

    Args: output: file or folder for the executed notebook; None: a folder in outputs/ named by the notebook and a hash
        of its parameters. pairs, yamls: as for given_parameters.
    Raises: BadInput and CannotWrite before anything runs.
    """
    require("running a notebook", "notebooks", "papermill", "ipykernel", "nbformat", "yaml")
    declared = declared_parameters(source)
    overrides = given_parameters(declared, pairs, yamls)
    defaults = {name: p.default for name, p in declared.items()}
    values = checked_values(declared, defaults) | overrides
    check_values(values, defaults)
    output = output or output_folder(source.stem, values)
    if output.is_dir():
        output /= source.name
    if output.resolve() == source.resolve():
        raise BadInput(f"the output would overwrite the notebook {source}. Choose another path.")
    files.write_atomic(output, source.read_bytes())  # so that an unusable path fails now, and not after the work
    say(f"running {source} → {output}")
    started = time.monotonic()
    # A folder of this run alone, so that an older record cannot be taken for its own.
    with tempfile.TemporaryDirectory() as private:
        record_file = Path(private) / "record.json"
        error = _execute(source, output, overrides, record_file)
        record = files.read_json(record_file) if record_file.exists() else None
    if error or record is None:
        reason = error or "it ended without writing its completion record (the last cell calls finish)"
        say(f"error: {source} failed: {reason}\nThe notebook as far as it got: {output}", sys.stderr)
        return 1
    folder = Path(record["folder"])
    say(f"done in {time.monotonic() - started:.0f} s\n  notebook  {output}")
    for label, path in [*record["files"].items(), ("record", "record.json")]:
        say(f"  {label:9s} {Path(os.path.normpath(folder / path))}")
    if says := record["summary"].get("says"):
        say(says.replace("**", ""))  # a terminal shows no bold words
    return 0


def given_parameters(declared: dict[str, Parameter], pairs: list, yamls: list[str]) -> dict[str, object]:
    """Checked values of -y (YAML) and -p (name and text, read by the declared type); -p wins over -y.

    Raises: BadInput for a name that is not declared, or a value that is not of its type.

    >>> given_parameters({"alpha": Parameter("alpha", "float", 16.0, "")}, [("alpha", "8")], ["alpha: 2"])
    {'alpha': 8.0}
    """
    require("reading parameters", "notebooks", "yaml")
    import yaml

    out = {}
    for text in yamls:
        try:
            if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
                raise ValueError("a few aliases stand for billions of values")
            values = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: of a tag such as !!int before a word
            values = None
        if not isinstance(values, dict):
            raise BadInput(f"-y needs YAML of the form 'name: value', got {text!r}.")
        out.update(values)
    if len(dict(pairs)) < len(pairs):
        raise BadInput(f"-p gives a parameter twice: {', '.join(name for name, _ in pairs)}.")
    out.update({name: _read(declared[name], text) if name in declared else text for name, text in pairs})
    return checked_values(declared, out)


def own_kernel():
    """A kernel manager whose kernel is this interpreter, whatever kernel specs the user's folders contain."""
    import zmq
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    if manager.has_trait("transport_encryption") and zmq.has("curve"):
        manager.transport_encryption = "auto"  # newer kernels warn without it: others on the machine could listen
    return manager


def kernel_environment(**more: str) -> dict[str, str]:
    """Environment variables of a kernel: programs of this environment first, and figures drawn into the notebook."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("MPLBACKEND", RECORD_VARIABLE)}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}"
    return inherited | {"PATH": programs, "PYDEVD_DISABLE_FILE_VALIDATION": "1"} | more


def _read(parameter: Parameter, text: str) -> object:
    """A -p value by the declared type: text stays text, all else is a Python literal or YAML ('false', '[a, b]')."""
    import yaml

    readers = {"str": (), "float": (float,)}.get(parameter.type, (ast.literal_eval, yaml.safe_load))
    for reader in readers:
        try:
            return reader(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError, yaml.YAMLError):
            continue
    return text


def _execute(source: Path, output: Path, overrides: dict, record_file: Path) -> str | None:
    """Run through papermill, in the caller's folder. Returns None, or one line that says what failed."""
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # else the debugger warns in every kernel
    import papermill
    from papermill.engines import papermill_engines

    engine = _engine(record_file)
    papermill_engines.register("xmr", engine)
    bar = {"bar_format": "{n_fmt}/{total_fmt} cells [{elapsed}]{postfix}", "dynamic_ncols": True}
    options = {"engine_name": "xmr", "kernel_name": "python3", "progress_bar": bar}
    for attempt in (1, 2):
        try:
            papermill.execute_notebook(_literal(source), _literal(output), parameters=overrides, **options)
            return None
        except papermill.PapermillExecutionError as e:
            return f"cell In [{e.exec_count}]: {e.ename}: {e.evalue}".rstrip(": ").splitlines()[0]
        except OSError as e:
            raise files.cannot_write(output, e) from None
        except RuntimeError as e:  # the kernel died or did not reply; two that start together may claim the same port
            if engine.cells_started or attempt == 2:
                reason = str(e).strip().splitlines()[-1]
                return f"{reason} (the notebook's process; the system may have ended it for lack of memory)"
    return None


def _literal(path: Path) -> str:
    return str(path).replace("{", "{{").replace("}", "}}")  # papermill formats paths with parameters


def _engine(record_file: Path):
    """A papermill engine that runs this interpreter and prints progress bars and messages of a notebook on the
    terminal."""
    from papermill.clientwrap import PapermillNotebookClient
    from papermill.engines import Engine

    interval = 0.2 if sys.stderr.isatty() else 20.0  # seconds between two updates; a log file needs fewer than a screen

    class Client(PapermillNotebookClient):
        shown, percent = 0.0, ""

        def papermill_execute_cells(self):
            try:
                super().papermill_execute_cells()
            except KeyboardInterrupt:
                self.shutdown_kernel = "immediate"  # with its training processes, which would go on for minutes
                raise

        def process_message(self, message, cell, cell_index):
            content, bar = message["content"], self.nb_man.pbar
            if message["msg_type"] == "stream" and (lines := content["text"].rstrip()):
                bar.write(printable(lines.rpartition("\r")[2]), file=sys.stderr)
            elif message["msg_type"] == "comm_msg":
                text = content["data"].get("state", {}).get("value")
                text = html.unescape(text).replace("\u2007", " ").strip() if isinstance(text, str) else ""
                if text.endswith("%"):  # the left half of a tqdm bar
                    self.percent = text
                elif "/" in text and "[" in text and time.monotonic() - self.shown > interval:  # its right half
                    bar.set_postfix_str(printable(f"{self.percent} {text}".strip()))
                    self.shown = time.monotonic()
            return super().process_message(message, cell, cell_index)

    class OwnEngine(Engine):
        cells_started = False

        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, **_):
            def on_cell_start(cell, cell_index):
                cls.cells_started = True
                nb_man.pbar.set_postfix_str("")  # removes the text of the cell before

            options = {"kernel_name": kernel_name, "startup_timeout": 120, "on_cell_start": on_cell_start}
            client = Client(nb_man, km=own_kernel(), **options)
            client.execute(env=kernel_environment(**{RECORD_VARIABLE: str(record_file)}), cleanup_kc=True)

    return OwnEngine
