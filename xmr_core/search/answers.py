"""Search: a sentence or an image goes in, and a table of answers comes out."""

from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import EmbeddingSet
from xmr_core.data.images.files import UNREADABLE, convert_to_rgb, decoded, why_unreadable
from xmr_core.evaluation.engine import top_k
from xmr_core.search.library import Library
from xmr_core.search.proposals import Proposer
from xmr_core.search.query import Query, encode, nearest_of
from xmr_core.search.ranking import Settings, check_settings, rank, require_finite_scores
from xmr_core.search.two_stage import two_stage


def search(
    library: Library,
    text: str = "",
    image: Path | str | Image.Image | UInt8[np.ndarray, "h w 3"] | None = None,
    k: int = 10,
    explain: bool = False,
    elements: Proposer | None = None,
    most: int | None = None,
) -> pd.DataFrame:
    """The k best answers to a sentence or to an image.

    Images answer a sentence. Captions answer an image; where the library has no captions, similar images answer it.

    Args:
        library: an Index or any other Library. image: a file, a PIL image, or pixels.
        explain: return one row for each element of the query beside each answer. Padding is left out.
        elements: an index over the elements of the library's images (Elements, EngineElements). The images are then
            searched in two stages (two_stage) instead of being compared one by one. Captions are always compared one by
            one.
        most: as of two_stage: ask for this many proposals for each element where the answer is not certified at once.
    Returns: columns rank (from 1), item, text (of captions) and score. Equal scores are in file order.
        table.attrs['unknown_words'] holds the words of the sentence that the method does not know, and
        table.attrs['nearest'] words that no training caption has, with the word that each is read as. With elements,
        also 'certified' (whether the answer is provably that of exact search), 'bound' (no image that was not proposed
        has a higher score) and 'reason' (why there is no bound, or '').
        With explain: columns rank, item, score, element (of the query, from 0), best (the answer's element nearest to
        it), cosine (of the two) and adds (what the query's element adds to the score; the answer's elements add the
        rest; NaN for a similarity that is no sum over elements).
    Raises: BadInput for no query or two, for explain where the method makes no sets, for an image where there are no
        captions and the method cannot compare images with images, and as rank; DamagedFile for an image file that
        cannot be read.

    >>> from xmr_core.search import example_library
    >>> search(example_library(), "a red zebra", k=2).attrs["unknown_words"]
    ('zebra',)
    """
    if not isinstance(text, str):
        raise BadInput(f"a sentence must be a string, got {type(text).__name__}; search for one at a time.")
    if bool(text.strip()) == (image is not None):
        raise BadInput("search for a sentence or an image: give one of them, and not both.")
    query = Query("text", text) if image is None else Query("upload", pixels=pixels_of(image))
    check_settings(library, Settings(k=k))
    if query.kind == "upload" and library.captions is None:
        if not library.method.similarity.symmetric:
            raise BadInput(
                f"{library.label} compares images with captions only, and these images have no captions; "
                "type a sentence."
            )
        target, (table, positions) = "images", _best_images(library, query, k, elements, most)
    elif query.kind == "text" and elements is not None:
        target, (table, positions) = "images", _best_images(library, query, k, elements, most)
        unknown_words = tuple(library.prepared.words_of(text)[1])
        table.attrs |= {"unknown_words": unknown_words, "nearest": nearest_of(library, text)}
    else:
        ranking = rank(library, query, Settings(k=k))
        target, table, positions = ranking.target, ranking.table, ranking.order
        table.attrs |= {"unknown_words": ranking.unknown_words, "nearest": dict(ranking.nearest)}
    return _explained(library, query, target, table, positions) if explain else table


def _best_images(
    library: Library, query: Query, k: int, elements: Proposer | None, most: int | None
) -> tuple[pd.DataFrame, np.ndarray]:
    """(table, positions) of the best k images, of all or of those that elements propose. An image as the query takes
    the role of a caption."""
    encoded, similarity = encode(library, query), library.method.similarity
    if elements is None:
        scores, positions = top_k(similarity, encoded, library.images, k, "captions")
    else:
        answers = two_stage(elements, encoded, similarity, k, most=most)
        scores, positions = answers
    scores, positions = scores[positions >= 0], positions[positions >= 0]
    require_finite_scores(scores, library.label)
    ranks = np.arange(1, len(positions) + 1)
    table = pd.DataFrame({"rank": ranks, "item": library.image_ids[positions], "score": scores})
    if elements is not None:
        certified, bound = bool(answers.certified[0]), float(answers.bounds[0])
        table.attrs |= {"certified": certified, "bound": bound, "reason": answers.reason}
    return table, positions


def _explained(library: Library, query: Query, target: str, table: pd.DataFrame, positions: np.ndarray) -> pd.DataFrame:
    encoded, gallery = encode(library, query), library.items(target)
    if not isinstance(encoded, EmbeddingSet):
        raise BadInput(
            f"{library.label} makes one vector or distribution per item, "
            "so there are no elements to explain a score by."
        )
    rows = []
    for answer, position in zip(table.itertuples(), positions.tolist(), strict=True):
        pair = (gallery[position], encoded) if target == "images" else (encoded, gallery[position])
        parts = library.method.similarity.contributions(*pair)
        cosines, adds = (parts.products.T, parts.captions) if target == "images" else (parts.products, parts.images)
        for n, best in enumerate(cosines.argmax(1).tolist()):
            added = np.nan if adds is None else adds[n]
            rows.append((answer.rank, answer.item, answer.score, n, best, cosines[n, best], added))
    out = pd.DataFrame(rows, columns=["rank", "item", "score", "element", "best", "cosine", "adds"])
    out.attrs.update(table.attrs)
    return out


def pixels_of(image: Path | str | Image.Image | Tensor | np.ndarray) -> np.ndarray:
    """The pixels of an image given as a file, a PIL image or an array. Raises: BadInput for anything else; DamagedFile
    for a file that cannot be read."""
    if isinstance(image, Image.Image):
        return np.asarray(convert_to_rgb(image))
    if isinstance(image, Tensor):
        return image.numpy(force=True)
    if isinstance(image, np.ndarray):
        return image
    if not isinstance(image, str | Path):
        raise BadInput(f"an image must be a file, a PIL image or an array, got {type(image).__name__}.")
    path = files.existing(image, "image")
    try:
        return np.asarray(decoded(path))
    except UNREADABLE as e:
        raise DamagedFile(f"image {path} cannot be read ({why_unreadable(e)}). Give another file.") from None
