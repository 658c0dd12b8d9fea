"""The command line: run and copy notebooks, train, list runs, check data, index and search images, show versions."""

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xmr_core import __version__
from xmr_core.base import paths
from xmr_core.base.errors import BadInput, XmrError
from xmr_core.base.regular import printable
from xmr_core.ui import cli_explore, cli_search, cli_train, shipped
from xmr_core.ui.parameter_rules import refuse_early


def main(argv: list[str] | None = None) -> int:
    """Entry point; argv: without the program's name, None for the process's own.

    Returns: the exit status. 0: done. 1: the notebook failed, or the data cannot be used for training. 2: the command
        was not started, and one line says why. 130: interrupted.
    """
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command == "train":  # argparse takes name=value only where they stand together
        arguments.option, rest = arguments.option + [w for w in rest if "=" in w], [w for w in rest if "=" not in w]
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    with plain_warnings():
        return _answer(arguments)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """A warning is one line on the terminal, without the place in the code that it comes from."""
    usual = warnings.formatwarning
    warnings.formatwarning = lambda message, *place, **line: printable(f"warning: {message}") + "\n"
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _answer(arguments: argparse.Namespace) -> int:
    """The exit status of a command."""
    try:
        own = {
            "info": _info,
            "check": _check,
            "check-method": _check_method,
            "run": _run,
            "notebooks": shipped.notebooks,
        }
        others = cli_train.COMMANDS | cli_search.COMMANDS | cli_explore.COMMANDS
        return (own | others)[arguments.command](arguments)
    except XmrError as e:
        if os.environ.get("XMR_DEBUG") == "1":
            raise
        print(printable(f"error: {e}"), file=sys.stderr)
        return 2
    except (MemoryError, OSError, UnicodeError, RecursionError) as e:  # of the system, which no message foresaw
        if os.environ.get("XMR_DEBUG") == "1":
            raise
        reason = (str(e).splitlines() or [""])[0]
        print(printable(f"error: {type(e).__name__}: {reason}. XMR_DEBUG=1 shows where."), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; finished training epochs are saved, and the same command goes on there", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    description = "Image–text retrieval: five papers, matched conditions."
    parser = argparse.ArgumentParser(prog="python -m xmr_core", description=description)
    parser.add_argument("--version", action="version", version=f"xmr-study {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="check parameters, run a notebook, print where its results are")
    run.add_argument("notebook", type=Path, help="for example notebooks/ablation_alpha.ipynb")
    run.add_argument("output", nargs="?", help="file or folder for the executed notebook (default: in outputs/)")
    pair = {"nargs": 2, "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
    run.add_argument("-p", "--parameter", **pair, help="for example -p alpha 8 or -p alphas '[1, 4]'")
    yaml_help = "parameters as YAML, for example 'alphas: [1, 4]'"
    run.add_argument("-y", "--yaml", action="append", default=[], help=yaml_help)
    run.add_argument("--help-notebook", action="store_true", help="list the notebook's parameters and stop")
    check = commands.add_parser("check", help="read a folder of data: what it holds, and everything that is wrong")
    check.add_argument("dataset", help="how its files are laid out, for example flickr8k or folder")
    check.add_argument("data_root", help="the folder")
    check.add_argument("--shallow", action="store_true", help="read lists and captions only, not every image")
    method = commands.add_parser("check-method", help="look at a method of your own before it is trained")
    method.add_argument("method", help="an address such as mymodule:SPEC, or an id")
    shipped.add_to(commands)
    cli_train.add_to(commands)
    cli_search.add_to(commands)
    cli_explore.add_to(commands)
    commands.add_parser("info", help="versions, and the folders of runs, caches and outputs")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from xmr_core.ui.parameters import declared_parameters
    from xmr_core.ui.running import run_notebook

    if arguments.help_notebook:
        for p in declared_parameters(arguments.notebook).values():
            print(f"{p.name}: {p.type} = {p.default!r}  {p.help}")
        return 0
    output = Path(arguments.output).expanduser() if arguments.output else None
    return run_notebook(arguments.notebook, output, arguments.parameter, arguments.yaml)


def _check_method(arguments: argparse.Namespace) -> int:
    """0: nothing was found; 1: something was."""
    refuse_early(method=arguments.method)
    from xmr_core.training.method_check import check_method

    faults = check_method(arguments.method)
    print(printable("\n".join(f"- {sentence}" for sentence in faults) or "Nothing was found that is wrong."))
    return 1 if faults else 0


def _check(arguments: argparse.Namespace) -> int:
    """0: the data can be used for training; 1: they cannot."""
    refuse_early(dataset=arguments.dataset)
    from tqdm import tqdm

    from xmr_core.data.corpora import reader_of
    from xmr_core.data.networks import planned_network
    from xmr_core.data.prepare import DataConfig
    from xmr_core.data.readers.check import check_corpus

    if arguments.dataset == "scenes":
        raise BadInput("scenes is drawn by this package: it has no files to check, and train takes it as it is.")

    def progress(parts):
        return tqdm(parts, desc="reading images", leave=False, disable=None)

    reader, deep = reader_of(arguments.dataset), not arguments.shallow
    config = DataConfig(arguments.dataset, arguments.data_root)
    report = check_corpus(
        arguments.dataset, reader, arguments.data_root, deep, progress, lambda corpus: planned_network(config, corpus)
    )
    print(printable(report.text()))
    return 0 if report.usable else 1


def _info(arguments: argparse.Namespace) -> int:
    from xmr_core.base.devices import resolve_device
    from xmr_core.base.provenance import environment

    print(f"{'xmr_core':12s} {__version__}")
    for name, value in vars(environment(resolve_device("auto"))).items():
        print(f"{name:12s} {value}")
    for kind in ("runs", "cache", "outputs"):
        folder = paths.root() / kind
        files = [f for f in folder.rglob("*") if f.is_file()]
        print(f"{kind:12s} {folder} ({len(files)} files, {sum(f.stat().st_size for f in files) / 1e6:.0f} MB)")
    return 0
