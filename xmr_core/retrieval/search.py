"""Search: a sentence or an image goes in, and a table of answers comes out; in large galleries an engine proposes items
and the exact similarity ranks them."""

import copy
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from xmr_core.base.errors import BadInput, require_choice, require_number
from xmr_core.base.types import GaussianEmbedding, Representation
from xmr_core.data.inputs import pixels_of
from xmr_core.evaluation.ranks import MODALITIES, checked_k, top_k
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query, Settings, answer_table, encode, rank, read_words
from xmr_core.similarities.base import Similarity, as_similarity

_NEAR = 1e-5  # of the largest score: what float32 may get wrong; measured again for every query
_TIE = 1e-12  # of the largest score: what float64 may get wrong


class Proposer(Protocol):
    """An engine that holds the elements of a gallery. Whatever has these two is searched by `two_stage`.

    gallery: the items themselves, from which proposed ones are scored.
    """

    gallery: Representation

    def propose(self, queries: Representation, n: int) -> list[Int[np.ndarray, " p"]]:
        """For each query the positions of the items that hold the n elements nearest to each of its own elements,
        ascending, each once."""
        ...


def search(
    library: Library,
    text: str = "",
    image: Path | str | Image.Image | UInt8[np.ndarray, "h w 3"] | None = None,
    k: int = 10,
    elements: Proposer | None = None,
) -> pd.DataFrame:
    """The k best answers to a sentence or to an image.

    Images answer a sentence. Captions answer an image; where the library has no captions, similar images answer it.
    `explain.explained` says why.

    Args:
        library: an index or any other Library. image: a file, a PIL image, or pixels.
        elements: the elements of the library's images in an engine (open_elements, open_engine). The images are then
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
    if not isinstance(text, str) or bool(text.strip()) == (image is not None):
        raise BadInput("search for one sentence or one image, and not both.")
    query = Query("text", text) if image is None else Query("upload", pixels=pixels_of(image))
    target = "images" if library.captions is None else query.target
    if target != query.target and not library.method.similarity.symmetric:
        raise BadInput(
            f"{library.label} compares images with captions only, and here are no captions; type a sentence."
        )
    if elements is None or target == "captions":
        table = rank(library, query, Settings(k=k), target=target).table
    else:
        scores, positions = two_stage(elements, encode(library, query), library.method.similarity, k)
        filled = positions[0] >= 0
        table = answer_table(library, target, positions[0][filled], scores[0][filled])
    table.attrs |= dict(zip(("unknown_words", "nearest"), read_words(library, query), strict=True))
    return table


def two_stage(
    index: Proposer, queries: Representation, similarity: Similarity, k: int = 10, per_element: int = 100,
    modality: str = "captions",
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:  # fmt: skip
    """(scores, positions) of the best k items for every query among those that an engine proposes; −∞ and −1 where
    fewer were proposed, equal scores in file order.

    Every real element of a query proposes the items of the `per_element` elements nearest to it by cosine; a
    distribution proposes by its mean. All proposed items are taken from the gallery and scored exactly, so a returned
    item has the score of exact search. An item can be missed only if none of its elements is near one of the query's;
    `recall` measures how often.

    Args:
        index: Elements or any other Proposer. modality: of the queries: 'captions' (the gallery holds images) or
            'images'.
    Raises: BadInput for k or per_element below 1, another modality, or another width than the gallery's.
    """
    require_choice("modality", modality, MODALITIES)
    checked_k(k)
    require_number("per_element", per_element, 1)
    widths = [
        (items.mean if isinstance(items, GaussianEmbedding) else items.x).shape[-1]
        for items in (queries, index.gallery)
    ]
    if widths[0] != widths[1]:
        raise BadInput(f"queries of width {widths[0]} do not fit elements of width {widths[1]}.")
    scores, positions = np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64)
    similarity = as_similarity(similarity)
    with torch.inference_mode():
        for q, items in enumerate(index.propose(queries, per_element)):
            if len(items):  # top_k would first measure how exact its scores are, which takes longer than a few of them
                best, order = best_of(similarity, queries[q : q + 1], index.gallery, items, k, modality)
                scores[q, : len(best)], positions[q, : len(best)] = best, order
    return scores, positions


def recall(
    index: Proposer, queries: Representation, similarity: Similarity, k: int = 10, per_element: int = 100,
    modality: str = "captions",
) -> float:  # fmt: skip
    """Share of the k best items of exact search that two_stage finds, in any order, over the given queries, in [0, 1].

    Args and raises: as two_stage. Every item of the gallery is compared with every query, so give a sample of queries.
    """
    proposed = two_stage(index, queries, similarity, k, per_element, modality)[1]
    exact = top_k(similarity, queries, index.gallery, k, modality)[1]
    return float(np.mean([np.isin(e, f).mean() for e, f in zip(exact, proposed, strict=True)]))


def best_of(
    similarity: Similarity, query: Representation, gallery: Representation, items: np.ndarray, k: int, modality: str
) -> tuple[np.ndarray, np.ndarray]:
    """(scores in float64, positions) of the best k of some items. Where fast scores are too close to tell an order,
    those in double precision decide; items that it cannot tell apart stand in file order.

    items: positions, ascending. modality: of the query.

    >>> from xmr_core.base.types import Embedding
    >>> from xmr_core.similarities import Cosine
    >>> gallery = Embedding(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]))
    >>> best_of(Cosine(), gallery[:1], gallery, np.array([1, 2]), 1, "captions")[1].tolist()
    [2]
    """
    chosen = gallery[torch.from_numpy(items)]
    double, query_double = copy.deepcopy(similarity).double(), query.to(torch.float64)

    def scored(own: Similarity, query: Representation, items: Representation) -> np.ndarray:
        out: Tensor = own.score(items, query)[:, 0] if modality == "captions" else own.score(query, items)[0]
        return out.double().numpy()

    fast = scored(similarity, query, chosen)
    margin = _NEAR * max(1.0, np.abs(fast[np.isfinite(fast)]).max(initial=0.0))
    k = min(k, len(items))
    while True:
        close = np.flatnonzero(fast >= np.partition(fast, -k)[-k] - margin)
        exact = scored(double, query_double, chosen[torch.from_numpy(close)].to(torch.float64))
        with np.errstate(invalid="ignore"):
            off = np.nan_to_num(np.abs(exact - fast[close]), nan=0.0).max()
        if not off or 4 * off <= margin or len(close) == len(items):
            break
        margin = 8 * off
    order = np.lexsort((close, -exact))
    with np.errstate(invalid="ignore"):  # −∞ − −∞
        gaps = exact[order][:-1] - exact[order][1:] > _TIE * max(1.0, np.abs(exact).max())
    order = order[np.lexsort((close[order], np.cumsum(np.concatenate([[False], gaps]))))][:k]
    return exact[order], items[close[order]]
