"""Encode once, store an index on disk, search it by text or image, or by an approximate index."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "search": "answers",
        **dict.fromkeys(
            ("element_attention", "nearest_captions", "word_attention_of", "word_weights"), "attention_views"
        ),
        **dict.fromkeys(("Elements", "build_elements", "faiss_library", "open_elements"), "elements"),
        **dict.fromkeys(("EngineElements", "build_engine", "open_engine"), "engine"),
        **dict.fromkeys(("example_library", "example_model"), "example"),
        **dict.fromkeys(("explained", "in_sentences"), "explained"),
        "export_frame": "export",
        "vectors_of": "projections",
        "fit": "fit",
        "Model": "model",
        "MtebModel": "mteb_model",
        **dict.fromkeys(("hub_folder", "push_folder"), "hub"),
        **dict.fromkeys(("load", "model_of"), "load"),
        **dict.fromkeys(("read_model", "write_model"), "model_folder"),
        **dict.fromkeys(("open_gallery", "write_gallery"), "gallery"),
        **dict.fromkeys(("Source", "index_folder", "index_split", "save_index"), "index"),
        **dict.fromkeys(("Library", "open_folder", "open_library"), "library"),
        **dict.fromkeys(("Index", "open_index"), "opened"),
        "Query": "query",
        **dict.fromkeys(("Ranking", "Settings", "check_settings", "rank", "similarity_of"), "ranking"),
        **dict.fromkeys(("Proposer", "recall", "two_stage"), "two_stage"),
        **dict.fromkeys(("relative_uncertainty", "without_each_cell", "without_each_word"), "why"),
    },
)
