"""From a data set's name to its Corpus, and finding files beside it."""

import pkgutil
import re
from collections.abc import Callable
from pathlib import Path

from xmr_core.base import files
from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.types import Corpus
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
