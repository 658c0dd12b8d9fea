"""Where runs, caches and outputs live; and what others made: regular files only, no links where something is written,
names and texts that cannot steer a terminal or a figure, code that runs only where it is trusted."""

import codecs
import errno
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile, printable


def root() -> Path:
    """The folder that holds `runs/`, `cache/` and `outputs/`.

    It is `$XMR_HOME` when that is set; else the checkout this package was imported from (recognised by the
    `pyproject.toml` beside the package); else the current folder. A notebook therefore finds the same runs from
    JupyterLab, papermill and pytest, whose current folders differ.
    """
    if home := os.environ.get("XMR_HOME"):
        return Path(home).expanduser().resolve()
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "pyproject.toml").exists() else Path.cwd()


def folder(kind: str) -> Path:
    """`root()/kind`, created. kind: 'runs', 'cache' or 'outputs'. Raises: CannotWrite when it cannot be created."""
    return make_folder(root() / kind)


def cannot_write(path: Path | str, error: OSError) -> CannotWrite:
    """The error for a refused write, with its cause and what to do about it; one that says so already stays."""
    if isinstance(error, CannotWrite):
        return error
    remedy = "Free some space, or choose another folder (environment variable XMR_HOME, or the output path)."
    return CannotWrite(f"cannot write {path} ({error.strerror or error}). {remedy}")


