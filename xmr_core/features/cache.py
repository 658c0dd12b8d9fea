"""Arrays that are computed once and kept as memory-mapped files in `cache/`: frozen features, vectors and reduced."""

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import torch
from jaxtyping import Float, UInt8
from tqdm.auto import tqdm

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.fingerprint import content_hash, file_hash, is_own_code, own_code_version, stamp
from xmr_core.base.machine import reused_buffers
from xmr_core.base.types import Brief, Corpus
from xmr_core.features.images import inspect_images, read_squares

_EVERY = 64 << 20  # bytes of numbers after which the progress is noted
_CHUNK = 1 << 20  # bytes of a file that are read at a time
_AHEAD = 2  # batches of images that are read while the network computes
_SHOWN = 10  # unreadable files in a message
_AT_ONCE = 250  # images that are reduced at a time
_verified: set[tuple] = set()  # stamps of files whose digest was checked in this process
_Work = Callable[[int], Iterable[np.ndarray]]  # first missing row → the blocks of rows from there on

View = tuple[np.ndarray, np.ndarray]  # local "n l width", global "n e"


def cached_array(
    kind: str, key: list, shape: tuple[int, ...], dtype: type, work: _Work, names: Sequence | None = None,
    about: str = "",
) -> np.ndarray:  # fmt: skip
    """The array of a key from its file in `cache/`; computed into it where there is no complete file.

    Args: kind: the first part of the file's name. work: first missing row → blocks of rows, one after the other. names:
        of the rows, for messages. about: what made the array; it is written beside it.

    >>> cached_array("doubled", [1], (3,), np.float64, lambda start: [2.0 * np.arange(start, 3)]).tolist()
    [0.0, 2.0, 4.0]
    """
    path = paths.folder("cache") / f"{kind}-{content_hash(key)}.npy"
    if not _is_complete(path):
        with files.locked(path.with_suffix(".lock")):
            if not _is_complete(path, warn=True):
                _write(path, shape, np.dtype(dtype), work, names, about)
    return np.load(path, mmap_mode="r")


def _is_complete(path: Path, warn: bool = False) -> bool:
    """Whether the file is there as it was written. warn: say so when it is there and is not."""
    if not path.exists():
        return False
    if (now := stamp(path)) in _verified:
        return True
    try:
        if files.read_json(path.with_suffix(".json"))["digest"] != file_hash(path):
            raise DamagedFile("its bytes do not match their digest")
    except (DamagedFile, KeyError, TypeError) as e:
        if warn:
            files.warn_rebuilt(path, e)
        return False
    _verified.add(now)
    return True


def _write(path: Path, shape: tuple, dtype: np.dtype, work: _Work, names: Sequence | None, about: str) -> None:
    part, note = path.with_suffix(".part"), path.with_suffix(".note")
    try:
        with _writing(path):
            file, done, digest = _continued(part, note, shape, dtype)
        with file:
            unsaved = 0
            for values in work(done):
                with np.errstate(over="ignore"):  # what is too large for the stored type becomes ∞, and is refused
                    block = np.ascontiguousarray(values, dtype)
                if not (finite := np.isfinite(block).reshape(len(block), -1).all(1)).all():
                    row = done + int(finite.argmin())
                    name = row if names is None else names[row]
                    raise BadInput(f"features of image {name!r} are not finite as {dtype}; check it and the weights.")
                digest.update(block)
                done, unsaved = done + len(block), unsaved + block.nbytes
                with _writing(path):
                    file.write(block)
                    if unsaved >= _EVERY:
                        file.flush()  # first the bytes, then the note that says they are there
                        files.write_json(note, {"rows": done, "digest": digest.hexdigest()})
                        unsaved = 0
        with _writing(path):
            described = {"digest": digest.hexdigest(), "extractor": about, "rows": shape[0]}
            files.write_json(path.with_suffix(".json"), described)
            files.publish(part, path)
        for left_over in (note, *path.parent.glob(f".{path.stem}.*.tmp")):  # of a process killed while it wrote a note
            left_over.unlink(missing_ok=True)
    except BaseException as e:  # what was noted before, say, an image that cannot be read stays for the next time
        if isinstance(e, BadInput | CannotWrite) or not note.exists():
            part.unlink(missing_ok=True), note.unlink(missing_ok=True)
        raise


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise files.cannot_write(path, e) from None


