"""From a data set's name to its Corpus, and finding files beside it."""

from collections.abc import Callable
from pathlib import Path

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.types import Corpus
from xmr_core.data.config import DataConfig
from xmr_core.data.readers.coco import load_coco
from xmr_core.data.readers.cub import load_cub
from xmr_core.data.readers.flickr8k import load_flickr8k
from xmr_core.data.readers.flickr30k import load_flickr30k
from xmr_core.data.readers.folder import load_folder
from xmr_core.data.readers.precomputed import load_precomputed
from xmr_core.data.scenes import load_scenes

# Collections that are read from a folder: name → (data_root, faults) → Corpus
READERS: dict[str, Callable[..., Corpus]] = {
    "flickr8k": load_flickr8k,
    "flickr30k": load_flickr30k,
    "coco": load_coco,
    "cub": load_cub,
    "precomputed": load_precomputed,
    "folder": load_folder,
}
DATASETS = ("scenes", *READERS)


def corpus_of(config: DataConfig) -> Corpus:
    """Read it. Raises: BadInput for an unknown name, no data_root, or what the reader refuses."""
    if config.dataset == "scenes":
        return load_scenes(config.size, config.world_seed, config.ambiguity)
    if config.dataset not in READERS:
        raise unknown("dataset", config.dataset, DATASETS)
    if not config.data_root:
        raise BadInput(f"dataset {config.dataset} needs data_root: the folder that holds its files.")
    if config.dataset == "cub":
        return load_cub(config.data_root, config.fold)
    return READERS[config.dataset](config.data_root)


def find(given: str, data_root: str, sub: str, pattern: str) -> Path | None:
    """The file that was named, or the first that fits in data_root, data_root/sub or the folder `sub` beside it."""
    if given:
        return paths.existing(given, f"{sub} file")
    for base in (Path(data_root), Path(data_root) / sub, Path(data_root).resolve().parent / sub) if data_root else ():
        if found := sorted(base.glob(pattern)):
            return found[0]
    return None
