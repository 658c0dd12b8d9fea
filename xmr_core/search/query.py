"""A query: a sentence, an image, or an item of the corpus."""

from dataclasses import dataclass, field

import numpy as np
import torch

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, Pixels, Representation
from xmr_core.data.text.tokenisers import rule
from xmr_core.search.given_images import one_image, pixels_of
from xmr_core.search.library import Library

# kind → modality of the answers
KINDS = {"text": "images", "caption": "images", "image": "captions", "upload": "captions"}


@dataclass(frozen=True)
class Query:
    """One query. kind 'text': a sentence in `text`. 'caption', 'image': an id of the corpus in `item`. 'upload': an
    image from elsewhere in `pixels`, uint8 "h w 3" of any size; `text` may hold its name.

    Raises: BadInput for another kind, or one without the field that it needs.

    >>> Query("text", "a red circle").target
    'images'
    """

    kind: str
    text: str = ""
    item: str | int = ""
    pixels: np.ndarray | None = field(default=None, compare=False)

    def __post_init__(self):
        require_choice("kind of query", self.kind, KINDS)
        if self.kind == "text" and not self.text.strip():
            raise BadInput("the sentence is empty; type what the image should show.")
        if self.kind in ("caption", "image") and self.item == "":  # 0 is an id
            raise BadInput(f"a query by {self.kind} needs the id of one.")
        if self.kind == "upload":
            pixels_of(self.pixels)  # refuses what is no image

    @property
    def target(self) -> str:
        """Modality of the answers: 'images' or 'captions'."""
        return KINDS[self.kind]


def encode(library: Library, query: Query) -> Representation:
    """The representation of a query. That of an item of the corpus is read; sentences and images are encoded, once for
    a query that is ranked again with other settings.

    Raises: BadInput for an unknown id, a sentence of which the method knows no word, or an image for a method on region
        features.
    """
    if query.kind == "caption":
        return library.items("captions")[library.position("captions", query.item)]
    if query.kind == "image":
        return library.images[library.position("images", query.item)]
    if library.last.get("query") is not query:
        library.last.update(encoded=_encode(library, query), query=query)
    return library.last["encoded"]


def uploaded_input(library: Library, query: Query) -> Features | Pixels:
    """The method's input for the image of a query of the kind 'upload'."""
    return library.prepared.new_images(one_image(query.pixels, library.prepared)[None])


def _encode(library: Library, query: Query) -> Representation:
    device = library.method.device
    with torch.inference_mode():
        if query.kind == "upload":
            return library.method.encode_images(uploaded_input(library, query).to(device)).to("cpu")
        if library.prepared.vocabulary is not None:
            known_words(library, query.text)  # refuses a sentence without any known word
        return library.method.encode_captions(library.prepared.new_captions([query.text]).to(device)).to("cpu")


def known_words(library: Library, text: str) -> list[str]:
    """The words of a sentence that the method knows.

    Raises: BadInput for a method that reads word pieces, or where it knows none of the words.
    """
    if library.prepared.vocabulary is None:
        raise BadInput("single words can be used only with a vocabulary of words; this method reads word pieces.")
    words, unknown_words = library.prepared.words_of(text)
    if not words:
        names = ", ".join(map(repr, unknown_words)) or f"in {text!r}"
        raise BadInput(f"the method knows none of the words {names}; use words of its training captions.")
    return words


def read_words(library: Library, query: Query) -> tuple[tuple[str, ...], dict[str, str]]:
    """(words of a sentence that the method does not know, words that no training caption has → the training word that
    each is read as); of a typed sentence only."""
    if query.kind != "text":
        return (), {}
    raw, words = library.prepared, []
    nearest = raw.nearest or {}
    if raw.vocabulary is not None:
        words = [w for w in rule(raw.vocabulary.tokeniser)(query.text) if w not in raw.vocabulary.numbers]
    return tuple(raw.words_of(query.text)[1]), {w: nearest[w] for w in words if w in nearest}
