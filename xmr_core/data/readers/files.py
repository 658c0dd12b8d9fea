"""Finding and reading the files of a collection."""

import ast
import codecs
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.regular import read_regular
from xmr_core.data.images.files import SUFFIXES
from xmr_core.data.readers.fault_log import FaultLog


def find_path(folder: Path, names: Sequence[str], corpus: str) -> Path:
    """The first of these files or folders that exists. Raises: BadInput with all the names that were tried."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    wanted = " or ".join(names)
    raise BadInput(f"{corpus} needs {wanted}, looked for in {folder}. Put it there or give the right data_root.")


def list_images(folder: Path, deep: bool = False, faults: FaultLog | None = None) -> dict[str, str]:
    """Name → path of every image file in a folder. Hidden files are left out, and so are names that are not UTF-8,
    which are counted.

    deep: also in its sub-folders; the name is then the path below the folder. Links to folders are followed once.
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "trip").mkdir(), Path(folder, "trip", "beach.JPG").touch(), Path(folder, "notes.txt").touch()
    ...     list(list_images(Path(folder))), list(list_images(Path(folder), deep=True))
    (None, None, None)
    ([], ['trip/beach.JPG'])
    """
    images: dict[str, str] = {}
    visited, faults = set(), faults or FaultLog()
    for place, folders, names in os.walk(folder, onerror=_raise, followlinks=True):
        status = os.stat(place)
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()  # a link back to a folder that was listed already
            continue
        visited.add((status.st_dev, status.st_ino))
        folders[:] = [name for name in folders if deep and not name.startswith(".") and _is_utf8(name)]
        faults.tolerate("files whose name is not UTF-8", [ascii(name) for name in names if not _is_utf8(name)])
        for name in names:
            if name.lower().endswith(SUFFIXES) and not name.startswith(".") and _is_utf8(name):
                images[Path(place, name).relative_to(folder).as_posix()] = str(Path(place, name))
    return images


def _raise(error: OSError) -> None:
    raise DamagedFile(f"{error.filename} cannot be listed ({error.strerror}).")


def _is_utf8(name: str) -> bool:
    return name.encode(errors="ignore").decode() == name


def read_bytes(file: Path) -> bytes:
    """All bytes of a file of a collection. Raises: DamagedFile for one that cannot be read, or is no regular file."""
    try:
        return read_regular(file)
    except OSError as e:
        raise DamagedFile(f"{file} cannot be read ({e.strerror}).") from None


def read_lines(file: Path, faults: FaultLog) -> list[str]:
    """Lines of a UTF-8 file, without line ends and byte-order mark; other lines are read as Latin-1 and counted.

    Raises: BadInput for a file in UTF-16 or UTF-32; DamagedFile for one that cannot be read.
    """
    content = read_bytes(file)
    encoding = json.detect_encoding(content)  # by its first bytes, also without a byte-order mark
    if not encoding.startswith("utf-8"):
        raise BadInput(f"{file} is written in {encoding[:6].upper()}. Save it as UTF-8.")
    if b"\n" not in content:  # of an old Mac, or saved as if it were
        content = content.replace(b"\r", b"\n")
    lines = []
    for number, raw in enumerate(content.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        text, sound = decoded_text(raw)
        if not sound:
            faults.tolerate("lines that are not UTF-8, read as Latin-1", f"{file.name} line {number}")
        lines.append(text.rstrip("\r"))
    return lines if lines[-1] else lines[:-1]


def decoded_text(raw: bytes) -> tuple[str, bool]:
    """(the text, whether it is UTF-8); what is not is read as Latin-1."""
    try:
        return raw.decode("utf-8"), True
    except UnicodeDecodeError:
        return raw.decode("latin-1"), False


def without_bytes_notation(line: str, place: str, faults: FaultLog) -> str:
    """A line without the notation in which Python writes bytes, as some files have it: b'A dog runs .'"""
    line = line.strip()
    if line[:2] not in ("b'", 'b"') or len(line) < 3 or line[-1] != line[1]:
        return line
    try:
        raw = ast.literal_eval(line)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return line
    faults.tolerate("captions written as Python bytes (b'…')", place)
    return decoded_text(raw)[0].strip()


def read_json(file: Path, faults: FaultLog, reduce: Callable[[dict], object]) -> object:
    """The value of a large JSON file, in UTF-8, -16 or -32. Other bytes are read as Latin-1 and counted.

    reduce: what to retain of an object. It is called for every object as soon as that is read, innermost first, so that
    what is not needed never fills the memory.
    Raises: DamagedFile, when the file cannot be read or is not a complete JSON file.
    """
    raw = read_bytes(file)
    encoding = json.detect_encoding(raw)  # by its first bytes
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        text = raw.decode(encoding if encoding.startswith("utf-8") else "utf-8-sig", "surrogateescape")
        text, times = re.subn("[\udc80-\udcff]", lambda byte: chr(ord(byte[0]) - 0xDC00), text)
        faults.tolerate("bytes that are not UTF-8, read as Latin-1", file.name, times)
    del raw  # hundreds of megabytes
    try:
        return json.loads(text, object_hook=reduce)
    except (ValueError, RecursionError) as e:
        raise DamagedFile(f"{file} is no whole JSON file ({e}). It was cut short or altered; get it again.") from None
