"""A sentence or a picture in, a table out."""

from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import UInt8

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import EmbeddingSet
from xmr_core.data.images.files import UNREADABLE, decoded
from xmr_core.evaluation.engine import top_k
from xmr_core.search.elements import Elements
from xmr_core.search.library import Library
from xmr_core.search.query import Query, encode, words_of
from xmr_core.search.ranking import Settings, check_settings, rank
from xmr_core.search.two_stage import two_stage


def search(
    library: Library,
    text: str = "",
    picture: Path | str | UInt8[np.ndarray, "h w 3"] | None = None,
    k: int = 10,
    explain: bool = False,
    elements: Elements | None = None,
) -> pd.DataFrame:
    """The k best answers to a sentence (pictures) or a picture (captions; pictures like it where the library has no captions).

    Columns rank (from 1), item, text (of captions), score. table.attrs['unknown_words']: words of the sentence that were not understood.
    explain: instead a row for every element of the query beside each answer, with the columns element (from 0), best (the answer's
    element nearest to it), cosine (of the two) and adds: what the query's element adds to the score; the answer's elements add the
    rest. Empty for similarities that are no sum over elements. Of padding no element is shown.

    library: an Index or any Library. picture: a file, or pixels. Equal scores stand in file order. elements: of the library's pictures, which
    are then not all compared but found in two stages (two_stage); captions are compared all the same.
    Raises: BadInput for neither or both of sentence and picture, explain where the method makes no sets, and as explore.rank; DamagedFile
        for a picture file that cannot be read.
    """
    if bool(text.strip()) == (picture is not None):
        raise BadInput("search for a sentence or a picture: give one of them, and not both.")
    query = Query("text", text) if picture is None else Query("picture", pixels=_pixels(picture))
    check_settings(library, Settings(k=k))
    if query.kind == "picture" and library.captions is None:
        target, (table, positions) = "images", _alike(library, query, k, elements)
    elif query.kind == "text" and elements is not None:
        target, (table, positions) = "images", _pictures(library, query, k, elements)
        table.attrs["unknown_words"] = tuple(words_of(library, text)[1])
    else:
        found = rank(library, query, Settings(k=k))
        target, table, positions = found.target, found.table, found.order
        table.attrs["unknown_words"] = found.unknown_words
    return _explained(library, query, target, table, positions) if explain else table


def _alike(library: Library, query: Query, k: int, elements: Elements | None) -> tuple[pd.DataFrame, np.ndarray]:
    """Pictures by their similarity to a picture, which stands where a caption would."""
    if not library.method.similarity.symmetric:
        raise BadInput(f"{library.label} compares pictures with captions only, and these pictures have no captions; type a sentence.")
    return _pictures(library, query, k, elements)


def _pictures(library: Library, query: Query, k: int, elements: Elements | None) -> tuple[pd.DataFrame, np.ndarray]:
    """The best k pictures, of all or of those that elements propose: (table, positions)."""
    asked, similarity = encode(library, query), library.method.similarity
    if elements is None:
        scores, positions = top_k(similarity, asked, library.images, k, "captions")
    else:
        scores, positions = two_stage(elements, asked, similarity, k)
    scores, positions = scores[positions >= 0], positions[positions >= 0]
    return pd.DataFrame({"rank": np.arange(1, len(positions) + 1), "item": library.image_ids[positions], "score": scores}), positions


def _explained(library: Library, query: Query, target: str, table: pd.DataFrame, positions: np.ndarray) -> pd.DataFrame:
    asked, gallery = encode(library, query), library.items(target)
    if not isinstance(asked, EmbeddingSet):
        raise BadInput(f"{library.label} makes one vector or distribution per item, so there are no elements to explain a score by.")
    rows = []
    for answer, at in zip(table.itertuples(), positions.tolist(), strict=True):
        item = gallery[at]
        image, caption = (item, asked) if target == "images" else (asked, item)
        parts = library.method.similarity.contributions(image, caption)
        products, adds = (parts.products.T, parts.captions) if target == "images" else (parts.products, parts.images)
        best = products.argmax(1)
        for n in range(len(products)):
            rows.append(
                (answer.rank, answer.item, answer.score, n, int(best[n]), products[n, best[n]], np.nan if adds is None else adds[n])
            )
    out = pd.DataFrame(rows, columns=["rank", "item", "score", "element", "best", "cosine", "adds"])
    out.attrs.update(table.attrs)
    return out


def _pixels(picture: Path | str | np.ndarray) -> np.ndarray:
    if isinstance(picture, np.ndarray):
        return picture
    path = paths.existing(picture, "picture")
    try:
        return np.asarray(decoded(path))
    except UNREADABLE as e:
        raise DamagedFile(f"picture {path} cannot be read ({e}). Give another file.") from None
