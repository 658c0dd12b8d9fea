"""Corpora, their features and words, and the batches that a method is trained on.

    prepare(DataConfig(…)) or prepare(from_arrays(features, captions)) → Prepared: splits, input sizes, words

>>> import numpy as np
>>> from xmr_core import data
>>> corpus = data.from_arrays(np.random.default_rng(0).normal(size=(10, 3, 8)), ["a dog", "two cats"] * 5)
>>> data.prepare(corpus).inputs.image_width
8
"""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    dict.fromkeys(("SPLITS", "Prepared", "prepare", "prepare_corpus"), "prepare")
    | dict.fromkeys(("DATASETS", "READERS", "config_for", "corpus_of", "reader_of", "register_reader"), "corpora")
    | {"DataConfig": "config", "from_arrays": "arrays", "Augmentation": "augment"}
    | {"Batches": "batches", "Split": "batches", "CaptionStates": "inputs", "Extractor": "features.feature_cache"}
    | {"load_scenes": "scenes", "Vocabulary": "text.vocabulary", "read_vocabulary": "text.official_vocabulary"}
    | {f"load_{name}": f"readers.{name}" for name in ("coco", "cub", "flickr30k", "flickr8k", "folder", "precomputed")}
    | {"from_frame": "readers.folder"}
    | dict.fromkeys(("features", "images", "readers", "scenes", "text"), ""),
)
