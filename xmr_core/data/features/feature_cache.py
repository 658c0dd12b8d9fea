"""Frozen features, computed once and kept as memory-mapped arrays."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import filelock
import numpy as np
from jaxtyping import Float, UInt8
from tqdm.auto import tqdm

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import Corpus

_AHEAD = 2  # batches of pictures that are read while the network computes
_EVERY = 64 << 20  # bytes of features after which it is noted how far the work is
_verified: set[tuple] = set()  # (path, size, mtime) of files whose digest was checked in this process


class Extractor(Protocol):
    """Pictures → local features, without learning. identity names code version and weights; shape is (l, e).

    resolution: of the pictures it reads, 0 for the corpus's own.
    """

    identity: str
    shape: tuple[int, int]
    dtype: type
    batch: int
    resolution: int

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]: ...


def cached_features(
    corpus: Corpus, extractor: Extractor, progress: Callable | None = None, rows: np.ndarray | None = None, crops: Callable | None = None
) -> np.ndarray:
    """Features of pictures of a corpus, "n l e", read from the cache or computed into it.

    The file is keyed by the pictures' content, the extractor's identity and, where they are given, rows and crops. It appears only
    when whole, and is checked against its digest once per process; a damaged one is rebuilt and a warning says so. Work that was
    killed is continued where it was noted last. Two processes asking at once: one computes.
    progress: wraps the list of batches (tqdm by default). rows: which pictures, all by default. crops: rows → one
    data.pictures.Crop per row, with an `identity`; None describes whole pictures.
    Raises: BadInput for non-finite features (naming the picture), or a corpus without pictures; CannotWrite when the cache folder refuses.
    """
    if corpus.read_pixels is None:
        raise BadInput(f"{corpus.name} brings features and no pictures; there is nothing to extract features from.")
    picked = np.arange(len(corpus.images)) if rows is None else rows
    resolution = {"resolution": extractor.resolution} if extractor.resolution else {}

    def work(start: int) -> Iterable:
        batches = [b for b in _chunks(len(picked), extractor.batch) if b[0] >= start]
        with ThreadPoolExecutor(1) as reader:
            read = [(b, reader.submit(_pixels, corpus, picked[b], resolution, crops)) for b in batches[:_AHEAD]]
            for n, batch in enumerate((progress or tqdm)(batches)):
                pixels = read.pop(0)[1].result()
                if n + _AHEAD < len(batches):
                    later = batches[n + _AHEAD]
                    read.append((later, reader.submit(_pixels, corpus, picked[later], resolution, crops)))
                yield batch, extractor(pixels)

    key = [corpus.picture_fingerprint or corpus.fingerprint, extractor.identity]
    if rows is not None or crops is not None:
        key += [picked.tolist(), crops.identity if crops else ""]
    names = corpus.images.index[picked]
    return kept(f"features-{corpus.name}", key, (len(picked), *extractor.shape), extractor.dtype, work, names, extractor.identity)


def kept(
    what: str, key: list, shape: tuple[int, ...], dtype: type, work: Callable[[int], Iterable], names=None, about: str = ""
) -> np.ndarray:
    """The array from its file in `cache/`, computed into it if it is not there whole.

    work: first row that is missing → (rows, values) in ascending order. names: of the rows, for messages. about: kept beside it.
    """
    path = paths.folder("cache") / f"{what}-{paths.content_hash(key)}.npy"
    if not _is_whole(path):
        with filelock.FileLock(path.with_suffix(".lock")):
            if not _is_whole(path, say=True):
                _write(path, shape, dtype, work, names, about)
    return np.load(path, mmap_mode="r")


def _pixels(corpus: Corpus, rows: np.ndarray, resolution: dict, crops: Callable | None) -> np.ndarray:
    return corpus.read_pixels(rows, **resolution, **({"crops": crops(rows)} if crops else {}))


def _chunks(n: int, size: int) -> list[np.ndarray]:
    return [np.arange(at, min(at + size, n)) for at in range(0, n, size)]


def _is_whole(path: Path, say: bool = False) -> bool:
    """Is the file there and as it was written? say: warn when it is there but not whole."""
    if not path.exists():
        return False
    stat = path.stat()
    stamp = (str(path), stat.st_size, stat.st_mtime_ns)
    if stamp in _verified:
        return True
    try:
        whole = paths.read_json(path.with_suffix(".json"))["digest"] == paths.file_hash(path)
        reason = DamagedFile("its bytes do not match their digest")
    except (DamagedFile, KeyError, TypeError) as e:
        whole, reason = False, e
    if whole:
        _verified.add(stamp)
    elif say:
        paths.say_rebuilt(path, reason)
    return whole


def _write(path: Path, shape: tuple[int, ...], dtype: type, work: Callable, names, about: str) -> None:
    temporary, note = path.with_suffix(".part"), path.with_suffix(".note")
    try:
        out, start = _continued(temporary, note, shape, dtype)
        unsaved = 0
        for rows, values in work(start):
            finite = np.isfinite(values)
            if not finite.all():
                bad = rows[~finite.reshape(len(rows), -1).all(1)][0]
                temporary.unlink(missing_ok=True), note.unlink(missing_ok=True)
                name = bad if names is None else names[bad]
                raise BadInput(f"features of picture {name!r} are not finite; look at the picture and the weights.")
            out[rows] = values
            unsaved += values.size * out.itemsize
            if unsaved >= _EVERY:
                out.flush()  # first the bytes, then the note that says they are there
                paths.write_json(note, {"rows": int(rows[-1]) + 1})
                unsaved = 0
        out.flush()
        del out
        paths.write_json(path.with_suffix(".json"), {"digest": paths.file_hash(temporary), "extractor": about, "rows": shape[0]})
        temporary.replace(path)
        note.unlink(missing_ok=True)
    except OSError as e:
        if isinstance(e, DamagedFile):
            raise  # a picture that cannot be read; what was computed before it stays for the next time
        temporary.unlink(missing_ok=True), note.unlink(missing_ok=True)
        raise paths.cannot_write(path, e) from None


def _continued(temporary: Path, note: Path, shape: tuple[int, ...], dtype: type) -> tuple[np.ndarray, int]:
    """The unfinished array and its first missing row; a new one and 0 where there is none that fits."""
    if temporary.exists() and note.exists():
        try:
            start = int(paths.read_json(note)["rows"])
            size = temporary.stat().st_size
            out = np.lib.format.open_memmap(temporary, "r+")  # which fills a file that was cut with zeros
            if size == out.offset + out.nbytes and out.shape == shape and out.dtype == dtype and 0 <= start <= shape[0]:
                return out, start
        except (DamagedFile, KeyError, TypeError, ValueError):
            pass  # of no use: begin again
    note.unlink(missing_ok=True)
    out = np.lib.format.open_memmap(temporary, "w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):  # a disk that is too small says so now; a memory map without room would kill the process
        with open(temporary, "r+b") as f:
            os.posix_fallocate(f.fileno(), 0, temporary.stat().st_size)
    return out, 0
