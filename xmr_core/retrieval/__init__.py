"""Encode once, store an index on disk, search it by text or image, or by proposals of an engine."""

from xmr_core.retrieval.engine import (
    Elements, build_elements, build_engine, faiss_library, open_elements, open_engine,
)  # fmt: skip
from xmr_core.retrieval.explain import (
    Pair, explained, in_sentences, pair_of, relative_uncertainty, without_each_cell, without_each_word,
)  # fmt: skip
from xmr_core.retrieval.export import export_frame, vectors_of
from xmr_core.retrieval.index import index_folder, index_split, open_gallery, open_index, save_index, write_gallery
from xmr_core.retrieval.judgments import Judgments
from xmr_core.retrieval.library import Library, example_library, example_model, open_folder, open_library
from xmr_core.retrieval.ranking import Proposer, Query, Ranking, Settings, rank, recall, search, two_stage

__all__ = [
    "Elements", "Judgments", "Library", "Pair", "Proposer", "Query", "Ranking", "Settings", "build_elements",
    "build_engine", "example_library", "example_model", "explained", "export_frame", "faiss_library",
    "in_sentences", "index_folder", "index_split", "open_elements", "open_engine", "open_folder", "open_gallery",
    "open_index", "open_library", "pair_of", "rank", "recall", "relative_uncertainty", "save_index", "search",
    "two_stage", "vectors_of", "without_each_cell", "without_each_word", "write_gallery",
]  # fmt: skip
