"""What each word and each cell adds to a score, for every method: the terms of the score where it is a sum over them,
else the score minus the score without the word or the cell."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.base.errors import XmrError
from xmr_core.base.types import EmbeddingSet, Features, Representation
from xmr_core.data.text.tokenisers import rule
from xmr_core.search.library import Library
from xmr_core.search.ranking import Settings, similarity_of
from xmr_core.search.why import OutsideImage, encoded_image, image_input, without_each_cell, without_each_word
from xmr_core.similarities.base import Contributions

TERM, WITHOUT = "terms of the score", "the score minus the score without it"


def word_contributions(
    library: Library, text: str, image: int | OutsideImage, caption: Representation, settings: Settings = Settings()
) -> pd.DataFrame:
    """What each word of a sentence adds to its score with an image, given by its position or from outside.

    caption: the sentence, encoded. Where the score is a sum over the words, its terms are taken; the row '(others)' is
    what <start>, <end> and the image's own terms add, so that the rows sum to the score. Otherwise a word adds the
    score minus the score without it.
    Returns: columns word and adds; attrs['how'] is TERM or WITHOUT. Raises: BadInput as without_each_word.

    >>> from xmr_core.search import example_library
    >>> library = example_library("scan")
    >>> word_contributions(library, "a red circle", 0, library.captions[0]).attrs["how"]
    'terms of the score'
    """
    parts = element_contributions(library, encoded_image(library, image), caption, settings)
    names = [] if parts is None or parts.captions is None else element_names(library, text, len(parts.captions))
    if names and np.any(parts.captions[1:-1]):
        rest = float(parts.captions[[0, -1]].sum() + parts.images.sum())
        table = pd.DataFrame({"word": [*names[1:-1], "(others)"], "adds": [*parts.captions[1:-1].tolist(), rest]})
        table.attrs["how"] = TERM
        return table
    table = without_each_word(library, text, image, settings).rename(columns={"worth": "adds"})
    table.attrs["how"] = WITHOUT
    return table


def cell_contributions(
    library: Library, image: int | OutsideImage, caption: Representation, settings: Settings = Settings()
) -> tuple[Float[np.ndarray, " l"], str]:
    """(what each of the l cells of an image adds to its score with a caption, TERM or WITHOUT).

    image: by its position, or from outside. Raises: BadInput as without_each_cell.

    >>> from xmr_core.search import example_library
    >>> library = example_library("vse++")
    >>> values, how = cell_contributions(library, 0, library.captions[0])
    >>> values.shape, how
    ((4,), 'the score minus the score without it')
    """
    parts = element_contributions(library, encoded_image(library, image), caption, settings)
    if parts is not None and parts.images is not None and np.any(parts.images) and _of_words(library):
        features = image_input(library, image)
        if isinstance(features, Features) and int(features.mask.sum()) == len(parts.images) > 1:
            return parts.images, TERM
    return without_each_cell(library, image, caption, settings), WITHOUT


def element_contributions(
    library: Library, image: Representation, caption: Representation, settings: Settings = Settings()
) -> Contributions | None:
    """What the elements of an image and a caption add by the similarity itself; None where they are no sets.

    >>> from xmr_core.search import example_library
    >>> library = example_library("vse++")
    >>> element_contributions(library, library.images[0], library.captions[0]) is None
    True
    """
    if not (isinstance(image, EmbeddingSet) and isinstance(caption, EmbeddingSet)):
        return None
    try:
        return similarity_of(library, settings).contributions(image, caption)
    except XmrError:
        return None


def element_names(library: Library, text: str, count: int) -> list[str]:
    """Names of the elements of a sentence where they are its words, with <start> and <end>; [] for other sets.

    >>> from xmr_core.search import example_library
    >>> element_names(example_library("scan"), "a red circle", 5)
    ['<start>', 'a', 'red', 'circle', '<end>']
    """
    vocabulary = library.prepared.vocabulary
    if vocabulary is None or not _of_words(library):
        return []
    every = rule(vocabulary.tokeniser)(text)  # <unk> stands for a word that is not known, or nothing does
    readings = (["<start>", *words, "<end>"] for words in (every, library.prepared.words_of(text)[0]))
    return next((names for names in readings if len(names) == count), [])


def _of_words(library: Library) -> bool:
    """Whether the elements that are compared are cells and words, and no chosen number of slots."""
    return library.method.similarity.compares in ("tokens", "graphs")
