"""What a method looked at: elements at the cells of a picture, words at cells, and how much each word counted."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.analysis.attention import node_weights, slot_attention, word_attention
from xmr_core.evaluation.analysis.element_map import nearest_partner
from xmr_core.search.library import Library, elements_of
from xmr_core.search.query import known_words


def element_looks(library: Library, at: int) -> Float[np.ndarray, "k l"]:
    """How each element of the picture at a position looks at its cells in the last round; rows sum to 1.

    Raises: BadInput for a method whose elements do not come from attention to cells.
    """
    return slot_attention(library.method, library.inputs(np.array([at])).to(library.method.device))[0, -1].cpu().numpy()


def nearest_captions(library: Library, at: int) -> pd.DataFrame:
    """For each element of the picture at a position the caption of the library that holds its nearest element.

    Columns element (from 0), text, cosine, and a Boolean column per kind of relevance.
    Raises: BadInput for a method without small sets, or a library without captions.
    """
    captions = library.items("captions")
    if elements_of(library.images) < 2:
        raise BadInput(f"{library.label} makes no small sets, so there are no elements to have neighbours.")
    found = nearest_partner(library.images[at], captions)
    table = pd.DataFrame({"element": found["element"], "text": library.texts[found["caption"]], "cosine": found["cosine"]})
    return table.assign(**{kind: found["caption"].isin(library.relevant(kind, "images", at)) for kind in library.judges})


def word_looks(library: Library, text: str, at: int) -> tuple[list[str], Float[np.ndarray, "q l"]]:
    """(words of a sentence that the method knows, how each looks at the cells of the picture at a position; rows sum to 1).

    Raises: BadInput for a method without attention of words over cells, or one that reads word pieces.
    """
    words, inputs = _pair(library, text, at)
    weights = word_attention(library.method, *inputs)[0, 0].cpu().numpy()
    return words, weights[-len(words) - 1 : -1]  # <start>, and the whole where there is one, stand before the words, <end> behind


def word_weights(library: Library, text: str, at: int) -> dict[str, pd.DataFrame]:
    """How much each word of a sentence counts for its score with the picture at a position: 'SAF', 'SGR' → columns word, weight.

    The first line is the two wholes ('(whole)'); <start> and <end> count too, so that the weights of a table sum to less than 1.
    Raises: BadInput as node_weights does, and for a method that reads word pieces.
    """
    words, inputs = _pair(library, text, at)
    found = {part: w[0, 0].cpu().numpy() for part, w in node_weights(library.method, *inputs).items()}
    return {part: pd.DataFrame({"word": ["(whole)", *words], "weight": [w[0], *w[-len(words) - 1 : -1]]}) for part, w in found.items()}


def _pair(library: Library, text: str, at: int):
    words, device = known_words(library, text), library.method.device
    tokens = library.prepared.new_captions([" ".join(words)])
    return words, (library.inputs(np.array([at])).to(device), tokens.to(device))
