"""Arrays of rows in .npy files that are larger than memory."""

import math
import os
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import existing
from xmr_core.base.paths import open_regular

_BLOCK = 1 << 24  # numbers that are searched at a time
DTYPES = (np.float32, np.float16, np.float64)
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class _Shaped:
    """Something with a shape has a length and a number of axes; `_take` reads some of its rows."""

    shape: tuple[int, ...]
    _rows: np.ndarray

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, index) -> np.ndarray:
        selected = self._rows[index]
        out = self._take(np.atleast_1d(selected))
        return out if np.ndim(selected) else out[0]


class RowFile(_Shaped):
    """An .npy file "n …" that behaves like a read-only array and holds no memory: rows are read when they are indexed.

    array[int | slice | index array | Boolean mask] gives a copy; rows are read in the order of the file, in whatever
    order they are indexed. shape, dtype and len are those of an array. Safe to read from several threads and after a
    fork.

    Rows are read by position and not mapped. Both are equally fast and leave what was read in the system's page cache.
    But a map counts every page that it touched as memory of this process, and it ends the process without a word when
    the file is cut short during a run, where this class raises.

    Args: path: float16, float32 or float64, C order. rows: which of the file's rows to present, as a slice or an index
        array (every fifth: slice(None, None, 5)); all of them by default.
    Raises: BadInput for a file that does not exist, another type of numbers or order; DamagedFile for a file that is no
        .npy file or is shorter than its header says, here or when a row is read.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.npy"
    >>> np.save(path, np.arange(12.0).reshape(6, 2))
    >>> RowFile(path, slice(None, None, 5))[1].tolist()
    [10.0, 11.0]
    """

    def __init__(self, path: Path | str, rows: slice | np.ndarray = slice(None)):
        self.path = existing(path, "array file")
        try:
            with open_regular(self.path) as f:
                self._file = os.dup(f.fileno())
                weakref.finalize(self, os.close, self._file)
                shape, fortran, self.dtype = _header(f, self.path)
                self._start = f.tell()
            size = self.path.stat().st_size
        except DamagedFile:
            raise
        except OSError as e:
            raise DamagedFile(f"{self.path} cannot be read ({e.strerror}). Replace the file.") from None
        if self.dtype not in DTYPES or fortran or not shape:
            raise BadInput(
                f"{self.path} holds {self.dtype} of shape {shape}; rows of float32 or float16 in C order are needed. "
                "Save it again with numpy.save(file, numpy.ascontiguousarray(array, 'float32'))."
            )
        if not all(isinstance(n, int) and n > 0 for n in shape[1:]) or not isinstance(shape[0], int) or shape[0] < 0:
            raise DamagedFile(f"{self.path} has a header that no array has: shape {str(shape)[:100]}. Get it again.")
        self._row_bytes = math.prod(shape[1:]) * self.dtype.itemsize
        if size < (needed := self._start + shape[0] * self._row_bytes):
            raise DamagedFile(f"{self.path} is cut short: {size:,} bytes of {needed:,}. Copy it again.")
        self._rows = np.arange(shape[0])[rows]
        self.shape = (len(self._rows), *shape[1:])

    def _take(self, rows: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        order = np.argsort(rows, kind="stable")
        # one read for each stretch in which both the file's rows and their places in the result follow one another
        cuts = np.flatnonzero((np.diff(rows[order]) != 1) | (np.diff(order) != 1)) + 1
        for stretch in np.split(order, cuts):
            if len(stretch):
                self._read(int(rows[stretch[0]]), out[stretch[0] : stretch[-1] + 1])
        return out

    def _read(self, row: int, out: np.ndarray) -> None:
        """Fill `out`, which is contiguous, from a row of the file on."""
        space, position = memoryview(out.reshape(-1).view(np.uint8)), self._start + row * self._row_bytes
        while len(space):
            try:
                count = os.preadv(self._file, [space], position)
            except OSError:
                count = 0
            if not count:  # cut short while it was in use, or a fault of the disk
                raise DamagedFile(f"{self.path} cannot be read at byte {position:,}: it was cut short. Copy it again.")
            space, position = space[count:], position + count


def bad_rows(array: np.ndarray | _Shaped, rows: Sequence[int] | None = None) -> list[int]:
    """The rows "n …", of all or of some, that hold NaN or infinity; a file is read in blocks.

    >>> bad_rows(np.array([[1.0], [np.nan], [2.0]]))
    [1]
    """
    rows = np.arange(len(array)) if rows is None else np.asarray(rows, int)
    step = max(1, _BLOCK // max(1, math.prod(array.shape[1:])))
    blocks = (rows[start : start + step] for start in range(0, len(rows), step))
    return [int(n) for block in blocks for n in block[~np.isfinite(array[block]).reshape(len(block), -1).all(1)]]


class JoinedRows(_Shaped):
    """Several arrays "n …" one after the other as one array (train, dev and test features as those of one corpus).

    Reads like RowFile. dtype: the widest of the parts. Raises: BadInput for parts whose rows have different shapes, or
    for no part.

    >>> JoinedRows([np.zeros((2, 3)), np.ones((4, 3))])[[0, 5]].sum(1).tolist()
    [0.0, 3.0]
    """

    def __init__(self, parts: Sequence[RowFile | np.ndarray]):
        shapes = {part.shape[1:] for part in parts}
        if len(shapes) != 1:
            raise BadInput(f"arrays of one row shape can be joined, got {sorted(shapes) or 'none at all'}.")
        self.parts = tuple(parts)
        self._starts = np.cumsum([0, *map(len, parts)])
        self._rows = np.arange(self._starts[-1])
        self.shape = (int(self._starts[-1]), *shapes.pop())
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def _take(self, places: np.ndarray) -> np.ndarray:
        owner = np.searchsorted(self._starts, places, side="right") - 1
        owners = np.unique(owner)
        if len(owners) == 1:  # the rule while training: no second copy
            return self.parts[owners[0]][places - self._starts[owners[0]]].astype(self.dtype, copy=False)
        out = np.empty((len(places), *self.shape[1:]), self.dtype)
        for part in owners:
            rows = owner == part
            out[rows] = self.parts[part][places[rows] - self._starts[part]]
        return out


def _header(f, path: Path) -> tuple[tuple[int, ...], bool, np.dtype]:
    """(shape, Fortran order, dtype) from the start of an .npy file, without unpickling anything."""
    try:
        return _HEADERS[np.lib.format.read_magic(f)](f)
    except Exception:  # of numpy and of Python's parser, of many kinds
        raise DamagedFile(f"{path} is not an .npy file. Save the array with numpy.save.") from None
