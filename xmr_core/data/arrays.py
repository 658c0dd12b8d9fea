"""A Corpus from features and captions in memory."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import SPLITS, Corpus
from xmr_core.data.readers.assembly import require_name


def from_arrays(
    features,
    captions: Sequence[str],
    image_of: Sequence[int] | None = None,
    splits: Sequence[str] | Mapping[str, float] | None = None,
    name: str = "arrays",
    ordered: bool = False,
) -> Corpus:
    """A Corpus of your own features and captions, on which every method can be trained.

    features: of images, numpy or torch, "n l e" (l local elements per image) or "n e" (one vector per image, read as
        one local element). captions: texts. image_of: for each caption the row of its image; None: caption j describes
        image j.
    splits: 'train', 'val' or 'test' for each image; or the share of each split, by default 0.8, 0.1 and 0.1, which are
        drawn once and for all from the number of images. name: of the corpus, for tables and names of runs.
    ordered: do the local elements have a fixed place, like the cells of a grid?

    Train on it with `train_or_load(RunConfig(data=config_for(corpus), method="dive"))`. Its only kind of relevance is
    'annotated': the pairs of image_of.
    Raises: BadInput for other shapes, features that are not finite, image rows that do not exist, an image without a
        caption, unknown or empty splits, captions that are no strings.

    >>> corpus = from_arrays(np.eye(10), [f"number {n // 2}" for n in range(20)], image_of=np.arange(20) // 2)
    >>> {split: len(corpus.rows(split)[1]) for split in SPLITS}
    {'train': 16, 'val': 2, 'test': 2}
    """
    require_name(name)
    array = _checked(features)
    n = len(array)
    texts = list(captions) if isinstance(captions, Iterable) and not isinstance(captions, str) else [None]
    if wrong := [n for n, text in enumerate(texts) if not isinstance(text, str)]:
        raise BadInput(f"captions must be a list of sentences; caption {wrong[0]} is {texts[wrong[0]]!r:.60}.")
    owners = np.arange(len(texts)) if image_of is None else np.asarray(image_of)
    if owners.shape != (len(texts),) or owners.dtype.kind not in "iu" or not np.isin(owners, np.arange(n)).all():
        raise BadInput(
            f"image_of needs one image row, 0 … {n - 1}, for each of {len(texts)} captions; got {owners.dtype} of "
            f"{owners.shape}."
        )
    if len(lonely := np.setdiff1d(np.arange(n), owners)):
        raise BadInput(
            f"{len(lonely):,} images have no caption, the first is image {lonely[0]}: there are {n:,} images and "
            f"{len(texts):,} captions. Give each image a caption, or leave it out."
        )
    images = pd.DataFrame({"split": _split_names(splits, n)}, index=pd.RangeIndex(n, name="image_id"))
    table = pd.DataFrame(
        {"image_id": owners, "text": texts, "split": images["split"].to_numpy()[owners]},
        index=pd.RangeIndex(len(owners), name="caption_id"),
    )

    def annotated(split: str) -> Relevance:
        i, t = corpus.rows(split)
        return Relevance.from_positions(np.arange(len(t)), np.searchsorted(i, owners[t]), t, i)

    content = hashlib.blake2b(np.ascontiguousarray(array), digest_size=8).hexdigest()
    image_content = fingerprint.content_hash([content, array.shape, str(array.dtype)])
    fingerprint_of = [image_content, ordered, images["split"].tolist(), owners.tolist(), texts]
    corpus = Corpus(
        name=name,
        images=images,
        captions=table,
        fingerprint=fingerprint.content_hash(fingerprint_of),
        image_fingerprint=image_content,
        read_pixels=None,
        relevance_sets={"annotated": annotated},
        features=array,
        about={"cells": array.shape[1], "width": array.shape[2], "ordered_cells": ordered},
    )
    return corpus


def _checked(features) -> np.ndarray:
    """Features as a finite array "n l e"."""
    if hasattr(features, "detach"):
        features = features.detach().cpu()
        features = (features.float() if str(features.dtype) == "torch.bfloat16" else features).numpy()
    array = np.asarray(features)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # torch reads no other order of bytes
    if array.ndim not in (2, 3) or 0 in array.shape or array.dtype.kind != "f":
        raise BadInput(f"features must be floats of shape (n, l, e) or (n, e), got {array.dtype} of {array.shape}.")
    if not (finite := np.isfinite(array).reshape(len(array), -1).all(1)).all():
        raise BadInput(f"features of image {np.flatnonzero(~finite)[0]} are not finite. Correct them or leave it out.")
    return array if array.ndim == 3 else array[:, None]


def _split_names(splits: Sequence[str] | Mapping[str, float] | None, n: int) -> list[str]:
    """The split of each of n images. Raises: BadInput for unknown names, other counts, or a split without an image."""
    if splits is None or isinstance(splits, Mapping):
        shares = dict(splits or {"train": 0.8, "val": 0.1, "test": 0.1})
        if min(shares.values()) < 0 or not np.isclose(sum(shares.values()), 1):
            raise BadInput(f"the shares of the splits must be positive and sum to 1, got {shares}.")
        ends = np.round(np.cumsum(list(shares.values())) * n)
        drawn = [list(shares)[np.searchsorted(ends, i, "right")] for i in range(n)]
        names = np.empty(n, object)
        names[np.random.default_rng(0).permutation(n)] = drawn
    else:
        names = np.asarray(splits, object)
        if names.shape != (n,):
            raise BadInput(
                f"splits needs a name for each of {n} images, or shares {{'train': 0.8, …}}; got {splits!r:.60}."
            )
    if {*names} != {*SPLITS}:
        raise BadInput(
            f"every split of {', '.join(SPLITS)} needs an image, and there is no other; got {sorted({*names})}."
        )
    return names.tolist()
