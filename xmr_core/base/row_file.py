"""Arrays of rows in .npy files that are larger than memory."""

import os
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile

DTYPES = (np.float32, np.float16, np.float64)
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class _Shaped:
    """What has a shape has a length and a number of axes."""

    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)


class RowFile(_Shaped):
    """An .npy file "n …" that behaves like a read-only array and holds no memory: rows are read when they are asked for.

    array[int | slice | index array | Boolean mask] → a copy; rows are read in the order of the file, whatever order they are
    asked in. shape, dtype and len are those of an array. Safe to read from several threads and after a fork.

    Rows are read by position, not mapped. Both leave what was read in the system's page cache and are equally fast, but a map
    counts every page it touched as memory of this process, and one whose file is cut short while a run reads it ends the process
    without a word, where this raises.

    Args: path: float16, float32 or float64, C order. rows: which of the file's rows to present, as a slice or an index array
        (every fifth: slice(None, None, 5)); all of them without it.
    Raises: BadInput for a file that does not exist, another type of numbers or order; DamagedFile for a file that is no .npy or
        shorter than its header says, here or when a row is read.
    """

    def __init__(self, path: Path | str, rows: slice | np.ndarray = slice(None)):
        self.path = paths.existing(path, "array file")
        try:
            self._file = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            weakref.finalize(self, os.close, self._file)
            with open(self.path, "rb") as f:
                shape, fortran, self.dtype = _header(f, self.path)
                self._start = f.tell()
            size = self.path.stat().st_size
        except OSError as e:
            if isinstance(e, DamagedFile):
                raise
            raise DamagedFile(f"{self.path} cannot be read ({e.strerror}). Replace the file.") from None
        if self.dtype not in DTYPES or fortran or not shape:
            kind = f"{self.dtype}, shape {shape}{', Fortran order' if fortran else ''}"
            raise BadInput(
                f"{self.path} holds {kind}; rows of float32 or float16 in C order are needed. "
                "Save it again with numpy.save(file, numpy.ascontiguousarray(array, 'float32'))."
            )
        self.file_shape = shape  # of the whole file, "rows …"
        self._row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * self.dtype.itemsize
        if size < (whole := self._start + shape[0] * self._row_bytes):
            raise DamagedFile(
                f"{self.path} is cut short: {size:,} bytes, but its header says {shape} of {self.dtype}, {whole:,}. Copy it again."
            )
        self._rows = np.arange(shape[0])[rows]
        self.shape = (len(self._rows), *shape[1:])

    def __getitem__(self, index) -> np.ndarray:
        wanted = self._rows[index]
        rows = np.atleast_1d(wanted)
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        order = np.argsort(rows, kind="stable")
        # stretches in which both the file's rows and their places in the result follow one another are one read
        cuts = np.flatnonzero((np.diff(rows[order]) != 1) | (np.diff(order) != 1)) + 1
        for run in np.split(order, cuts):
            if len(run):
                self._read(int(rows[run[0]]), out[run[0] : run[-1] + 1])
        return out if np.ndim(wanted) else out[0]

    def _read(self, row: int, out: np.ndarray) -> None:
        """Fill `out`, contiguous, from a row of the file on."""
        space, at = memoryview(out.reshape(-1).view(np.uint8)), self._start + row * self._row_bytes
        while len(space):
            try:
                got = os.preadv(self._file, [space], at)
            except OSError as e:
                raise DamagedFile(f"{self.path} cannot be read at byte {at:,} ({e.strerror}). Check the disk or copy it again.") from None
            if not got:
                raise DamagedFile(f"{self.path} ends at byte {at:,}: it was cut short while it was in use. Copy it again.")
            space, at = space[got:], at + got


class JoinedRows(_Shaped):
    """Several arrays "n …" one after the other as one array (train, dev and test features as those of one corpus).

    Reads like RowFile. dtype: the widest of the parts. Raises: BadInput for parts whose rows have different shapes, or no part.
    """

    def __init__(self, parts: Sequence[RowFile | np.ndarray]):
        shapes = {part.shape[1:] for part in parts}
        if len(shapes) != 1:
            raise BadInput(f"arrays of one row shape can be joined, got {sorted(shapes) or 'none at all'}.")
        self.parts = tuple(parts)
        self._starts = np.cumsum([0, *map(len, parts)])
        self._places = np.arange(self._starts[-1])
        self.shape = (int(self._starts[-1]), *shapes.pop())
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def __getitem__(self, index) -> np.ndarray:
        wanted = self._places[index]
        at = np.atleast_1d(wanted)
        owner = np.searchsorted(self._starts, at, side="right") - 1
        asked = np.unique(owner)
        if len(asked) == 1:  # the rule while training: no second copy
            out = self.parts[asked[0]][at - self._starts[asked[0]]].astype(self.dtype, copy=False)
        else:
            out = np.empty((len(at), *self.shape[1:]), self.dtype)
            for part in asked:
                mine = owner == part
                out[mine] = self.parts[part][at[mine] - self._starts[part]]
        return out if np.ndim(wanted) else out[0]


def _header(f, path: Path) -> tuple[tuple[int, ...], bool, np.dtype]:
    """(shape, Fortran order, dtype) from the start of an .npy file, without unpickling anything."""
    begin = f.read(16)
    f.seek(0)
    try:
        return _HEADERS[np.lib.format.read_magic(f)](f)
    except (ValueError, KeyError, TypeError, SyntaxError):
        raise DamagedFile(f"{path} is not an .npy file (it begins with {begin!r}). Save the array with numpy.save.") from None
