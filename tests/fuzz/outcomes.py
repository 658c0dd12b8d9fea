"""Cases, and what came of each: run one after the other in a process that may hang, crash or fill its memory."""

import contextlib
import io
import os
import pickle
import resource
import select
import signal
import struct
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xmr_core.base.errors import XmrError

GOOD = ("clear error", "tolerated", "rebuilt", "without effect")
SECONDS = 60  # that one case may take, on a machine that does other work too
MEMORY = 4 << 30  # bytes that one case may take, beside those of the process that starts it
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Case:
    """face: the part of the package that reads the input. name: what is wrong with it. act: gives it to the face and
    returns one of GOOD but the first, or 'SILENT: …'; an error of the package is the first."""

    face: str
    name: str
    act: Callable[[], str]


def outcome_of(case: Case) -> str:
    """What came of a case in this process."""
    signal.signal(signal.SIGALRM, _too_late)
    signal.alarm(SECONDS)
    try:
        silent = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with silent[0], silent[1], warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return case.act()
    except XmrError as e:
        text = str(e)
        clear = text.strip() and len(text) < 2000 and "\x1b" not in text
        return "clear error" if clear else f"unclear error: {text!r:.200}"
    except TimeoutError:
        return "HANG"
    except BaseException as e:
        return f"TRACEBACK: {type(e).__name__}: {str(e)[:150]!r}"
    finally:
        signal.alarm(0)


def outcomes(cases: Sequence[Case]) -> list[tuple[Case, str]]:
    """What came of each case. They run in a fork of this process; where that ends or stands still, the next fork goes
    on behind the case that did it."""
    out: list[tuple[Case, str]] = []
    while len(out) < len(cases):
        reader, writer = os.pipe()
        if not (pid := os.fork()):
            os.close(reader)
            _serve(cases[len(out) :], writer)
        os.close(writer)
        while len(out) < len(cases):
            answer = _answer(reader)
            if answer is None:
                os.kill(pid, signal.SIGKILL)
                out.append((cases[len(out)], "CRASH, or a hang that nothing interrupts"))
                break
            out.append((cases[len(out)], answer))
        os.close(reader)
        os.waitpid(pid, 0)
    return out


def table(results: Iterable[tuple[Case, str]]) -> str:
    """Counts by face and class, and every case that came out badly."""
    counts, bad = Counter(), []
    for case, outcome in results:
        kind = outcome if outcome in GOOD else "BAD"
        counts[case.face, kind] += 1
        if kind == "BAD":
            bad.append(f"{case.face} | {case.name} | {outcome}")
    faces = list(dict.fromkeys(face for face, _ in counts))
    lines = ["| face | inputs | " + " | ".join((*GOOD, "BAD")) + " |", "|---" * (len(GOOD) + 3) + "|"]
    for face in [*faces, "all"]:
        row = [sum(n for (f, k), n in counts.items() if k == kind and face in (f, "all")) for kind in (*GOOD, "BAD")]
        lines.append(f"| {face} | {sum(row)} | " + " | ".join(map(str, row)) + " |")
    return "\n".join([*lines, "", *bad])


def _serve(cases: Sequence[Case], writer: int) -> None:
    status = 1
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        for case in cases:
            content = pickle.dumps(outcome_of(case))
            os.write(writer, _LENGTH.pack(len(content)) + content)
        status = 0
    finally:
        os._exit(status)


def _answer(reader: int) -> str | None:
    if not select.select([reader], [], [], 2 * SECONDS)[0]:
        return None
    head = os.read(reader, _LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return pickle.loads(os.read(reader, _LENGTH.unpack(head)[0]))


def _too_late(*_) -> None:
    raise TimeoutError
