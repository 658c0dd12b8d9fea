"""Sequences of unequal length without padding: all elements in one array, and where each sequence begins."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int

from xmr_core import paths
from xmr_core.errors import BadInput, DamagedFile
from xmr_core.types import Features

Chunks = Iterable[tuple[np.ndarray, list[np.ndarray]]]
_verified: set[tuple] = set()  # (path, size, mtime) of files whose digest was checked in this process


@dataclass(frozen=True)
class Ragged:
    """states[indptr[n]:indptr[n + 1]] are the elements of sequence n, in order. Arrays or memory maps."""

    states: Float[np.ndarray, "tokens e"]
    indptr: Int[np.ndarray, " n1"]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, n: int) -> Float[np.ndarray, "l e"]:
        return self.states[self.indptr[n] : self.indptr[n + 1]]

    def padded(self, rows: np.ndarray) -> Features:
        """Sequences as a batch, zeros behind the shorter ones: local_feats "n l e" in the stored precision."""
        rows = np.asarray(rows)
        lengths = self.indptr[rows + 1] - self.indptr[rows]
        mask = np.arange(lengths.max(initial=1)) < lengths[:, None]
        out = np.zeros((*mask.shape, self.states.shape[1]), self.states.dtype)
        for at in np.argsort(rows, kind="stable"):  # a memory map is read in file order
            out[at, : lengths[at]] = self[rows[at]]
        return Features(torch.from_numpy(out), torch.from_numpy(mask))


def gather(lengths: np.ndarray, width: int, chunks: Chunks, dtype: type = np.float16) -> Ragged:
    """In memory, from (sequence numbers, their elements) in any order. Raises BadInput for numbers that are not finite."""
    indptr = _indptr(lengths)
    states = np.empty((indptr[-1], width), dtype)
    _fill(states, indptr, chunks)
    return Ragged(states, indptr)


def write_ragged(base: Path, lengths: np.ndarray, width: int, chunks: Chunks, dtype: type = np.float16) -> Ragged:
    """As gather, into `base`.states.npy and `base`.indptr.npy, whole or not at all; `base`.json, written last, has their digests.

    Raises: BadInput for numbers that are not finite (naming the sequence); CannotWrite when the folder refuses.
    """
    states, indptr, note = _files(base)
    parts = [file.with_suffix(".part") for file in (states, indptr)]
    paths.make_folder(base.parent)
    try:
        bounds = _indptr(lengths)
        out = np.lib.format.open_memmap(parts[0], "w+", dtype=dtype, shape=(int(bounds[-1]), width))
        _fill(out, bounds, chunks)
        out.flush()
        del out
        with open(parts[1], "wb") as f:
            np.save(f, bounds)
        digests = [paths.file_hash(part) for part in parts]
        note.unlink(missing_ok=True)  # from here until it is back, what lies there is not whole
        for part, file in zip(parts, (states, indptr), strict=True):
            part.replace(file)
        paths.write_json(note, {"digests": digests, "sequences": len(lengths)})
    except OSError as e:
        raise paths.cannot_write(base, e) from None
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
    return read_ragged(base)


def read_ragged(base: Path) -> Ragged | None:
    """Memory maps of what write_ragged wrote; None when there is nothing whole (never written, or killed while writing).

    The digests are checked once per process. Raises DamagedFile when the files are not what was written.
    """
    states, indptr, note = _files(base)
    if not note.exists():
        return None
    try:
        wanted = paths.read_json(note)["digests"]
        for file, digest in zip((states, indptr), wanted, strict=True):
            stamp = (str(file), (s := file.stat()).st_size, s.st_mtime_ns)
            if stamp not in _verified and paths.file_hash(file) != digest:
                raise ValueError(f"{file.name} is not what was written")
            _verified.add(stamp)
        return Ragged(np.load(states, mmap_mode="r"), np.load(indptr, mmap_mode="r"))
    except (OSError, KeyError, TypeError, ValueError) as e:
        raise DamagedFile(f"cached sequences {base} are damaged ({e}). Delete them; they are then made again.") from None


def _files(base: Path) -> tuple[Path, Path, Path]:
    return tuple(base.with_name(base.name + end) for end in (".states.npy", ".indptr.npy", ".json"))


def _indptr(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _fill(out: np.ndarray, indptr: np.ndarray, chunks: Chunks) -> None:
    filled = 0
    for rows, sequences in chunks:
        for row, values in zip(rows, sequences, strict=True):
            with np.errstate(over="ignore"):  # said below
                stored = np.asarray(values).astype(out.dtype)
            if not np.isfinite(stored).all():
                raise BadInput(f"states of caption {row} are not finite in {out.dtype}; look at the caption and the weights.")
            out[indptr[row] : indptr[row + 1]] = stored
            filled += 1
    if filled != len(indptr) - 1:
        raise BadInput(f"{filled} of {len(indptr) - 1} sequences were given.")
