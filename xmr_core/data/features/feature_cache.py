"""Frozen features, computed once and kept as memory-mapped arrays."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import filelock
import numpy as np
from jaxtyping import Float, UInt8
from tqdm.auto import tqdm

from xmr_core.base import files, paths
from xmr_core.base.code_version import is_own_code, own_code_version
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.fingerprint import content_hash, file_hash
from xmr_core.base.types import Corpus

_AHEAD = 2  # batches of images that are read while the network computes
_EVERY = 64 << 20  # bytes of features after which the progress is noted
_verified: set[tuple] = set()  # (path, size, time of change) of files whose digest was checked in this process
_Work = Callable[[int], Iterable[tuple[np.ndarray, np.ndarray]]]  # first missing row → (rows, values), rows ascending


class Extractor(Protocol):
    """Images → local features, without learning.

    identity: names the weights and settings. shape: (l, e) of one image. dtype: of the features. batch: images at a time.
    resolution: pixels of a side of the images it reads, 0 for the corpus's own.
    A class may say `version = 1` in its own body, and raise it when its numbers change. Without that, its code counts.

    >>> class Brightness:
    ...     identity, shape, dtype, batch, resolution = "brightness", (1, 1), np.float32, 64, 0
    ...     def __call__(self, pixels):
    ...         return pixels.mean((1, 2, 3))[:, None, None]
    >>> identity_of(Brightness()).startswith("brightness-code-")
    True
    """

    identity: str
    shape: tuple[int, int]
    dtype: type
    batch: int
    resolution: int

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]: ...


def identity_of(extractor: Extractor) -> str:
    """What names an extractor's features: its identity, and its explicit version or the version of its code.

    A version that a class inherits does not count, because the class may compute something else than its base.
    """
    if "version" in vars(type(extractor)):
        return f"{extractor.identity}-v{type(extractor).version}"
    return f"{extractor.identity}-code-{own_code_version(type(extractor))}"


def cached_features(
    corpus: Corpus,
    extractor: Extractor,
    progress: Callable | None = None,
    rows: np.ndarray | None = None,
    crops: Callable | None = None,
) -> np.ndarray:
    """Features of images of a corpus, "n l e", read from the cache or computed into it.

    The file is keyed by the content of the images, identity_of the extractor and, where they are given, rows and crops. It
    appears only when it is complete, and is checked against its digest once per process; a damaged one is made again, and
    a warning says so. Work that was killed continues from its last note. When two processes ask at once, one computes.

    Args: progress: wraps the list of batches (tqdm by default). rows: which images, all by default. crops: rows → one
        data.images Crop per row, with an `identity`; None describes complete images.
    Raises: BadInput for non-finite features (naming the image), or a corpus without images; CannotWrite when the cache
        folder refuses.

    >>> from xmr_core.data.features.cells import CellDescriptor
    >>> from xmr_core.data.scenes import load_scenes
    >>> cached_features(load_scenes("tiny"), CellDescriptor(64), progress=iter).shape[1:]
    (64, 92)
    """
    if corpus.read_pixels is None:
        raise BadInput(f"{corpus.name} brings features and no images; there is nothing to extract features from.")
    selected = np.arange(len(corpus.images)) if rows is None else rows
    size = {"resolution": extractor.resolution} if extractor.resolution else {}

    def pixels_of(batch: np.ndarray) -> np.ndarray:
        images = selected[batch]
        return corpus.read_pixels(images, **size, **({"crops": crops(images)} if crops else {}))

    def work(start: int) -> Iterable:
        batches = [b for b in _chunks(len(selected), extractor.batch) if b[0] >= start]
        with ThreadPoolExecutor(1) as reader:
            coming = [reader.submit(pixels_of, batch) for batch in batches[:_AHEAD]]
            for n, batch in enumerate((progress or tqdm)(batches)):
                pixels = coming.pop(0).result()
                if n + _AHEAD < len(batches):
                    coming.append(reader.submit(pixels_of, batches[n + _AHEAD]))
                yield batch, extractor(pixels)

    identity = identity_of(extractor)
    key = [corpus.picture_fingerprint or corpus.fingerprint, identity]
    if is_own_code(corpus.read_pixels):
        key.append(own_code_version(corpus.read_pixels))
    if rows is not None or crops is not None:
        key += [selected.tolist(), crops.identity if crops else ""]
    names = corpus.images.index[selected]
    shape = (len(selected), *extractor.shape)
    return cached_array(f"features-{corpus.name}", key, shape, extractor.dtype, work, names, identity)


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

    Args: kind: the first part of the file's name. work: first missing row → (rows, values) in ascending order. names: of
        the rows, for messages. about: what made the array; it is written beside it.

    >>> cached_array("doubled", [1], (3,), np.float64, lambda start: [(np.arange(3), 2.0 * np.arange(3))]).tolist()
    [0.0, 2.0, 4.0]
    """
    path = paths.folder("cache") / f"{kind}-{content_hash(key)}.npy"
    if not _is_complete(path):
        with filelock.FileLock(path.with_suffix(".lock")):
            if not _is_complete(path, warn=True):
                _write(path, shape, dtype, work, names, about)
    return np.load(path, mmap_mode="r")


def _chunks(n: int, size: int) -> list[np.ndarray]:
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]


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

    def discard() -> None:
        temporary.unlink(missing_ok=True)
        note.unlink(missing_ok=True)

    try:
        array, start = _continued(temporary, note, shape, dtype)
        unsaved = 0
        for rows, values in work(start):
            finite = np.isfinite(values)
            if not finite.all():
                row = rows[~finite.reshape(len(rows), -1).all(1)][0]
                discard()
                name = row if names is None else names[row]
                raise BadInput(f"features of image {name!r} are not finite; check the image and the weights.")
            array[rows] = values
            unsaved += values.size * array.itemsize
            if unsaved >= _EVERY:
                array.flush()  # first the bytes, then the note that says they are there
                files.write_json(note, {"rows": int(rows[-1]) + 1})
                unsaved = 0
        array.flush()
        del array
        files.write_json(path.with_suffix(".json"), {"digest": file_hash(temporary), "extractor": about, "rows": shape[0]})
        files.publish(temporary, path)
        note.unlink(missing_ok=True)
    except DamagedFile:  # an image that cannot be read; what was computed before it stays for the next time
        raise
    except OSError as e:
        discard()
        raise files.cannot_write(path, e) from None


def _continued(temporary: Path, note: Path, shape: tuple[int, ...], dtype: type) -> tuple[np.ndarray, int]:
    """The unfinished array and its first missing row; a new array and 0 where there is none that fits."""
    if temporary.exists() and note.exists():
        try:
            start = int(files.read_json(note)["rows"])
            size = temporary.stat().st_size
            array = np.lib.format.open_memmap(temporary, "r+")  # which fills a file that was cut with zeros
            fits = size == array.offset + array.nbytes and array.shape == shape and array.dtype == dtype
            if fits and 0 <= start <= shape[0]:
                return array, start
        except (DamagedFile, KeyError, TypeError, ValueError):
            pass  # of no use: begin again
    note.unlink(missing_ok=True)
    array = np.lib.format.open_memmap(temporary, "w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):  # a full disk is reported now; a memory map without room would kill the process
        with open(temporary, "r+b") as f:
            os.posix_fallocate(f.fileno(), 0, temporary.stat().st_size)
    return array, 0
