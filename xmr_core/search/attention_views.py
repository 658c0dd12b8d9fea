"""The attention of a method to an image of a library: of its elements, and of the words of a sentence."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.analysis.attention import node_weights, slot_attention, word_attention
from xmr_core.evaluation.analysis.element_map import nearest_partner
from xmr_core.search.library import Library, elements_of
from xmr_core.search.query import known_words


def element_attention(library: Library, position: int) -> Float[np.ndarray, "k l"]:
    """How each of the k elements of the image at a position attends to its l cells in the last round. Rows sum to 1.

    Raises: BadInput for a method whose elements do not come from attention to cells.

    >>> from xmr_core.search import example_library
    >>> element_attention(example_library("dive"), 0).shape
    (4, 4)
    """
    return slot_attention(library.method, _image_input(library, position))[0, -1].cpu().numpy()


def nearest_captions(library: Library, position: int) -> pd.DataFrame:
    """For each element of the image at a position, the caption of the library that holds its nearest element.

    Returns: columns element (from 0), text, cosine, and one Boolean column for each relevance set.
    Raises: BadInput for a method without small sets, or a library without captions.

    >>> from xmr_core.search import example_library
    >>> nearest_captions(example_library("dive"), 0).columns.tolist()
    ['element', 'text', 'cosine', 'annotated']
    """
    captions = library.items("captions")
    if elements_of(library.images) < 2:
        raise BadInput(f"{library.label} makes no small sets, so there are no elements to have neighbours.")
    nearest = nearest_partner(library.images[position], captions)
    columns = {"element": nearest["element"], "text": library.texts[nearest["caption"]], "cosine": nearest["cosine"]}
    relevant = {kind: library.relevant(kind, "images", position) for kind in library.relevance_sets}
    return pd.DataFrame(columns).assign(**{kind: nearest["caption"].isin(rows) for kind, rows in relevant.items()})


def word_attention_of(library: Library, text: str, position: int) -> tuple[list[str], Float[np.ndarray, "q l"]]:
    """(the q words of a sentence that the method knows, how each attends to the l cells of the image at a position).

    Rows sum to 1. Raises: BadInput for a method without attention of words over cells, or one that reads word pieces.

    >>> from xmr_core.search import example_library
    >>> words, attention = word_attention_of(example_library("scan"), "a red zebra", 0)
    >>> words, attention.shape
    (['a', 'red'], (2, 4))
    """
    words, inputs = _pair(library, text, position)
    weights = word_attention(library.method, *inputs)[0, 0].cpu().numpy()
    return words, weights[_rows_of(words)]


def word_weights(library: Library, text: str, position: int) -> dict[str, pd.DataFrame]:
    """How much each word of a sentence counts for its score with the image at a position.

    Returns: part of the method ('SAF', 'SGR') → columns word and weight. The first row, '(global)', is the pair of
        global vectors. The weights of a table sum to less than 1, because <start> and <end> have weights too.
    Raises: BadInput as node_weights does, and for a method that reads word pieces.

    >>> from xmr_core.search import example_library
    >>> word_weights(example_library("sgraf"), "a red circle", 0)["SGR"]["word"].tolist()
    ['(global)', 'a', 'red']
    """
    words, inputs = _pair(library, text, position)
    weights = {part: w[0, 0].cpu().numpy() for part, w in node_weights(library.method, *inputs).items()}
    names = ["(global)", *words]
    return {part: pd.DataFrame({"word": names, "weight": [w[0], *w[_rows_of(words)]]}) for part, w in weights.items()}


def _rows_of(words: list[str]) -> slice:
    """The rows of the words. <start>, and the global vector where there is one, come before them; <end> comes last."""
    return slice(-len(words) - 1, -1)


def _image_input(library: Library, position: int):
    return library.inputs(np.array([position])).to(library.method.device)


def _pair(library: Library, text: str, position: int):
    words = known_words(library, text)
    tokens = library.prepared.new_captions([" ".join(words)])
    return words, (_image_input(library, position), tokens.to(library.method.device))
