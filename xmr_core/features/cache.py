"""Arrays that are computed once and kept as memory-mapped files in `cache/`."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Protocol

import filelock
import numpy as np
import torch
from jaxtyping import Float, UInt8
from tqdm.auto import tqdm

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.fingerprint import content_hash, file_hash, is_own_code, own_code_version
from xmr_core.base.row_file import reused_buffers
from xmr_core.base.types import Corpus
from xmr_core.features.images import read_squares

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


# Frozen features, computed once and kept as memory-mapped arrays.


_AHEAD = 2  # batches of images that are read while the network computes


class Extractor(Protocol):
    """Images → local features, without learning.

    identity: names the weights and settings. shape: (l, e) of one image. dtype: of the features. batch: images at a
    time. resolution: pixels of a side of the images it reads, 0 for the corpus's own. It may have a `fit` (base.fit),
    which says how images become squares; without one they are squashed. A class may say `version = 1` in its own body,
    and raise it when its numbers change. Without that, its code counts.

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

    A version that a class inherits does not count, because the class may compute something else than its base; for the
    same reason its own name counts beside its code, which may be that of several classes of one file.
    """
    own = type(extractor)
    if "version" in vars(own):
        return f"{extractor.identity}-v{own.version}"
    return f"{extractor.identity}-code-{content_hash([own_code_version(own), own.__qualname__])[:10]}"


def cached_features(
    corpus: Corpus,
    extractor: Extractor,
    progress: Callable | None = None,
    rows: np.ndarray | None = None,
    crops: Callable | None = None,
) -> np.ndarray:
    """Features of images of a corpus, "n l e", read from the cache or computed into it.

    The file is keyed by the content of the images, identity_of the extractor and, where they are given, rows and crops.
    It appears only when it is complete, and is checked against its digest once per process; a damaged one is made
    again, and a warning says so. Work that was killed continues from its last note. When two processes ask at once, one
    computes.

    Args: progress: wraps the list of batches (tqdm by default). rows: which images, all by default. crops: rows → one
        data.images Crop per row, with an `identity`; None describes complete images.
    Raises: BadInput for non-finite features (naming the image) or features of another shape than the extractor says,
        or a corpus without images; CannotWrite when the cache folder refuses.

    >>> from xmr_core.features.cells import CellDescriptor
    >>> from xmr_core.data.scenes import load_scenes
    >>> cached_features(load_scenes("tiny"), CellDescriptor(64), progress=iter).shape[1:]
    (64, 92)
    """
    if corpus.read_pixels is None:
        raise BadInput(f"{corpus.name} brings features and no images; there is nothing to extract features from.")
    selected = np.arange(len(corpus.images)) if rows is None else rows

    def pixels_of(batch: np.ndarray) -> np.ndarray:
        images, fit = selected[batch], getattr(extractor, "fit", None)
        return read_squares(corpus, images, extractor.resolution, crops(images) if crops else None, fit)

    def work(start: int) -> Iterable:
        first = range(0, len(selected), extractor.batch)
        batches = [b for n in first if (b := np.arange(n, min(n + extractor.batch, len(selected))))[0] >= start]
        with reused_buffers(), ThreadPoolExecutor(1) as reader:
            coming = [reader.submit(pixels_of, batch) for batch in batches[:_AHEAD]]
            for n, batch in enumerate((progress or counted(selected, corpus.name))(batches)):
                pixels = coming.pop(0).result()
                if n + _AHEAD < len(batches):
                    coming.append(reader.submit(pixels_of, batches[n + _AHEAD]))
                features, expected = extractor(pixels), (len(batch), *extractor.shape)
                if not isinstance(features, np.ndarray) or features.shape != expected:
                    returned = f"{type(features).__name__} of {getattr(features, 'shape', 'no shape')}"
                    name = type(extractor).__name__
                    raise BadInput(f"the extractor {name} must return an array of shape {expected}, got {returned}.")
                yield batch, features

    identity = identity_of(extractor)
    key = [corpus.image_fingerprint or corpus.fingerprint, identity]
    if is_own_code(corpus.read_pixels):
        key.append(own_code_version(corpus.read_pixels))
    if rows is not None or crops is not None:
        key += [selected.tolist(), crops.identity if crops else ""]
    shape, names = (len(selected), *extractor.shape), corpus.images.index[selected]
    return cached_array(f"features-{corpus.name}", key, shape, extractor.dtype, work, names, identity)


def counted(images: np.ndarray, name: str) -> Callable[[list], Iterable]:
    """A progress bar over batches that counts images: how many a second, and how long it will still take.

    >>> list(counted(np.arange(3), "scenes")([[0, 1], [2]]))
    [[0, 1], [2]]
    """

    def bar(batches: list) -> Iterable:
        begun = len(images) - sum(map(len, batches))  # where work that was killed goes on
        with tqdm(total=len(images), initial=begun, desc=f"describing {name}", unit="image") as shown:
            for batch in batches:
                yield batch
                shown.update(len(batch))

    return bar


# Frozen features made small: principal components for each cell, and one global vector of full width for the image.


_AT_ONCE = 250  # images

View = tuple[np.ndarray, np.ndarray]  # local "n l width", global "n e"


def require_width(width: int, e: int) -> None:
    """Raise BadInput for a reduced width outside 1…e."""
    if not 1 <= width <= e:
        raise BadInput(f"reduced width must lie in 1…{e}, got {width}.")


class PrincipalComponents:
    """z = (x − μ) P / s: the first `width` principal components, all divided by one number s: their mean square is 1.

    μ and P are learned from the cells of the images `rows`; if these are the training split, nothing of validation or
    test enters. Components are not scaled one by one: on photographs, equal weight for the weak ones cost retrieval
    quality.

    Args: features "n l e". rows: images to learn from. Raises: BadInput for a width outside 1…e.

    >>> x = np.random.default_rng(0).normal(size=(50, 4, 6))
    >>> PrincipalComponents(x, np.arange(50), 2)(x).shape
    (50, 4, 2)
    """

    def __init__(self, features: Float[np.ndarray, "n l e"], rows: np.ndarray, width: int):
        e = features.shape[-1]
        require_width(width, e)
        total, square, count = torch.zeros(e, dtype=torch.float64), torch.zeros(e, e, dtype=torch.float64), 0
        for part in _parts(rows):
            x = torch.from_numpy(features[part].astype(np.float32)).flatten(0, 1)
            total += x.sum(0, dtype=torch.float64)
            square += (x.T @ x).double()
            count += len(x)
        self.mean = (total / count).float()
        covariance = square / count - torch.outer(total / count, total / count)
        values, vectors = torch.linalg.eigh(covariance)  # ascending
        values, vectors = values.flip(0)[:width].clamp(min=0), vectors.flip(1)[:, :width]
        # the sign of an eigenvector is arbitrary: fix it, so that two machines agree
        vectors = vectors * torch.sign(vectors.gather(0, vectors.abs().argmax(0, keepdim=True)))
        self.explained = float(values.sum() / covariance.diagonal().sum())
        self.project = (vectors / values.mean().clamp(min=1e-12).sqrt()).float()

    def numbers(self) -> Float[np.ndarray, "1+w e"]:
        """What was learned: μ, then a row for each component."""
        return torch.cat([self.mean[None], self.project.T]).numpy()

    @classmethod
    def from_numbers(cls, numbers: Float[np.ndarray, "1+w e"]) -> "PrincipalComponents":
        """The same transform from its numbers; `explained` is not among them."""
        self, learned = cls.__new__(cls), torch.from_numpy(np.array(numbers, np.float32))
        self.mean, self.project, self.explained = learned[0], learned[1:].T.contiguous(), float("nan")
        return self

    def __call__(self, features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n l w"]:
        with torch.inference_mode():
            return ((torch.from_numpy(features.astype(np.float32)) - self.mean) @ self.project).numpy()


class RootMean:
    """g = (mean over cells of sign(x) √|x| − μ) / s: a global vector of full width, with mean square 1.

    Principal components of single cells lose what is weak in every cell but adds up over an image; this vector keeps
    it. The root prevents that a few strong channels rule the mean (power normalisation: Perronnin, Sánchez and Mensink,
    ECCV 2010). μ and s are learned from the images `rows`.

    Args: features "n l e". rows: images to learn from.

    >>> x = np.random.default_rng(0).normal(size=(50, 4, 6))
    >>> RootMean(x, np.arange(50))(x).shape
    (50, 1, 6)
    """

    def __init__(self, features: Float[np.ndarray, "n l e"], rows: np.ndarray):
        pooled = np.concatenate([self._pool(features[part]) for part in _parts(rows)])
        self.mean = pooled.mean(0)
        self.scale = max(float((pooled - self.mean).std()), 1e-12)

    def numbers(self) -> Float[np.ndarray, "2 e"]:
        """What was learned: μ, then s in every place."""
        return np.stack([self.mean, np.full_like(self.mean, self.scale)])

    @classmethod
    def from_numbers(cls, numbers: Float[np.ndarray, "2 e"]) -> "RootMean":
        """The same transform from its numbers."""
        self = cls.__new__(cls)
        self.mean, self.scale = np.array(numbers[0]), float(numbers[1, 0])
        return self

    @staticmethod
    def _pool(features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n e"]:
        x = features.astype(np.float32)
        return (np.sign(x) * np.sqrt(np.abs(x))).mean(1, dtype=np.float64)

    def __call__(self, features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n 1 e"]:
        return ((self._pool(features) - self.mean) / self.scale)[:, None].astype(np.float32)


class Reduction:
    """Features "n l e" → (local "n l width" by PrincipalComponents, global "n e" by RootMean), in half precision.

    components, root_mean: functions that give the two transforms when they are needed first.

    >>> x = np.random.default_rng(0).normal(size=(50, 4, 6))
    >>> reduction = Reduction(lambda: PrincipalComponents(x, np.arange(50), 2), lambda: RootMean(x, np.arange(50)))
    >>> [part.shape for part in Reduction.from_numbers(reduction.numbers())(x)]
    [(50, 4, 2), (50, 6)]
    """

    def __init__(self, components: Callable[[], PrincipalComponents], root_mean: Callable[[], RootMean]):
        self.components, self.root_mean = cache(components), cache(root_mean)

    def __call__(self, features: Float[np.ndarray, "n l e"]) -> View:
        local, vector = self.components()(features), self.root_mean()(features)
        return local.astype(np.float16), vector.astype(np.float16)[:, 0]

    def numbers(self) -> dict[str, np.ndarray]:
        """What was learned, by name."""
        return {"components": self.components().numbers(), "root_mean": self.root_mean().numbers()}

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, np.ndarray]) -> "Reduction":
        """The same from what `numbers` gave. Raises: KeyError for a name that is missing."""
        components, root_mean = numbers["components"], numbers["root_mean"]
        return cls(lambda: PrincipalComponents.from_numbers(components), lambda: RootMean.from_numbers(root_mean))


def reduced_features(
    corpus: Corpus, features: np.ndarray, identity: str, width: int, views: Sequence[tuple[np.ndarray, str]] = ()
) -> tuple[View, list[View], str, Reduction]:
    """((local features by PrincipalComponents, global features by RootMean), the same of each view, identity,
    reduction).

    Both learn on the training split of `features`. They are applied to the views (array, identity) too, and by
    `reduction` to features of any other images. Features and what was learned are cached on disk.
    Raises: BadInput for a width outside 1…e.
    """
    train, e = corpus.rows("train")[0], features.shape[2]
    require_width(width, e)  # before a file is begun
    key = [corpus.image_fingerprint or corpus.fingerprint, corpus.images["split"].tolist(), identity]
    pca, root = f"pca{width}", "root-mean"

    def learned(name: str, kind: type, rows: int, dtype: type, *options: int):
        def work(start: int):
            yield np.arange(rows), kind(features, train, *options).numbers()

        about = f"{identity}-{name}"
        return kind.from_numbers(
            cached_array(f"reduction-{corpus.name}", [*key, name], (rows, e), dtype, work, about=about)
        )

    reduction = Reduction(
        lambda: learned(pca, PrincipalComponents, 1 + width, np.float32, width),
        lambda: learned(root, RootMean, 2, np.float64),
    )

    def reduced(array: np.ndarray, source: str, name: str, shape: tuple[int, int], transform: Callable) -> np.ndarray:
        def work(start: int):
            for n in range(start, len(array), _AT_ONCE):
                rows = np.arange(n, min(n + _AT_ONCE, len(array)))
                yield rows, transform()(array[rows])

        place, about = f"features-{corpus.name}", f"{source}-{name}"
        return cached_array(place, [*key, source, name], (len(array), *shape), np.float16, work, about=about)

    def view(array: np.ndarray, source: str) -> View:
        local = reduced(array, source, pca, (array.shape[1], width), reduction.components)
        return local, reduced(array, source, root, (1, e), reduction.root_mean)[:, 0]

    return view(features, identity), [view(*v) for v in views], f"{identity}-{pca}-{root}", reduction


def _parts(rows: np.ndarray) -> list[np.ndarray]:
    """About 100 images at a time."""
    return np.array_split(rows, max(1, len(rows) // 100))
