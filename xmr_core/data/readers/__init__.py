"""Readers of collections on disk, their relevance sets, and a check of a folder before training.

What the folders must hold is described in docs/data.md.
"""

from xmr_core.data.readers.assembly import (
    FaultLog, TwoWayRelevance, annotated_relevance, list_images, photograph_corpus, plausible_match, same_class,
)  # fmt: skip
from xmr_core.data.readers.check import check_corpus
from xmr_core.data.readers.folder import from_frame, hash_split, load_folder
from xmr_core.data.readers.official import coco_judgments, load_coco, load_cub, load_flickr8k, load_flickr30k
from xmr_core.data.readers.precomputed import load_precomputed

__all__ = [
    "FaultLog", "TwoWayRelevance", "annotated_relevance", "check_corpus", "coco_judgments", "from_frame",
    "hash_split", "list_images", "load_coco", "load_cub", "load_flickr8k", "load_flickr30k", "load_folder",
    "load_precomputed", "photograph_corpus", "plausible_match", "same_class",
]  # fmt: skip