def make_folder(path: Path | str) -> Path:
    """Create a folder and its parents. Raises: CannotWrite with the reason when that is impossible."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise cannot_write(path, e) from None
    return path


def open_regular(path: Path | str) -> BinaryIO:
    """A regular file, or a link to one, opened for reading in bytes.

    A pipe, a socket or a device is refused at once: reading it could wait for ever, or never end.
    Raises: OSError, with the reason in its strerror.

    >>> open_regular("/dev/zero")
    Traceback (most recent call last):
    OSError: [Errno 22] not a regular file: '/dev/zero'
    """
    return os.fdopen(_opened(path, os.O_RDONLY), "rb")


def open_to_append(path: Path | str) -> BinaryIO:
    """A regular file opened for reading and for adding bytes at its end; an empty one where there was none.

    A link is refused, also a second name of one file: in a folder of others it may lead to any file of the user.
    Raises: OSError, as open_regular.
    """
    handle = _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0))
    if os.fstat(handle).st_nlink > 1:
        os.close(handle)
        raise OSError(errno.EMLINK, "the file has a second name elsewhere", str(path))
    return os.fdopen(handle, "ab+")


def _opened(path: Path | str, flags: int) -> int:
    try:
        handle = os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    except ValueError as e:  # a zero byte in the name
        raise OSError(errno.EINVAL, str(e), str(path)) from None
    except OSError as e:
        raise (OSError(e.errno, "links are not followed", str(path)) if e.errno == errno.ELOOP else e) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return handle


def read_regular(path: Path | str) -> bytes:
    """All bytes of a regular file. Raises: OSError, as open_regular.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = Path(file.name).write_bytes(b"a dog")
    ...     read_regular(file.name)
    b'a dog'
    """
    with open_regular(path) as f:
        return f.read()


# Texts of others, in whatever encoding they were saved.


# Bytes that are no UTF-8, in Windows-1252
codecs.register_error("western", lambda e: (e.object[e.start : e.end].decode("cp1252", "replace"), e.end))
_WESTERN = "À-ÏÑ-ÖØ-Üß-ïñ-öø-üÿŒœŸ"  # without Icelandic's, which stand for letters of Czech and Turkish as well
_FOREIGN = re.compile(  # four characters beyond ASCII in a row, three letters, others than Western ones, odd places
    rf"[^\0-\x7f]{{4}}|[{_WESTERN}]{{3}}|[^\0-\x7f{_WESTERN}\xa0-£¥§©ª«\xad®°-´µ·¹-¿×÷€‚„…‰‹›‘’“”•–—™]"
    rf"|[A-Za-z{_WESTERN}][¡¿„‚£]|[ªº£¹²³±¼½¾][A-Za-z{_WESTERN}]|õ(?!e)"
)


def decoded(raw: bytes) -> tuple[str, bool]:
    r"""(a text, whether it is UTF-8); bytes that are not are read as Windows-1252.

    >>> decoded(b"caf\xe9")
    ('café', False)
    """
    text = raw.decode(errors="western")
    return text, text.encode() == raw


def decoded_lines(lines: Iterable[bytes], source: object, part: str = "line") -> Iterator[tuple[str, bool]]:
    """`decoded` of each line of a file. source, part: the file, and what its lines are, for messages.

    Raises: BadInput after the last line, if more than a quarter of the lines beyond ASCII, and more than one in a
        hundred of all, are neither UTF-8 nor look like a Western language in Windows-1252; one line of ten or more may.
        In such a language letters beyond ASCII stand alone or in pairs, and they are those of German, French, Spanish
        and their neighbours.

    >>> list(decoded_lines(["собака".encode("cp1251")], "captions.csv"))
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: captions.csv is neither UTF-8 (from line 1 on) nor Western text. Save it as UTF-8.
    """
    number, beyond, foreign = 0, 0, []
    for number, raw in enumerate(lines, 1):
        text, sound = decoded(raw if number > 1 else raw.removeprefix(codecs.BOM_UTF8))
        foreign += [number] * (not sound and bool(_FOREIGN.search(text)))
        beyond += not raw.isascii()
        yield text, sound
    if 4 * len(foreign) > beyond and 100 * len(foreign) > number and len(foreign) > (number >= 10):
        raise BadInput(f"{source} is neither UTF-8 (from {part} {foreign[0]} on) nor Western text. Save it as UTF-8.")


def decoded_text(content: bytes, source: object, separator: bytes = b"\n") -> tuple[str, list[int]]:
    """(the text of a file, the numbers of its lines that are not UTF-8). UTF-16 and UTF-32 are recognised by their
    first bytes. separator: what ends a line. Raises: BadInput as decoded_lines; DamagedFile for broken UTF-16.

    >>> decoded_text("a café".encode("utf-16"), "a.txt")
    ('a café', [])
    """
    encoding = json.detect_encoding(content)
    with suppress(UnicodeDecodeError):
        return content.decode(encoding), []
    if not encoding.startswith("utf-8"):
        raise DamagedFile(f"{source} begins as {encoding.upper()} and does not go on: it is cut short.")
    parts = decoded_lines(content.split(separator), source, "line" if separator == b"\n" else "string")
    texts, sound = zip(*parts, strict=True)
    return separator.decode().join(texts), [n for n, fine in enumerate(sound, 1) if not fine]


def is_text(value: object) -> bool:
    """Whether it is a string that UTF-8 can write; one with half a character (U+D800 to U+DFFF) it cannot."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def say(text: object, file: TextIO | None = None) -> None:
    """Print a line that may hold texts of others, by default where `print` does."""
    print(printable(text), file=file, flush=True)


def forgive_console() -> None:
    r"""From now on, what the console's encoding does not have is written as \u1234, and ends nothing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not one that a notebook or a test put there
            stream.reconfigure(errors="backslashreplace")


def plain_math(text: object) -> str:
    r"""A text of others for matplotlib: printable, and a dollar sign starts no formula.

    >>> plain_math("costs $5_{")
    'costs \\$5_{'
    """
    return re.sub(r"(?<!\\)\$", r"\\$", printable(text))


def require_trusted(address: str, source: str) -> None:
    """Refuse the address 'package.module:NAME' of code that a file asks for, unless the user imported that module
    before, or the environment variable XMR_TRUST lists it (several with commas).

    Importing a module runs it, and a file from elsewhere must not choose what runs. source: the file, for messages.

    >>> require_trusted("my_module:SPEC", "model.safetensors")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: model.safetensors asks for the code my_module:SPEC. If you trust it, ...
    """
    module = str(address).partition(":")[0]
    if ":" in str(address) and module not in sys.modules and module not in os.environ.get("XMR_TRUST", "").split(","):
        raise BadInput(
            f"{source} asks for the code {address}. If you trust it, import {module} before, or set XMR_TRUST={module}."
        )
