"""Why an item was found: which elements met, and what the score would be without a word or a part of the picture."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet, Features, Representation, Tokens
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.evaluation.engine import score_matrix
from xmr_core.search.library import Library
from xmr_core.search.query import known_words
from xmr_core.search.ranking import Settings, similarity_of
from xmr_core.similarities.chamfer import chamfer, smooth_chamfer
from xmr_core.similarities.mil import max_pairwise


@dataclass(frozen=True)
class Meeting:
    """products "k l": cosines of every element of the picture with every one of the caption. image_parts "k", caption_parts "l": what each
    element adds to the score; they sum to it. Parts are None for similarities that are no sum over elements."""

    products: Float[np.ndarray, "k l"]
    image_parts: Float[np.ndarray, " k"] | None = None
    caption_parts: Float[np.ndarray, " l"] | None = None


def meeting(image: Representation, caption: Representation, similarity) -> Meeting:
    """How the elements of one picture and one caption meet.

    smooth-Chamfer  image_parts_x = log Σ_y e^{α x·y} / (2αk), caption_parts_y = log Σ_x e^{α x·y} / (2αl)
    Chamfer         the same with the largest product in place of the logarithm; MIL: half the best product each, to its two elements
    Raises: BadInput for representations that are not sets of one item each.
    """
    if not all(isinstance(r, EmbeddingSet) and len(r) == 1 for r in (image, caption)):
        raise BadInput("only two sets, one of each side, can be shown meeting.")
    x, y = (r.x[0][r.mask[0]].double() for r in (image, caption))
    products = x @ y.T
    k, l = products.shape
    function, given = getattr(similarity, "func", similarity), getattr(similarity, "keywords", {})
    if function is smooth_chamfer:
        alpha = given.get("alpha", 16.0)
        parts = (alpha * products).logsumexp(1) / (2 * alpha * k), (alpha * products).logsumexp(0) / (2 * alpha * l)
    elif function is chamfer:
        parts = products.amax(1) / (2 * k), products.amax(0) / (2 * l)
    elif function is max_pairwise:
        best = products == products.max()
        best &= best.flatten().cumsum(0).view_as(best) == 1  # one pair, should several be as good
        parts = (best * products / 2).sum(1), (best * products / 2).sum(0)
    else:
        return Meeting(products.numpy())
    return Meeting(products.numpy(), *(p.numpy() for p in parts))


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