def _continued(part: Path, note: Path, shape: tuple, dtype: np.dtype) -> tuple[BinaryIO, int, "hashlib.blake2b"]:
    """(the unfinished file at its end, its first missing row, the digest of its bytes); a new one where there is none,
    or where its bytes are not those that were noted."""
    header = io.BytesIO()
    layout = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, layout)
    header, row = header.getvalue(), int(np.prod(shape[1:])) * dtype.itemsize
    with suppress(OSError, DamagedFile, KeyError, TypeError):
        noted = files.read_json(note)
        left, digest = len(header) + noted["rows"] * row, hashlib.blake2b(digest_size=8)
        file = paths.open_to_append(part)
        file.seek(0)
        while left and (block := file.read(min(left, _CHUNK))):
            digest.update(block)
            left -= len(block)
        if not left and digest.hexdigest() == noted["digest"]:
            file.truncate(file.tell())
            return file, noted["rows"], digest
        file.close()
    note.unlink(missing_ok=True)
    part.unlink(missing_ok=True)  # not written over: it may be a link to another file
    file = open(part, "xb")  # noqa: SIM115  closed by who writes into it
    file.write(header)
    return file, 0, hashlib.blake2b(header, digest_size=8)


# Frozen features of the images of a corpus.


def unreadable_images(corpus: Corpus) -> tuple[dict[str, str], str]:
    """(image id → why its file cannot be decoded; how many there are and the first, in a sentence).

    Where there are none, `cache/` remembers it under the content of the images."""
    image_files = getattr(corpus.read_pixels, "files", ())
    note = paths.folder("cache") / f"readable-{corpus.image_fingerprint or corpus.fingerprint}.json"
    if not image_files or note.exists():
        return {}, ""
    seen = zip(corpus.images.index, inspect_images(image_files), strict=True)
    if not (bad := {name: why for name, (why, *_) in seen if why}):
        files.write_json(note, {"images": len(image_files)})
    first = ", ".join(f"{name} ({why})" for name, why in [*bad.items()][:_SHOWN])
    more = ", …; the command check lists all" if len(bad) > _SHOWN else ""
    return bad, f"{len(bad):,} of {len(image_files):,} images cannot be read: {first}{more}."


def require_readable(corpus: Corpus) -> None:
    """Raise DamagedFile with all images of a corpus whose files cannot be decoded, before work that takes hours."""
    bad, said = unreadable_images(corpus)
    if bad:
        raise DamagedFile(f"{corpus.name}: {said} Replace them or take them out.")


