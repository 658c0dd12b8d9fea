"""Arrays that are computed once and kept as memory-mapped files in `cache/`."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock
import numpy as np

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.fingerprint import content_hash, file_hash

_EVERY = 64 << 20  # bytes of numbers after which the progress is noted
_verified: set[tuple] = set()  # (path, size, time of change) of files whose digest was checked in this process
_Work = Callable[[int], Iterable[tuple[np.ndarray, np.ndarray]]]  # first missing row → (rows, values), rows ascending


def cached_array(
    kind: str,
    key: list,
    shape: tuple[int, ...],
    dtype: type,
    work: _Work,
    names: Sequence | None = None,
    about: str = "",
) -> np.ndarray:
    """The array of a key from its file in `cache/`; computed into it where there is no complete file.

    Args: kind: the first part of the file's name. work: first missing row → (rows, values) in ascending order. names:
        of the rows, for messages. about: what made the array; it is written beside it.

    >>> cached_array("doubled", [1], (3,), np.float64, lambda start: [(np.arange(3), 2.0 * np.arange(3))]).tolist()
    [0.0, 2.0, 4.0]
    """
    path = paths.folder("cache") / f"{kind}-{content_hash(key)}.npy"
    if not _is_complete(path):
        with filelock.FileLock(path.with_suffix(".lock")):
            if not _is_complete(path, warn=True):
                _write(path, shape, dtype, work, names, about)
    return np.load(path, mmap_mode="r")


def _is_complete(path: Path, warn: bool = False) -> bool:
    """Whether the file is there as it was written. warn: say so when it is there and is not."""
    if not path.exists():
        return False
    stat = path.stat()
    stamp = (str(path), stat.st_size, stat.st_mtime_ns)
    if stamp in _verified:
        return True
    try:
        if files.read_json(path.with_suffix(".json"))["digest"] != file_hash(path):
            raise DamagedFile("its bytes do not match their digest")
    except (DamagedFile, KeyError, TypeError) as e:
        if warn:
            files.warn_rebuilt(path, e)
        return False
    _verified.add(stamp)
    return True


def _write(path: Path, shape: tuple[int, ...], dtype: type, work: _Work, names: Sequence | None, about: str) -> None:
    temporary, note = path.with_suffix(".part"), path.with_suffix(".note")
    try:
        with _writing(path):
            array, start, digest = _continued(temporary, note, shape, dtype)
        unsaved = 0
        for rows, values in work(start):
            with np.errstate(over="ignore"):  # what is too large for the stored type becomes ∞, and is refused
                array[rows] = values
            finite = np.isfinite(array[rows]).reshape(len(rows), -1).all(1)
            if not finite.all():
                row = rows[~finite][0]
                name = row if names is None else names[row]
                raise BadInput(
                    f"features of image {name!r} are not finite as {np.dtype(dtype)}; check it and the weights."
                )
            digest.update(np.ascontiguousarray(array[rows]).tobytes())
            unsaved += values.size * array.itemsize
            if unsaved >= _EVERY:
                with _writing(path):
                    array.flush()  # first the bytes, then the note that says they are there
                    files.write_json(note, {"rows": int(rows[-1]) + 1, "digest": digest.hexdigest()})
                unsaved = 0
        with _writing(path):
            array.flush()
            del array
            record = {"digest": file_hash(temporary), "extractor": about, "rows": shape[0]}
            files.write_json(path.with_suffix(".json"), record)
            files.publish(temporary, path)
        for left_over in (note, *path.parent.glob(f".{path.stem}.*.tmp")):  # of a process killed while it wrote a note
            left_over.unlink(missing_ok=True)
    except BaseException as e:  # what was noted before, say, an image that cannot be read stays for the next time
        if isinstance(e, BadInput | CannotWrite) or not note.exists():
            temporary.unlink(missing_ok=True), note.unlink(missing_ok=True)
        raise


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise e if isinstance(e, CannotWrite) else files.cannot_write(path, e) from None


def _continued(temporary: Path, note: Path, shape: tuple[int, ...], dtype: type) -> tuple[np.ndarray, int, object]:
    """The unfinished array, its first missing row, and the digest of the rows before it; a new array and 0 where there
    is none that fits, or its rows are not those that were noted."""
    with suppress(Exception):  # nothing noted, a link, or a damaged header, of which errors of many kinds come
        if temporary.is_symlink():
            raise FileExistsError(temporary)
        noted, size = files.read_json(note), temporary.stat().st_size
        array = np.lib.format.open_memmap(temporary, "r+")  # which fills a file that was cut with zeros
        if size == array.offset + array.nbytes and array.shape == shape and array.dtype == dtype:
            digest = _digest_of(array[: noted["rows"]])
            if digest.hexdigest() == noted["digest"]:
                return array, noted["rows"], digest
    note.unlink(missing_ok=True)
    temporary.unlink(missing_ok=True)  # not written over: it may be a link to another file
    array = np.lib.format.open_memmap(temporary, "w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):  # a full disk is reported now; a memory map without room would kill the process
        with open(temporary, "r+b") as f:
            os.posix_fallocate(f.fileno(), 0, temporary.stat().st_size)
    return array, 0, _digest_of(array[:0])


def _digest_of(rows: np.ndarray):
    digest = hashlib.blake2b(digest_size=8)
    for start in range(0, len(rows), 1024):
        digest.update(np.ascontiguousarray(rows[start : start + 1024]).tobytes())
    return digest
