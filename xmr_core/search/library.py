"""A finished run with items encoded: what a query is ranked against."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import EmbeddingSet, Features, GaussianEmbedding, Representation, Tokens
from xmr_core.data.inputs import CaptionStates, ImageReader
from xmr_core.data.prepare import Prepared
from xmr_core.data.readers.folder import load_folder
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.methods.method import Method
from xmr_core.training.runs import TrainedRun

_SMALL = 16  # elements that a set may have to count as chosen; more are cells or words
_TOGETHER = 1024  # items whose uncertainty is computed at a time: it takes copies of them


@dataclass(frozen=True)
class Library:
    """Pictures and captions, encoded once; rankings of them need no encoder.

    label: the method's name for people. image_ids, caption_ids, texts: by position. captions: None (and no ids) for pictures without any.
    judges: kind → captions × images by position; empty where nobody knows what is right. inputs: positions of pictures → what the
    method is given of them. pixels: a position → its picture, None for a corpus of features. last: the last query from outside, encoded.
    """

    label: str
    method: Method
    prepared: Prepared
    images: Representation
    captions: Representation | None
    image_ids: np.ndarray
    caption_ids: np.ndarray
    texts: np.ndarray
    judges: Mapping[str, Relevance]
    inputs: ImageReader
    pixels: Callable[[int], UInt8[np.ndarray, "h w 3"]] | None = None
    last: dict = field(default_factory=dict, repr=False, init=False)
    _found: dict = field(default_factory=dict, repr=False, init=False)

    def ids(self, side: str) -> np.ndarray:
        """Of 'images' or 'captions'."""
        return self.image_ids if side == "images" else self.caption_ids

    def position(self, side: str, item: str) -> int:
        """Where an id stands among 'images' or 'captions'. Raises BadInput for an id that is not here."""
        places = self._once(("places", side), lambda: {b: n for n, b in enumerate(self.ids(side))})
        if item not in places:
            called = f", which are called like {next(iter(places))!r}" if places else ""
            raise BadInput(f"{item!r} is not among the {len(places):,} {side} here{called}.")
        return places[item]

    def items(self, side: str) -> Representation:
        """All 'images' or 'captions'. Raises BadInput for captions where there are none."""
        if side == "images":
            return self.images
        if self.captions is None:
            raise BadInput("these pictures have no captions, so a picture cannot be answered; type a sentence.")
        return self.captions

    def uncertainty(self, side: str) -> np.ndarray | None:
        """One number per item of a side (analysis.uncertainty), ascending with doubt; None for a method that has none: one vector per
        item, or sets of words and cells, whose spread is that of what was said."""

        def find():
            items = self.images if side == "images" else self.captions
            if items is None or not (isinstance(items, GaussianEmbedding) or elements_of(items) > 1):
                return None
            try:
                return np.concatenate([uncertainty(items[at : at + _TOGETHER]) for at in range(0, len(items), _TOGETHER)])
            except BadInput:  # means alone
                return None

        return self._once(("uncertainty", side), find)

    def relevant(self, kind: str, side: str, at: int) -> np.ndarray:
        """Positions on the other side that are relevant to the item at a position of 'images' or 'captions'."""
        judge = self.judges[kind]
        return (judge if side == "captions" else self._once(("turned", kind), judge.transpose))[at]

    def _once(self, name: tuple, find: Callable):
        if name not in self._found:
            self._found[name] = find()
        return self._found[name]


def elements_of(items: Representation) -> int:
    """Elements of each set, 1 for vectors, distributions and sets of words or cells, whose number differs or is no one's choice."""
    return items.x.shape[1] if isinstance(items, EmbeddingSet) and bool(items.mask.all()) and items.x.shape[1] <= _SMALL else 1


def open_library(run: TrainedRun, label: str = "", split: str = "test") -> Library:
    """Encode a split of a run's corpus with its method.

    Kinds of relevance whose ids are fewer than those of the split (PMRP, ECCV) are left out, because positions would differ.
    Raises: BadInput for an unknown split.
    """
    prepared = run.prepared()
    if split not in prepared.splits:
        raise BadInput(f"split must be one of {', '.join(prepared.splits)}, got {split!r}.")
    side, method, corpus = prepared.splits[split], run.method(), prepared.corpus
    images, captions = encode_split(method, side)
    judges = {kind: judge(split) for kind, judge in corpus.judges.items()}
    whole = {
        kind: r
        for kind, r in judges.items()
        if isinstance(r, Relevance) and (len(r.query_ids), len(r.gallery_ids)) == (len(captions), len(images))
    }
    read = corpus.read_pixels
    return Library(
        label or run.config.method, method, prepared, images, captions,
        corpus.images.index.to_numpy()[side.image_rows], corpus.captions.index.to_numpy()[side.caption_rows],
        corpus.captions["text"].to_numpy()[side.caption_rows], whole, side.images_at,
        None if read is None else lambda at: read(side.image_rows[[at]])[0],
    )  # fmt: skip


def open_folder(run: TrainedRun, folder: Path | str, label: str = "", progress: Callable | None = None) -> Library:
    """Encode all pictures of a folder and its sub-folders with a run's method, which was trained on something else.

    Captions, where the folder has a file of them (data.folder), come along, and are then what is right; splits do not matter. Frozen
    features of the pictures are kept on disk, so that a second time takes seconds. progress: as of Prepared.images_of.
    Raises: BadInput for a folder without pictures, or a run on region features, which only a detector could make.
    """
    prepared, method = run.prepared(), run.method()
    corpus = load_folder(folder)
    inputs = prepared.images_of(corpus, progress)
    ids, caption_ids = corpus.images.index.to_numpy(), corpus.captions.index.to_numpy()
    texts, judges = corpus.captions["text"].to_numpy(), {}
    side = replace(prepared.splits["test"].first(1), image_rows=np.arange(len(ids)), read_images=inputs)
    if len(texts):
        side = replace(side, caption_rows=np.arange(len(texts)), captions=_kept(prepared.new_captions(texts.tolist())))
        judges["annotated"] = Relevance.from_pairs(zip(caption_ids, corpus.captions["image_id"], strict=True), caption_ids, ids)
    images, captions = encode_split(method, side)
    return Library(
        label or run.config.method, method, prepared, images, captions if len(texts) else None, ids, caption_ids, texts, judges, inputs,
        lambda at: corpus.read_pixels(np.array([at]))[0],
    )  # fmt: skip


def _kept(captions: Tokens | Features) -> Tokens | CaptionStates:
    """Captions as a Split holds them."""
    if isinstance(captions, Tokens):
        return captions
    lengths = captions.mask.sum(1).numpy()
    states = captions.local_feats[captions.mask].numpy()
    return CaptionStates(states, np.concatenate([[0], np.cumsum(lengths)]), np.arange(len(lengths)))