class Extractor(Protocol):
    """Images → local features, without learning.

    identity: names the weights and settings. shape: (l, e) of one image. dtype: of the features. batch: images at a
    time. resolution: pixels of a side of the images it reads, 0 for the corpus's own. It may have a `fit` (images.Fit),
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
        images.Crop per row, with an `identity`; None describes complete images.
    Raises: DamagedFile, before any computing, with all image files that cannot be read; BadInput for non-finite
        features (naming the image) or features of another shape than the extractor says; CannotWrite when the cache
        folder refuses.

    >>> from xmr_core.features.cells import CellDescriptor
    >>> from xmr_core.data.scenes import load_scenes
    >>> cached_features(load_scenes("tiny"), CellDescriptor(64), progress=iter).shape[1:]
    (64, 92)
    """
    selected = np.arange(len(corpus.images)) if rows is None else rows

    def pixels_of(images: np.ndarray) -> np.ndarray:
        fit = getattr(extractor, "fit", None)
        return read_squares(corpus, images, extractor.resolution, crops(images) if crops else None, fit)

    def work(start: int) -> Iterator[np.ndarray]:
        require_readable(corpus)  # now, and not after hours of computing
        batches = [selected[n : n + extractor.batch] for n in range(start, len(selected), extractor.batch)]
        shown = {"desc": f"describing {paths.printable(corpus.name)}", "unit": "image", "disable": progress is not None}
        bar = tqdm(total=len(selected), initial=start, **shown)
        with reused_buffers(), ThreadPoolExecutor(1) as reader, bar:
            coming = [reader.submit(pixels_of, batch) for batch in batches[:_AHEAD]]
            for n, batch in enumerate((progress or iter)(batches)):
                pixels = coming.pop(0).result()
                coming += [reader.submit(pixels_of, later) for later in batches[n + _AHEAD : n + _AHEAD + 1]]
                features, expected = extractor(pixels), (len(batch), *extractor.shape)
                if not isinstance(features, np.ndarray) or features.shape != expected:
                    name, got = type(extractor).__name__, getattr(features, "shape", type(features))
                    raise BadInput(f"the extractor {name} must return an array of shape {expected}, got {got}.")
                yield features
                bar.update(len(batch))

    identity = identity_of(extractor)
    key = [corpus.image_fingerprint or corpus.fingerprint, identity]
    key += [own_code_version(corpus.read_pixels)] if is_own_code(corpus.read_pixels) else []
    if rows is not None or crops is not None:
        key += [selected.tolist(), crops.identity if crops else ""]
    shape, names = (len(selected), *extractor.shape), corpus.images.index[selected]
    return cached_array(f"features-{corpus.name}", key, shape, extractor.dtype, work, names, identity)


# Frozen features made small: principal components for each cell, and one global vector of full width for the image.


def principal_components(
    features: Float[np.ndarray, "n l e"], rows: np.ndarray, width: int
) -> Float[np.ndarray, "1+w e"]:
    """The mean of the cells of the images `rows`, then their first `width` principal components.

    The components are divided by one number, so that the mean square of what they give is 1. They are not scaled one by
    one: on photographs, equal weight for the weak ones cost retrieval quality.

    >>> principal_components(np.random.default_rng(0).normal(size=(50, 4, 6)), np.arange(50), 2).shape
    (3, 6)
    """
    e = features.shape[-1]
    total, square, count = torch.zeros(e, dtype=torch.float64), torch.zeros(e, e, dtype=torch.float64), 0
    for part in _parts(rows):
        x = torch.from_numpy(features[part].astype(np.float32)).flatten(0, 1)
        total += x.sum(0, dtype=torch.float64)
        square += (x.T @ x).double()
        count += len(x)
    covariance = square / count - torch.outer(total / count, total / count)
    values, vectors = torch.linalg.eigh(covariance)  # ascending
    values, vectors = values.flip(0)[:width].clamp(min=0), vectors.flip(1)[:, :width]
    # the sign of an eigenvector is arbitrary: fix it, so that two machines agree
    vectors = vectors * torch.sign(vectors.gather(0, vectors.abs().argmax(0, keepdim=True)))
    project = (vectors / values.mean().clamp(min=1e-12).sqrt()).float()
    return torch.cat([(total / count).float()[None], project.T]).numpy()


def root_mean(features: Float[np.ndarray, "n l e"], rows: np.ndarray) -> Float[np.ndarray, "2 e"]:
    """The mean μ of the pooled roots of the images `rows`, then their deviation s in every place."""
    pooled = np.concatenate([_pooled_roots(features[part]) for part in _parts(rows)])
    mean = pooled.mean(0)
    return np.stack([mean, np.full_like(mean, max(float((pooled - mean).std()), 1e-12))])


