"""Why an item was found: what the score would be without a word or without a part of the image, and how certain the item is."""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, Representation, Tokens
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.evaluation.engine import score_matrix
from xmr_core.search.library import Library
from xmr_core.search.query import known_words
from xmr_core.search.ranking import Settings, similarity_of


def without_each_word(library: Library, text: str, at: int, settings: Settings = Settings()) -> pd.DataFrame:
    """What each known word of a sentence is worth for the score with the picture at a position: score − score without the word.

    Columns word, worth (positive: the word speaks for the picture). The same question for every method, whatever it attends to. A sentence
    of one word has no rows. Raises: BadInput where captions are not word numbers of our own (text models), or no word is known.
    """
    words = known_words(library, text)
    rest = [" ".join(w for m, w in enumerate(words) if m != n) for n in range(len(words))] if len(words) > 1 else []
    tokens = library.prepared.new_captions([" ".join(words), *rest])
    with torch.inference_mode():
        captions = library.method.encode_captions(_to(tokens, library)).to("cpu")
    scores = score_matrix(similarity_of(library, settings), library.images[at], captions)[0]
    return pd.DataFrame({"word": words[: len(rest)], "worth": scores[0] - scores[1:]})


def without_each_cell(library: Library, at: int, caption: Representation, settings: Settings = Settings()) -> Float[np.ndarray, " l"]:
    """What each cell of the picture at a position is worth for its score with one caption: score − score without the cell.

    Raises: BadInput for pictures that are not given to the method as features of cells.
    """
    features = library.inputs(np.array([at]))
    if not isinstance(features, Features):
        raise BadInput("cell by cell only for frozen features; this method reads pixels.")
    cells = features.mask.shape[1]
    mask = torch.cat([features.mask, features.mask & ~torch.eye(cells, dtype=torch.bool)])
    again = [None if v is None else v.expand(cells + 1, *v.shape[1:]) for v in (features.local_feats, features.global_feat)]
    with torch.inference_mode():
        images = library.method.encode_images(_to(replace(features, local_feats=again[0], mask=mask, global_feat=again[1]), library)).to(
            "cpu"
        )
    scores = score_matrix(similarity_of(library, settings), images, caption)[:, 0]
    return scores[0] - scores[1:]


def doubt(library: Library, side: str, item: Representation | None = None, at: int | None = None) -> tuple[float, float] | None:
    """(uncertainty, share of the library's items of that side that are more certain) of an item; None for a method without uncertainty."""
    known = library.uncertainty(side)
    if known is None:
        return None
    value = float(known[at]) if at is not None else float(uncertainty(item)[0])
    return value, float((known < value).mean())


def _to(inputs: Tokens | Features, library: Library) -> Tokens | Features:
    return inputs.to(library.method.device)
