"""Where runs, caches and outputs live; and what others made: regular files only, no links where something is written,
names and texts that cannot steer a terminal or a figure, code that runs only where it is trusted."""

import errno
import os
import re
import stat
import sys
from pathlib import Path
from typing import BinaryIO, TextIO

from xmr_core.base.errors import BadInput, CannotWrite, printable


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


def say(text: object, file: TextIO | None = None) -> None:
    """Print a line that may hold texts of others, by default where `print` does."""
    print(printable(text), file=file, flush=True)


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
