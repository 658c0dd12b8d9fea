"""Why a method returned an item: its score without a word or without a cell, and how uncertain the item is."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from xmr_core.base.types import Features, Pixels, Representation
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.evaluation.engine import score_matrix
from xmr_core.search.library import Library
from xmr_core.search.query import Query, encode, known_words, uploaded_input
from xmr_core.search.ranking import Settings, similarity_of

PATCHES = 5  # of an image of pixels, in a row and in a column


@dataclass(frozen=True)
class OutsideImage:
    """An image that is not in the library. items: encoded. inputs: what the method reads of it."""

    items: Representation
    inputs: Features | Pixels


def outside_image(library: Library, query: Query) -> OutsideImage:
    """The image of a query of the kind 'upload', encoded."""
    return OutsideImage(encode(library, query), uploaded_input(library, query))


def encoded_image(library: Library, image: int | OutsideImage) -> Representation:
    """An image by its position in the library, or one from outside, encoded."""
    return image.items if isinstance(image, OutsideImage) else library.images[image]


def image_input(library: Library, image: int | OutsideImage) -> Features | Pixels:
    """What the method reads of an image. Raises: BadInput where the images of an index are gone."""
    return image.inputs if isinstance(image, OutsideImage) else library.inputs(np.array([image]))


def without_each_word(
    library: Library, text: str, image: int | OutsideImage, settings: Settings = Settings()
) -> pd.DataFrame:
    """What each known word of a sentence is worth for the score with an image (its position): the score, minus the
    score of the sentence without the word. This works for every method, whatever it attends to.

    Returns: columns word and worth, positive where the word raises the score. No rows for a sentence of one word.
    A method that reads word pieces is given the words between blanks.
    Raises: BadInput for a sentence of which the method knows no word.

    >>> from xmr_core.search import example_library
    >>> without_each_word(example_library(), "a red zebra", 0)["word"].tolist()
    ['a', 'red']
    """
    words = text.split() if library.prepared.vocabulary is None else known_words(library, text)
    shorter = [" ".join(words[:n] + words[n + 1 :]) for n in range(len(words))] if len(words) > 1 else []
    tokens = library.prepared.new_captions([" ".join(words), *shorter])
    with torch.inference_mode():
        captions = library.method.encode_captions(tokens.to(library.method.device)).to("cpu")
    scores = score_matrix(similarity_of(library, settings), encoded_image(library, image), captions)[0]
    return pd.DataFrame({"word": words[: len(shorter)], "worth": scores[0] - scores[1:]})


def without_each_cell(
    library: Library, image: int | OutsideImage, caption: Representation, settings: Settings = Settings()
) -> Float[np.ndarray, " l"]:
    """What each of the l cells of an image (its position) is worth for its score with one caption: the score, minus the
    score without the cell. A method that reads pixels has no cells; its image is cut into PATCHES × PATCHES, and the
    pixels of one after the other take their mean colour over the image.

    >>> from xmr_core.search import example_library
    >>> library = example_library()
    >>> without_each_cell(library, 0, library.captions[0]).shape
    (4,)
    """
    features = image_input(library, image)
    inputs = _without_patches(features) if isinstance(features, Pixels) else _without_cells(features)
    with torch.inference_mode():
        images = library.method.encode_images(inputs.to(library.method.device)).to("cpu")
    scores = score_matrix(similarity_of(library, settings), images, caption)[:, 0]
    return scores[0] - scores[1:]


def _without_cells(features: Features) -> Features:
    """The features of one image, first as they are, then without each cell."""
    cells = features.mask.shape[1]
    local, vector = (
        None if x is None else x.expand(cells + 1, *x.shape[1:]) for x in (features.local_feats, features.global_feat)
    )
    mask = torch.cat([features.mask, features.mask & ~torch.eye(cells, dtype=torch.bool)])
    return Features(local, mask, vector)


def _without_patches(image: Pixels) -> Pixels:
    """One image, first as it is, then with each patch in the mean colour of the image."""
    height, width = image.x.shape[2:]
    rows, columns = (torch.arange(n) * PATCHES // n for n in (height, width))
    patch = rows[:, None] * PATCHES + columns  # h w
    covered = patch == torch.arange(PATCHES**2)[:, None, None]
    changed = torch.where(covered[:, None], image.x.mean((2, 3), keepdim=True), image.x)
    return Pixels(torch.cat([image.x, changed]))


def relative_uncertainty(
    library: Library, modality: str, item: Representation | None = None, position: int | None = None
) -> tuple[float, float] | None:
    """(uncertainty of an item, share in [0, 1] of the library's items of that modality that are more certain).

    modality: 'images' or 'captions'. The item is the one at a position of the library, or `item`. None for a method
    without uncertainty.

    >>> from xmr_core.search import example_library
    >>> relative_uncertainty(example_library("vse++"), "images", position=0) is None
    True
    """
    values = library.uncertainty(modality)
    if values is None:
        return None
    value = float(uncertainty(item)[0]) if position is None else float(values[position])
    return value, float((values < value).mean())
