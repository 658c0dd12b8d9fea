"""Frozen features: extractors of images and captions, word vectors, reduction, and the cache on disk."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    dict.fromkeys(("EfficientNetLite", "EfficientNetLiteGrid", "load_efficientnet_lite"), "efficientnet_lite")
    | dict.fromkeys(("PretrainedGrid", "describe_vision"), "pretrained_grid")
    | dict.fromkeys(("PretrainedStates", "describe_text"), "pretrained_states")
    | dict.fromkeys(("PrincipalComponents", "RootMean", "reduced_features"), "reduce")
    | dict.fromkeys(("WordPieces", "word_pieces"), "word_pieces")
    | dict.fromkeys(("Extractor", "cached_features"), "feature_cache")
    | {"CellDescriptor": "cells", "Scaling": "scaling", "find_pretrained": "model_folder"}
    | {"load_pretrained": "pretrained", "load_word_vectors": "glove"},
)
