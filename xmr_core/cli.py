"""The command line: `python -m xmr_core` has these commands, and the console script `xmr` those of the study too."""

import argparse
import os
import sys
import warnings
from pathlib import Path

from xmr_core import __version__, commands
from xmr_core.base.errors import XmrError
from xmr_core.base.paths import forgive_console, printable, say

# Each declares its commands (`add_to`) and says what runs them (`COMMANDS`: name → arguments → exit status).
PARTS = (commands,)


def main(argv: list[str] | None = None, parts: tuple = PARTS) -> int:
    """Run one command. argv: without the program's name, None for the process's own.

    Returns: the exit status. 0: done. 1: the notebook failed, or the data cannot be used for training. 2: the command
        was not started, and one line says why; XMR_DEBUG=1 shows where. 130: interrupted.
    """
    forgive_console()
    program = Path(sys.argv[0])
    called = f"python -m {program.parent.name}" if program.name == "__main__.py" else program.stem
    parser = argparse.ArgumentParser(called, description="Image–text retrieval: five papers, matched conditions.")
    parser.add_argument("--version", action="version", version=f"xmr-study {__version__}")
    declared = parser.add_subparsers(dest="command", required=True)
    for part in parts:
        part.add_to(declared)
    arguments, rest = parser.parse_known_args(argv)
    if many := {"train": "option", "options": "option", "evaluate": "corpus"}.get(arguments.command):
        # argparse takes several words only where they stand together
        free = [w for w in rest if not w.startswith("-") and ("=" in w or many == "corpus")]
        setattr(arguments, many, getattr(arguments, many) + free)
        rest = [w for w in rest if w not in free]
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    act = next(part.COMMANDS[arguments.command] for part in parts if arguments.command in part.COMMANDS)
    usual = warnings.formatwarning
    # one line on the terminal, without the place in the code that it comes from
    warnings.formatwarning = lambda message, *place, **line: printable(f"warning: {message}") + "\n"
    try:
        return act(arguments)
    except (XmrError, MemoryError, OSError, UnicodeError, RecursionError) as e:
        if os.environ.get("XMR_DEBUG") == "1":
            raise
        said = str(e)
        if not isinstance(e, XmrError):  # of the system, which no message foresaw
            said = f"{type(e).__name__}: {said.partition(chr(10))[0]}. XMR_DEBUG=1 shows where."
        say(f"error: {said}", sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; finished training epochs are saved, and the same command goes on there", file=sys.stderr)
        return 130
    finally:
        warnings.formatwarning = usual
