"""From a data set's name, or arrays in memory, to its Corpus."""

import hashlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import SPLITS, Corpus
from xmr_core.data.config import DataConfig
from xmr_core.data.readers.assembly import require_corpus, require_name
from xmr_core.data.readers.coco import load_coco, load_flickr30k
from xmr_core.data.readers.cub import load_cub
from xmr_core.data.readers.flickr8k import load_flickr8k
from xmr_core.data.readers.folder import load_folder
from xmr_core.data.readers.precomputed import load_precomputed
from xmr_core.data.scenes.corpus import load_scenes

# Collections that are read from a folder: name → (data_root, faults) → Corpus
READERS: dict[str, Callable[..., Corpus]] = {
    "flickr8k": load_flickr8k,
    "flickr30k": load_flickr30k,
    "coco": load_coco,
    "cub": load_cub,
    "precomputed": load_precomputed,
    "folder": load_folder,
}
DATASETS = ("scenes", *READERS)  # those of this package
_IN_MEMORY: dict[str, Corpus] = {}  # by fingerprint; for configs made by config_for


def register_reader(name: str, load: Callable[[str], Corpus]) -> None:
    """Give a reader of your own a name for `DataConfig.dataset`, in this process.

    load: data_root → Corpus. A reader that lies in a module needs no registration: dataset="package.module:function"
    names it, in every process.
    Raises: BadInput for a name of this package's data sets, one that is not made of letters, digits, '_' and '-', or
        a reader that cannot be called.

    >>> register_reader("holiday", load_folder)
    >>> READERS.pop("holiday").__name__
    'load_folder'
    """
    require_name(name)
    if name in DATASETS or not callable(load):
        raise BadInput(f"a reader is a function with a name of its own, got {type(load).__name__} for {name!r}.")
    READERS[name] = load


def reader_of(dataset: str) -> Callable[..., Corpus]:
    """The function that reads a data set other than scenes. Raises: BadInput for an unknown name.

    >>> reader_of("xmr_core.data.readers.folder:load_folder").__name__
    'load_folder'
    """
    if ":" in dataset:
        return import_named(dataset, "dataset")
    if dataset not in READERS:
        raise unknown("dataset", dataset, ("scenes", *READERS))
    return READERS[dataset]


def import_named(name: str, option: str) -> Callable:
    """What 'package.module:name' stands for. Raises: BadInput, with the option that it was given for."""
    try:
        if not re.fullmatch(r"\w+(\.\w+)*:\w+(\.\w+)*", name):  # a dotted name alone would be imported unasked
            raise ValueError("it is no address")
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as e:
        raise BadInput(
            f"{option} {name!r} cannot be imported ({e}). Give 'package.module:name' of a module on Python's path."
        ) from None


def config_for(corpus: Corpus, **options) -> DataConfig:
    """The DataConfig of a Corpus in memory, which this process remembers. options: other fields of DataConfig.

    Other processes do not know the corpus: call this there too, or train in one process (workers=1).

    >>> import numpy as np
    >>> from xmr_core import data
    >>> corpus = data.from_arrays(np.zeros((10, 4)), ["a dog", "two cats"] * 5)
    >>> data.prepare(config_for(corpus)).inputs.image_width
    4
    """
    _IN_MEMORY[corpus.fingerprint] = corpus
    return DataConfig(dataset=corpus.name, corpus=corpus.fingerprint, **options)


def corpus_of(config: DataConfig) -> Corpus:
    """Read the corpus. Raises: BadInput for an unknown name, a missing data_root, what the reader refuses, or a reader
    that returns anything else."""
    if config.corpus:
        if config.corpus not in _IN_MEMORY:
            raise BadInput(
                f"the corpus {config.dataset} is not in the memory of this process; call data.config_for(corpus) in it."
            )
        return _IN_MEMORY[config.corpus]
    if config.dataset == "scenes":
        return load_scenes(config.size, config.world_seed, config.ambiguity)
    reader = reader_of(config.dataset)
    if config.dataset in DATASETS and not config.data_root:
        raise BadInput(f"dataset {config.dataset} needs data_root: the folder that holds its files.")
    corpus = reader(config.data_root, **({"fold": config.fold} if config.dataset == "cub" else {}))
    return require_corpus(corpus, config.dataset)


def find_file(name: str, data_root: str, folder: str, pattern: str) -> Path | None:
    """The named file, or the first that fits in data_root, in data_root/folder or in `folder` beside data_root."""
    if name:
        return files.existing(name, f"{folder} file")
    root = Path(data_root).expanduser()
    places = (root, root / folder, root.resolve().parent / folder) if data_root else ()
    return next((file for place in places for file in sorted(place.glob(pattern))), None)


# A Corpus from features and captions in memory.


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
