"""Frozen features, computed once and kept as memory-mapped arrays."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
from jaxtyping import Float, UInt8
from tqdm.auto import tqdm

from xmr_core.base.buffers import reused_buffers
from xmr_core.base.code_version import is_own_code, own_code_version
from xmr_core.base.errors import BadInput
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.fit import read_squares
from xmr_core.base.types import Corpus
from xmr_core.data.features.array_cache import cached_array

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

    >>> from xmr_core.data.features.cells import CellDescriptor
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
