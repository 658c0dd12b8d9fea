"""From a data set's name, or arrays in memory, to its Corpus."""

import pkgutil
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.paths import is_text
from xmr_core.base.types import SPLITS, Corpus, Relevance
from xmr_core.data import readers
from xmr_core.data.config import DataConfig
from xmr_core.data.readers.assembly import require_corpus, require_name
from xmr_core.data.scenes.corpus import load_scenes

# Collections that are read from a folder: name → (data_root, faults) → Corpus
READERS: dict[str, Callable[..., Corpus]] = {
    "flickr8k": readers.load_flickr8k,
    "flickr30k": readers.load_flickr30k,
    "coco": readers.load_coco,
    "cub": readers.load_cub,
    "precomputed": readers.load_precomputed,
    "folder": readers.load_folder,
}
DATASETS = ("scenes", *READERS)  # those of this package
_IN_MEMORY: dict[str, Corpus] = {}  # by fingerprint; for configs made by config_for


def register_reader(name: str, load: Callable[[str], Corpus]) -> None:
    """Give a reader of your own a name for `DataConfig.dataset`, in this process.

    load: data_root → Corpus. A reader that lies in a module needs no registration: dataset="package.module:function"
    names it, in every process.
    Raises: BadInput for a name of this package's data sets, one that is not made of letters, digits, '_' and '-', or
        a reader that cannot be called.

    >>> register_reader("holiday", readers.load_folder)
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
        fault = f"{option} {name!r} cannot be imported ({e})"
        raise BadInput(f"{fault}. Give 'package.module:name' of a module on Python's path.") from None


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
            fault = f"the corpus {config.dataset} is not in the memory of this process"
            raise BadInput(f"{fault}; call data.config_for(corpus) in it.")
        return _IN_MEMORY[config.corpus]
    if config.dataset == "scenes":
        return load_scenes(config.size, config.world_seed, config.ambiguity)
    reader = reader_of(config.dataset)
    if config.dataset in DATASETS and not config.data_root:
        raise BadInput(f"dataset {config.dataset} needs data_root: the folder that holds its files.")
    corpus = reader(config.data_root, **({"fold": config.fold} if config.dataset == "cub" else {}))
    return require_corpus(corpus, config.dataset)


# A Corpus from features and captions in memory.


def from_arrays(
    features,
    captions: Sequence[str] | Sequence[Sequence[str]],
    image_of: Sequence[int] | None = None,
    splits: Sequence[str] | Mapping[str, float] | str | None = None,
    name: str = "arrays",
    ordered: bool = False,
) -> Corpus:
    """A Corpus of your own features and captions, on which every method can be trained.

    features: of images, numpy or torch, "n l e" (l local elements per image) or "n e" (one vector per image, read as
        one local element); not copied, so what changes them changes the corpus. captions: texts, or a list of texts for
        each image. image_of: for each caption the row of its image; None: caption j describes image j.
    splits: 'train', 'val' or 'test' for each image, or one word for all, which can be evaluated and not trained on; or
        the share of each split, by default 0.8, 0.1 and 0.1, which are drawn once and for all from the number of
        images. name: of the corpus, for tables and names of runs.
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
    if isinstance(features, list | tuple) and len({np.shape(own) for own in features}) > 1:
        raise BadInput(
            "features need as many elements of every image: cut or pool them, or give a list to encode_images."
        )
    array = as_array(features)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # torch reads no other order of bytes
    if array.ndim not in (2, 3) or 0 in array.shape or array.dtype.kind != "f" or not np.isfinite(array).all():
        got = f"got {array.dtype} of {array.shape}"
        raise BadInput(f"features must be floats of shape (n, l, e) or (n, e), all of them finite; {got}.")
    array = array if array.ndim == 3 else array[:, None]
    warn_of_copies(array)
    n, texts = len(array), [None] if isinstance(captions, str) else in_order(captions, "captions")
    if texts and image_of is None and all(isinstance(own, list | tuple | np.ndarray | pd.Series) for own in texts):
        image_of = np.repeat(np.arange(len(texts)), [len(own) for own in texts])
        texts = [text for own in texts for text in own]
    if not all(is_text(text) for text in texts):
        raise BadInput("captions must be a list of sentences, or a list of sentences for each image, without image_of.")
    if image_of is None and len(texts) != n:
        usual = f"; for {len(texts) // n} an image in turn: np.repeat(np.arange({n}), {len(texts) // n})"
        rule = f"Give image_of, for each caption the row of its image{'' if len(texts) % n else usual}"
        raise BadInput(f"{len(texts):,} captions of {n:,} images: which is whose? {rule}.")
    owners = np.arange(len(texts)) if image_of is None else np.asarray(image_of)
    if owners.shape != (len(texts),) or owners.dtype.kind not in "iu" or set(owners.tolist()) != set(range(n)):
        got = f"got {owners.dtype} of {owners.shape}"
        raise BadInput(f"image_of needs a row for each caption, and a caption for each row 0 … {n - 1}; {got}.")
    images = pd.DataFrame({"split": _split_names(splits, n)}, index=pd.RangeIndex(n, name="image_id"))
    columns = {"image_id": owners, "text": texts, "split": images["split"].to_numpy()[owners]}
    table = pd.DataFrame(columns, index=pd.RangeIndex(len(owners), name="caption_id"))

    def annotated(split: str) -> Relevance:
        i, t = corpus.rows(split)
        return Relevance.from_positions(np.arange(len(t)), np.searchsorted(i, owners[t]), t, i)

    numbers = fingerprint.bytes_hash(np.ascontiguousarray(array))
    image_content = fingerprint.content_hash([numbers, array.shape, str(array.dtype)])
    parts = [image_content, ordered, images["split"].tolist(), owners.tolist(), texts]
    corpus = Corpus(
        name=name,
        images=images,
        captions=table,
        fingerprint=fingerprint.content_hash(parts),
        image_fingerprint=image_content,
        read_pixels=None,
        relevance_sets={"annotated": annotated},
        features=array,
        about={"cells": array.shape[1], "width": array.shape[2], "ordered_cells": ordered},
    )
    return corpus


