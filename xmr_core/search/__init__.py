"""Encode once, keep an index on disk, ask it by text or picture; past memory, by an approximate index over set elements."""

from xmr_core.search.answers import search
from xmr_core.search.elements import Elements, build_elements, faiss_library, open_elements
from xmr_core.search.gallery import open_gallery, write_gallery
from xmr_core.search.index import Source, index_folder, index_split, save_index
from xmr_core.search.library import Library, open_folder, open_library
from xmr_core.search.opened import Index, open_index
from xmr_core.search.query import Query
from xmr_core.search.ranking import Ranking, Settings, rank
from xmr_core.search.two_stage import recall, two_stage

__all__ = [
    "Elements", "Index", "Library", "Query", "Ranking", "Settings", "Source", "build_elements", "faiss_library", "index_folder", "index_split", "open_elements",
    "open_folder", "open_gallery", "open_index", "open_library", "rank", "recall",
    "save_index", "search", "two_stage", "write_gallery",
]  # fmt: skip
