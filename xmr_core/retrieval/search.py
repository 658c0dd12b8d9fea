"""Search: a sentence or an image goes in, and a table of answers comes out."""

from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from PIL import Image

from xmr_core.base.errors import BadInput
from xmr_core.data.inputs import pixels_of
from xmr_core.retrieval.engine import Proposer, two_stage
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query, Settings, answer_table, encode, rank, read_words, require_finite_scores


def search(
    library: Library,
    text: str = "",
    image: Path | str | Image.Image | UInt8[np.ndarray, "h w 3"] | None = None,
    k: int = 10,
    elements: Proposer | None = None,
) -> pd.DataFrame:
    """The k best answers to a sentence or to an image.

    Images answer a sentence. Captions answer an image; where the library has no captions, similar images answer it.

    Args:
        library: an Index or any other Library. image: a file, a PIL image, or pixels.
        elements: an index over the elements of the library's images (Elements, EngineElements). The images are then
            searched in two stages (two_stage) instead of being compared one by one. Captions are always compared one by
            one.
    Returns: columns rank (from 1), item, text (of captions) and score. Equal scores are in file order.
        table.attrs['unknown_words'] holds the words of the sentence that the method does not know, and
        table.attrs['nearest'] words that no training caption has, with the word that each is read as.
    Raises: BadInput for no query or two, for an image where there are no captions and the method cannot compare images
        with images, and as rank; DamagedFile for an image file that cannot be read.

    >>> from xmr_core.retrieval import example_library
    >>> search(example_library(), "a red zebra", k=2).attrs["unknown_words"]
    ('zebra',)
    """
    if not isinstance(text, str):
        raise BadInput(f"a sentence must be a string, got {type(text).__name__}; search for one at a time.")
    if bool(text.strip()) == (image is not None):
        raise BadInput("search for a sentence or an image: give one of them, and not both.")
    query = Query("text", text) if image is None else Query("upload", pixels=pixels_of(image))
    target = "images" if library.captions is None else query.target
    if target != query.target and not library.method.similarity.symmetric:
        raise BadInput(
            f"{library.label} compares images with captions only, and these images have no captions; type a sentence."
        )
    if elements is None or target == "captions":
        table = rank(library, query, Settings(k=k), target=target).table
    else:
        scores, positions = two_stage(elements, encode(library, query), library.method.similarity, k)
        found = positions[0] >= 0
        table = answer_table(library, target, positions[0][found], scores[0][found])
        require_finite_scores(scores[0][found], library.label)
    unknown_words, nearest = read_words(library, query)
    table.attrs |= {"unknown_words": unknown_words, "nearest": nearest}
    return table