def _pooled_roots(features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n e"]:
    x = features.astype(np.float32)
    return (np.sign(x) * np.sqrt(np.abs(x))).mean(1, dtype=np.float64)


def _parts(rows: np.ndarray) -> list[np.ndarray]:
    """About 100 images at a time."""
    return np.array_split(rows, max(1, len(rows) // 100))


@dataclass(frozen=True)
class Reduction(Brief):
    """Features "n l e" → (local "n l width", global "n e"), in half precision.

    local: z = (x − μ) P / s by the numbers of `principal_components`. vectors: g = (mean over cells of
    sign(x) √|x| − μ) / s by those of `root_mean`. Principal components of single cells lose what is weak in every cell
    but adds up over an image; the global vector keeps it. The root prevents that a few strong channels rule the mean
    (power normalisation: Perronnin, Sánchez and Mensink, ECCV 2010).

    >>> x = np.random.default_rng(0).normal(size=(50, 4, 6))
    >>> reduction = Reduction(principal_components(x, np.arange(50), 2), root_mean(x, np.arange(50)))
    >>> [part.shape for part in reduction(x)]
    [(50, 4, 2), (50, 6)]
    """

    components: Float[np.ndarray, "1+w e"]
    root_mean: Float[np.ndarray, "2 e"]

    def local(self, features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n l w"]:
        learned = torch.from_numpy(np.array(self.components, np.float32))
        with torch.inference_mode():
            z = (torch.from_numpy(features.astype(np.float32)) - learned[0]) @ learned[1:].T.contiguous()
        return z.numpy().astype(np.float16)

    def vectors(self, features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n e"]:
        g = (_pooled_roots(features) - self.root_mean[0]) / float(self.root_mean[1, 0])
        return g.astype(np.float32).astype(np.float16)

    def __call__(self, features: Float[np.ndarray, "n l e"]) -> View:
        return self.local(features), self.vectors(features)


def reduced_features(
    corpus: Corpus, features: np.ndarray, identity: str, width: int, views: Sequence[tuple[np.ndarray, str]] = ()
) -> tuple[View, list[View], str, Reduction]:
    """((local, global) reduced features, the same of each view, identity, reduction).

    The reduction learns on the training split of `features`. It is applied to the views (array, identity) too, and may
    be to features of any other images. Features and what was learned are cached on disk.
    Raises: BadInput for a width outside 1…e.
    """
    train, e = corpus.rows("train")[0], features.shape[2]
    if not 1 <= width <= e:
        raise BadInput(f"reduced width must lie in 1…{e}, got {width}.")
    key = [corpus.image_fingerprint or corpus.fingerprint, corpus.images["split"].tolist(), identity]
    pca, root, kind = f"pca{width}", "root-mean", f"reduction-{corpus.name}"

    def learned(name: str, shape: tuple, dtype: type, learn: Callable) -> np.ndarray:
        about = f"{identity}-{name}"
        return cached_array(kind, [*key, name], shape, dtype, lambda start: [learn()[start:]], about=about)

    reduction = Reduction(
        learned(pca, (1 + width, e), np.float32, lambda: principal_components(features, train, width)),
        learned(root, (2, e), np.float64, lambda: root_mean(features, train)),
    )

    def reduced(array: np.ndarray, source: str, name: str, shape: tuple, transform: Callable) -> np.ndarray:
        def work(start: int) -> Iterator[np.ndarray]:
            return (transform(array[n : n + _AT_ONCE]) for n in range(start, len(array), _AT_ONCE))

        place, about = f"features-{corpus.name}", f"{source}-{name}"
        return cached_array(place, [*key, source, name], (len(array), *shape), np.float16, work, about=about)

    def view(array: np.ndarray, source: str) -> View:
        local = reduced(array, source, pca, (array.shape[1], width), reduction.local)
        vectors = reduced(array, source, root, (1, e), lambda part: reduction.vectors(part)[:, None])
        return local, vectors[:, 0]

    return view(features, identity), [view(*v) for v in views], f"{identity}-{pca}-{root}", reduction