def warn_of_copies(images: Sequence) -> None:
    """Warn where every image stands several times in a row, as in SCAN's files: copies would count as wrong answers to
    each other's captions, and fall into different splits."""
    times = next((n for n in range(1, len(images)) if not np.array_equal(images[n], images[0])), 1)
    if times > 1 and all(np.array_equal(images[n], images[n - n % times]) for n in range(len(images))):
        message = f"every image stands {times} times in a row. Give it once, and its captions as a list"
        warnings.warn(f"{message}, or image_of.", stacklevel=3)


def in_order(items, what: str) -> list:
    """The entries of a list, an array or one column, by position. Raises: BadInput for what has names or no order."""
    if isinstance(items, Mapping | Set) or hasattr(items, "columns") or not isinstance(items, Iterable):
        raise BadInput(f"{what} must be a list, an array or one column, got {type(items).__name__}.")
    return list(items)


def as_array(x) -> np.ndarray:
    """What numpy makes of x; tensors on any device, and in bfloat16, which numpy does not know, are copied."""
    if isinstance(x, Tensor):
        x = (x.float() if x.dtype == torch.bfloat16 else x).numpy(force=True)
    return np.asarray(x)


def _split_names(splits: Sequence[str] | Mapping[str, float] | str | None, n: int) -> list[str]:
    """The split of each of n images. Raises: BadInput for unknown names, other counts, or a split without an image."""
    if isinstance(splits, str) and splits in SPLITS:
        return [splits] * n
    names = splits
    if splits is None or isinstance(splits, Mapping):
        shares = dict(splits or {"train": 0.8, "val": 0.1, "test": 0.1})
        if min(shares.values()) < 0 or not np.isclose(sum(shares.values()), 1):
            raise BadInput(f"the shares of the splits must be positive and sum to 1, got {shares}.")
        ends = np.round(np.cumsum(list(shares.values())) * n)
        names = np.empty(n, object)
        in_order = np.array([*shares], object)[np.searchsorted(ends, range(n), "right")]
        names[np.random.default_rng(0).permutation(n)] = in_order
    if np.shape(names) != (n,) or {*names} != {*SPLITS}:
        raise BadInput(f"splits needs one of {', '.join(SPLITS)} for each of {n} images, each at least once.")
    return list(names)
