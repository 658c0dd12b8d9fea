"""Encode once, store an index on disk, search it by text or image, or by an approximate index."""

from xmr_core.retrieval.engine import (
    Elements, EngineElements, Proposer, build_elements, build_engine, faiss_library, open_elements, open_engine,
    recall, two_stage,
)  # fmt: skip
from xmr_core.retrieval.explain import (
    explained, in_sentences, relative_uncertainty, without_each_cell, without_each_word,
)  # fmt: skip
from xmr_core.retrieval.export import export_frame, vectors_of
from xmr_core.retrieval.index import (
    Index, Source, index_folder, index_split, open_gallery, open_index, save_index, write_gallery,
)  # fmt: skip
from xmr_core.retrieval.library import Library, example_library, example_model, open_folder, open_library
from xmr_core.retrieval.ranking import Query, Ranking, Settings, check_settings, rank, similarity_of
from xmr_core.retrieval.search import search

__all__ = [
    "Elements", "EngineElements", "Index", "Library", "Proposer", "Query", "Ranking", "Settings", "Source",
    "build_elements", "build_engine", "check_settings", "example_library", "example_model", "explained",
    "export_frame", "faiss_library", "in_sentences", "index_folder", "index_split", "open_elements", "open_engine",
    "open_folder", "open_gallery", "open_index", "open_library", "rank", "recall", "relative_uncertainty",
    "save_index", "search", "similarity_of", "two_stage", "vectors_of", "without_each_cell", "without_each_word",
    "write_gallery",
]  # fmt: skip
