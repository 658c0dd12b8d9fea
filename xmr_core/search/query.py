"""What can be asked: a sentence, a picture, or an item of the corpus."""

from dataclasses import dataclass, field

import numpy as np
import torch

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.types import Representation
from xmr_core.data.images.files import array_reader
from xmr_core.data.text.tokenisers import rule
from xmr_core.search.library import Library

KINDS = {"text": "images", "caption": "images", "image": "captions", "picture": "captions"}  # kind → which side answers


@dataclass(frozen=True)
class Query:
    """kind 'text' (a sentence in `text`), 'caption' or 'image' (an id of the corpus in `item`), 'picture' (`pixels`, uint8 "h w 3", of any
    size; `text` may hold its name). Raises: BadInput for another kind, or one without what it needs."""

    kind: str
    text: str = ""
    item: str = ""
    pixels: np.ndarray | None = field(default=None, compare=False)

    def __post_init__(self):
        if self.kind not in KINDS:
            raise unknown("kind of query", self.kind, KINDS)
        if self.kind == "text" and not self.text.strip():
            raise BadInput("the sentence is empty; type what the picture should show.")
        if self.kind in ("caption", "image") and not self.item:
            raise BadInput(f"a query by {self.kind} needs the id of one.")
        if self.kind == "picture" and (
            self.pixels is None or self.pixels.ndim != 3 or self.pixels.shape[2] != 3 or self.pixels.dtype != np.uint8
        ):
            raise BadInput("a picture must be an array of whole numbers 0…255, height × width × 3.")

    @property
    def target(self) -> str:
        """Which side answers: 'images' or 'captions'."""
        return KINDS[self.kind]


def encode(library: Library, query: Query) -> Representation:
    """One representation. Items of the corpus are looked up, sentences and pictures go through the encoders, once for a query that is
    asked again with other settings.

    Raises: BadInput for an id that is not there, a sentence of which the method knows no word, a corpus of region features.
    """
    if query.kind == "caption":
        return library.items("captions")[library.position("captions", query.item)]
    if query.kind == "image":
        return library.images[library.position("images", query.item)]
    if library.last.get("query") is not query:
        library.last.update(encoded=_from_outside(library, query), query=query)
    return library.last["encoded"]


def _from_outside(library: Library, query: Query) -> Representation:
    device = library.method.device
    with torch.inference_mode():
        if query.kind == "picture":
            pictures = array_reader(query.pixels[None])(np.array([0]), library.prepared.inputs.resolution)
            return library.method.encode_images(library.prepared.new_images(pictures).to(device)).to("cpu")
        if library.prepared.vocabulary is not None:
            known_words(library, query.text)  # refuses a sentence of strange words alone
        return library.method.encode_captions(library.prepared.new_captions([query.text]).to(device)).to("cpu")


def known_words(library: Library, text: str) -> list[str]:
    """The words of a sentence that the method knows. Raises: BadInput for a method that reads word pieces, or where it knows none."""
    if library.prepared.vocabulary is None:
        raise BadInput("word by word only for methods with a vocabulary of words; this one reads word pieces.")
    words, strange = words_of(library, text)
    if not words:
        raise BadInput(f"the method knows none of the words {', '.join(map(repr, strange))}; use words of its training captions.")
    return words


def words_of(library: Library, text: str) -> tuple[list[str], list[str]]:
    """(words that the method knows, words that it does not). With a text model every sentence is made of known pieces."""
    vocabulary = library.prepared.vocabulary
    if vocabulary is None:
        return text.split(), []
    words = rule(vocabulary.tokeniser)(text)
    return [w for w in words if w in vocabulary.numbers], [w for w in words if w not in vocabulary.numbers]
