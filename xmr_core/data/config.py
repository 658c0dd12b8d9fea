"""Which pictures, words and networks a run reads."""

from dataclasses import dataclass

from xmr_core.base.errors import BadInput, unknown

FEATURES = ("auto", "cells", "pixels", "mobilenet_v2", "pretrained", "regions")
FINE_TUNE = ("", "image", "text", "both")


@dataclass(frozen=True)
class DataConfig:
    """Everything that decides what a method is given.

    dataset: a name of prepare.READERS. data_root: folder of its files ('' for scenes). size, ambiguity, world_seed: of scenes. fold: a
    class fold of cub that gives the validation split, '' for the reader's own.
    features: 'cells' (frozen descriptor), 'pixels' (trainable CNN), 'mobilenet_v2' (frozen), 'pretrained' (image_model), 'regions' (what
    a precomputed corpus brings), or 'auto': pretrained if image_model is given, regions if the corpus has them, cells on scenes, else
    mobilenet_v2. weights: file of MobileNetV2. image_model, text_model: of transformers, a local folder or a hub name; without
    text_model words are embedded and read by a GRU. fine_tune: which of these two models learn; the others are frozen, their
    features computed once.
    word_vectors: GloVe text file. weights and word_vectors: '' looks in data_root, in its sub-folders `weights` and `glove`, and
    beside it. word_dim: width of word vectors when none are read from a file. vocabulary: file of an official vocabulary (JSON, or a
    pickle that is not executed), '' builds one from the training captions. tokeniser: the rule that makes words
    (data.text.tokenisers.RULES).
    views: how many augmented crops of each training picture are described beside the picture itself (frozen features), or, with
    pixels, how many different crops there are.
    reduce: width of the principal components of the frozen local features (a pooled vector of full width then comes with
    them), 0 for the features as they are, −1 for 320 of MobileNetV2 and pretrained grids and none of the others.
    """

    dataset: str = "scenes"
    data_root: str = ""
    size: str = "quick"
    ambiguity: float = 0.05
    world_seed: int = 0
    fold: str = ""
    features: str = "auto"
    weights: str = ""
    image_model: str = ""
    text_model: str = ""
    fine_tune: str = ""
    word_vectors: str = ""
    word_dim: int = 64
    vocabulary: str = ""
    tokeniser: str = "words"
    views: int = 0
    reduce: int = -1

    def __post_init__(self):
        for name, known in (("features", FEATURES), ("fine_tune", FINE_TUNE)):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if self.views < 0:
            raise BadInput(f"views counts augmented crops, so it must be 0 or more; got {self.views}.")
        for side in ("image", "text"):
            if self.fine_tune in (side, "both") and not getattr(self, f"{side}_model"):
                raise BadInput(f"fine_tune={self.fine_tune!r} needs {side}_model: a folder or hub name of a pretrained {side} model.")

    def fine_tunes(self, side: str) -> bool:
        """Does the pretrained model of 'image' or 'text' learn?"""
        return self.fine_tune in (side, "both")
