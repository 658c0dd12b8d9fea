"""Corpora, their features and words, and the batches that a method is trained on.

    prepare(DataConfig(…)) or prepare(from_arrays(features, captions)) → Prepared: splits, input sizes, words

>>> import numpy as np
>>> from xmr_core import data
>>> corpus = data.from_arrays(np.random.default_rng(0).normal(size=(10, 3, 8)), ["a dog", "two cats"] * 5)
>>> data.prepare(corpus).inputs.image_width
8
"""

from xmr_core.base.types import SPLITS
from xmr_core.data.batches import Augmentation, Batches, Split
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import DATASETS, READERS, config_for, corpus_of, from_arrays, reader_of, register_reader
from xmr_core.data.inputs import CaptionStates
from xmr_core.data.prepare import Prepared, prepare, prepare_corpus
from xmr_core.data.readers import from_frame, load_coco, load_cub, load_flickr8k, load_flickr30k, load_folder
from xmr_core.data.readers import load_precomputed
from xmr_core.data.scenes import load_scenes

__all__ = [
    "DATASETS", "READERS", "SPLITS", "Augmentation", "Batches", "CaptionStates", "DataConfig", "Prepared", "Split",
    "config_for", "corpus_of", "from_arrays", "from_frame", "load_coco", "load_cub", "load_flickr8k",
    "load_flickr30k", "load_folder", "load_precomputed", "load_scenes", "prepare", "prepare_corpus", "reader_of",
    "register_reader",
]  # fmt: skip
