"""Frozen features: extractors of images and captions, word vectors, reduction, and the cache on disk."""

from xmr_core.features.cache import Extractor, Reduction, cached_features, reduced_features
from xmr_core.features.cells import CellDescriptor
from xmr_core.features.efficientnet_lite import EfficientNetLite, EfficientNetLiteGrid
from xmr_core.features.images import TrainingCrops, array_reader, inspect_image, read_image
from xmr_core.features.pretrained import find_pretrained, load_pretrained
from xmr_core.features.pretrained import PretrainedGrid, Scaling, describe_vision
from xmr_core.features.pretrained import PretrainedStates, WordPieces, describe_text, word_pieces
from xmr_core.features.words import NearestWords, load_word_vectors
from xmr_core.features.words import Vocabulary, read_vocabulary, rule, tokenise

__all__ = [
    "CellDescriptor", "EfficientNetLite", "EfficientNetLiteGrid", "Extractor", "NearestWords", "PretrainedGrid",
    "PretrainedStates", "Reduction", "Scaling", "TrainingCrops", "Vocabulary", "WordPieces", "array_reader",
    "cached_features", "describe_text", "describe_vision", "find_pretrained", "inspect_image", "load_pretrained",
    "load_word_vectors", "read_image", "read_vocabulary", "reduced_features", "rule", "tokenise", "word_pieces",
]  # fmt: skip
