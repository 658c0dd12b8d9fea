"""Readers of collections on disk, their relevance sets, and a check of a folder before training.

What the folders must hold is described in docs/data.md.
"""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {f"load_{name}": name for name in ("coco", "cub", "flickr30k", "flickr8k", "folder", "precomputed")}
    | dict.fromkeys(("TwoWayRelevance", "annotated_relevance", "plausible_match", "same_class"), "relevance")
    | dict.fromkeys(("coco_judgments", "coco_test_captions", "label_codes", "read_instances"), "coco_relevance")
    | dict.fromkeys(("find_path", "list_images", "read_json", "read_lines"), "files")
    | {"FaultLog": "fault_log", "Report": "check", "check_corpus": "check", "hash_split": "folder"}
    | {"photograph_corpus": "assembly", "usable_tables": "assembly", "read_caption_file": "caption_file"},
)
