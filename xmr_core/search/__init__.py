"""Encode once, store an index on disk, search it by text or image, or by an approximate index."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "search": "answers",
        **dict.fromkeys(("Elements", "build_elements", "faiss_library", "open_elements"), "elements"),
        **dict.fromkeys(("open_gallery", "write_gallery"), "gallery"),
        **dict.fromkeys(("Source", "index_folder", "index_split", "save_index"), "index"),
        **dict.fromkeys(("Library", "open_folder", "open_library"), "library"),
        **dict.fromkeys(("Index", "open_index"), "opened"),
        "Query": "query",
        **dict.fromkeys(("Ranking", "Settings", "rank"), "ranking"),
        **dict.fromkeys(("recall", "two_stage"), "two_stage"),
    },
)
