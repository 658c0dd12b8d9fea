"""Frozen features, computed once and kept as memory-mapped arrays."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import filelock
import numpy as np
from jaxtyping import Float, UInt8
from tqdm.auto import tqdm

from xmr_core import paths
from xmr_core.encoders.reduce import PrincipalComponents, RootMean
from xmr_core.errors import BadInput, DamagedFile
from xmr_core.types import Corpus

_verified: set[tuple] = set()  # (path, size, mtime) of files whose digest was checked in this process


class Extractor(Protocol):
    """Pictures → local features, without learning. identity names code version and weights; shape is (l, e)."""

    identity: str
    shape: tuple[int, int]
    dtype: type
    batch: int

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]: ...


def cached_features(corpus: Corpus, extractor: Extractor, progress: Callable | None = None) -> np.ndarray:
    """Features of all pictures of a corpus, "n l e", read from the cache or computed into it.

    The file is keyed by corpus fingerprint and extractor identity, appears only when whole, and is checked against its
    digest once per process; a damaged one is rebuilt and a warning says so. Two processes asking at once: one computes.
    progress: wraps the iterable of chunks (tqdm by default).
    Raises: BadInput for non-finite features (naming the picture); CannotWrite when the cache folder refuses.
    """

    def chunks():
        for rows in (progress or tqdm)(_chunks(len(corpus.images), extractor.batch)):
            yield rows, extractor(corpus.read_pixels(rows))

    return _kept(corpus, extractor.identity, extractor.shape, extractor.dtype, chunks)


def reduced_features(corpus: Corpus, features: np.ndarray, identity: str, width: int) -> tuple[np.ndarray, np.ndarray, str]:
    """(local "n l width" by PrincipalComponents, whole pictures "n e" by RootMean, the identity of both), kept like features.

    Both learn on the training split. Raises: BadInput for a width outside 1…e.
    """
    train = corpus.rows("train")[0]

    def kept(what: str, shape: tuple[int, int], learn: Callable) -> np.ndarray:
        def chunks():
            apply = learn()
            return ((rows, apply(features[rows])) for rows in _chunks(len(features), 250))

        return _kept(corpus, f"{identity}-{what}", shape, np.float16, chunks)

    local = kept(f"pca{width}", (features.shape[1], width), lambda: PrincipalComponents(features, train, width))
    whole = kept("root-mean", (1, features.shape[2]), lambda: RootMean(features, train))
    return local, whole[:, 0], f"{identity}-pca{width}-root-mean"


def _kept(corpus: Corpus, identity: str, shape: tuple[int, int], dtype: type, chunks: Callable) -> np.ndarray:
    """The array from its file, written from chunks of (rows, features) if it is not there whole."""
    path = paths.folder("cache") / f"features-{corpus.name}-{paths.content_hash([corpus.fingerprint, identity])}.npy"
    if not _is_whole(path):
        with filelock.FileLock(path.with_suffix(".lock")):
            if not _is_whole(path, say=True):
                _write(path, corpus, identity, shape, dtype, chunks())
    return np.load(path, mmap_mode="r")


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


def _write(path: Path, corpus: Corpus, identity: str, shape: tuple[int, int], dtype: type, chunks) -> None:
    n = len(corpus.images)
    temporary = path.with_suffix(".part")
    try:
        out = np.lib.format.open_memmap(temporary, "w+", dtype=dtype, shape=(n, *shape))
        for rows, features in chunks:
            if not np.isfinite(features).all():
                bad = rows[~np.isfinite(features).all((1, 2))][0]
                raise BadInput(f"features of picture {corpus.images.index[bad]!r} are not finite; look at the picture and the weights.")
            out[rows] = features
        out.flush()
        del out
        paths.write_json(path.with_suffix(".json"), {"digest": paths.file_hash(temporary), "extractor": identity, "pictures": n})
        temporary.replace(path)
    except OSError as e:
        raise paths.cannot_write(path, e) from None
    finally:
        temporary.unlink(missing_ok=True)
