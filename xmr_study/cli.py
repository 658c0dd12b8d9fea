"""The study's commands: `run` and `notebooks`, and `explore`, a folder or an index as a page of its own."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from xmr_core import cli
from xmr_core.base.errors import BadInput, require
from xmr_core.base.files import existing
from xmr_core.base.paths import say
from xmr_study import notebook


def add_to(commands) -> None:
    """Declare the commands. commands: the result of add_subparsers."""
    run = commands.add_parser("run", help="check parameters, run a notebook, print where its results are")
    run.add_argument("notebook", type=Path, help="for example notebooks/ablation_alpha.ipynb")
    run.add_argument("output", nargs="?", help="file or folder for the executed notebook (default: in outputs/)")
    pair = {"nargs": 2, "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
    run.add_argument("-p", "--parameter", **pair, help="for example -p alpha 8 or -p alphas '[1, 4]'")
    yaml = "parameters as YAML, for example 'alphas: [1, 4]'"
    run.add_argument("-y", "--yaml", action="append", default=[], help=yaml)
    run.add_argument("--help-notebook", action="store_true", help="list the notebook's parameters and stop")
    notebooks = commands.add_parser("notebooks", help="copy the study's notebooks into a folder, to run and to change")
    notebooks.add_argument("folder", metavar="DIR", help="where to; files that are already there stay as they are")
    explore = commands.add_parser("explore", help="open the explorer of a folder of images or of an index in a browser")
    explore.add_argument("place", metavar="FOLDER_OR_INDEX", help="a folder of images, or one made by `index`")
    runs = "a run, a folder or a hub name (openai/clip-vit-base-patch32) that encodes the images; several may be given "
    runs += "(default: the newest run of each method on photographs, and dual encoders that were downloaded)"
    explore.add_argument("--run", action="append", default=[], metavar="RUN", help=runs)
    explore.add_argument("--port", type=int, default=0, help="where the page is served (default: a free port)")
    explore.add_argument("--no-browser", action="store_true", help="print the address, open no browser")
    explore.add_argument("--dark", action="store_true", help="a dark page")


def run(arguments: argparse.Namespace) -> int:
    """Run a notebook, or list its parameters. Returns the exit status: 0 done, 1 failed."""
    from xmr_study.parameters import declared_parameters
    from xmr_study.running import run_notebook

    if not arguments.help_notebook:
        output = Path(arguments.output).expanduser() if arguments.output else None
        return run_notebook(arguments.notebook, output, arguments.parameter, arguments.yaml)
    for p in declared_parameters(arguments.notebook).values():
        say(f"{p.name}: {p.type} = {p.default!r}  {p.help}")
    return 0


def explore(arguments: argparse.Namespace) -> int:
    """Run `explore` until it is interrupted. Returns the exit status of the server."""
    require("the explorer as a page", "app", "voila", "ipywidgets", "nbformat")
    from xmr_core.data.readers.folder import load_folder
    from xmr_core.retrieval.index import MANIFEST
    from xmr_study.explorer.views import folder_models

    place = existing(arguments.place, "folder or index").resolve()
    if not 0 <= arguments.port < 65536:
        raise BadInput(f"a port lies from 1 to 65535, or is 0 for a free one; got {arguments.port}.")
    if place.is_dir() and not (place / MANIFEST).exists():  # a mistake is told here, not on a page that opens later
        load_folder(place)
    folder_models(place, arguments.run)
    with tempfile.TemporaryDirectory() as folder:
        notebook = Path(folder) / "explore.ipynb"
        notebook.write_text(json.dumps(page_of(place, arguments.run)), encoding="utf-8")
        words = [sys.executable, "-m", "voila", str(notebook), "--show_tracebacks=True"]
        words += [f"--port={arguments.port}"] if arguments.port else []
        words += ["--no-browser"] if arguments.no_browser else []
        words += ["--theme=dark"] if arguments.dark else []
        say(f"the explorer of {place}; press Ctrl+C to end it")
        return subprocess.call(words, env=os.environ | {"PYDEVD_DISABLE_FILE_VALIDATION": "1"})


def page_of(place: Path, runs: list[str]) -> dict:
    """A notebook whose only cell shows the explorer.

    >>> page_of(Path("photos"), ["dive-1"])["cells"][0]["source"].splitlines()[-1]
    "explore('photos', ['dive-1'])"
    """
    from nbformat.v4 import new_code_cell, new_notebook

    source = f"from xmr_study.explorer import explore\n\nexplore({str(place)!r}, {runs!r})"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}, "title": "Explorer"}
    return new_notebook(cells=[new_code_cell(source)], metadata=metadata)


COMMANDS = {"run": run, "notebooks": notebook.notebooks, "explore": explore}


def main(argv: list[str] | None = None) -> int:
    """The console script `xmr`: the core's commands and these; as xmr_core.cli.main."""
    return cli.main(argv, (*cli.PARTS, sys.modules[__name__]))
