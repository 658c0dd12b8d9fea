"""Readers of collections on disk, their relevance sets, and a check of a folder before training.

What the folders must hold is described in docs/data.md.
"""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {f"load_{name}": name for name in ("coco", "cub", "flickr30k", "flickr8k", "folder", "precomputed")}
    | dict.fromkeys(("TwoWayRelevance", "annotated_relevance", "plausible_match", "same_class"), "relevance")
    | {
        "check_corpus": "check",
        "coco_judgments": "coco_relevance",
        "from_frame": "folder",
        "hash_split": "folder_splits",
    }
    | {"FaultLog": "fault_log", "list_images": "files", "photograph_corpus": "assembly"},
)
