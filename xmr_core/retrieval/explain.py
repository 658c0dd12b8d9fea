"""Why a method returned an item: what each word and each cell adds to the score, for every method.

It is the term of the score where the score is a sum over words or cells, else the score minus the score without the
word or the cell.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from math import isqrt

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput, XmrError
from xmr_core.base.types import Brief, EmbeddingSet, Features, Pixels, Representation
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import (
    Query,
    Settings,
    answerable,
    encode,
    known_words,
    similarity_of,
    uploaded_input,
)
from xmr_core.similarities.base import Contributions, Similarity

PATCHES = 5  # of an image of pixels, in a row and in a column
STRONGEST = 3  # cells of an answer that are named
TERM, WITHOUT = "terms of the score", "the score minus the score without it"
_COLUMNS = ["rank", "item", "score", "part", "name", "adds", "how"]


@dataclass(frozen=True)
class Pair(Brief):
    """A query and an answer as an image and a sentence. position: of the image in the library, None for one from
    outside. image, caption: encoded. text: '' where an image answers an image."""

    library: Library
    query: Query
    position: int | None
    image: Representation
    text: str
    caption: Representation
    similarity: Similarity

    def read(self) -> Features | Pixels:
        """What the method reads of the image. Raises: BadInput where the images of an index are gone."""
        if self.position is None:
            return uploaded_input(self.library, self.query)
        return self.library.inputs(np.array([self.position]))


def pair_of(library: Library, query: Query, position: int, settings: Settings = Settings()) -> Pair:
    """A query and its answer at a position. Raises: BadInput as encode does.

    >>> from xmr_core.retrieval import example_library
    >>> pair_of(example_library(), Query("image", item="0.png"), position=2).text
    'a green ring'
    """
    main = Query("text", query.words) if query.words else query  # beside an image, its words are explained
    encoded, image, text = encode(library, main), position, main.text if main.kind == "text" else ""
    caption = encoded
    if query.kind == "caption":
        text = str(library.texts[library.position("captions", query.item)])
    elif query.target == "captions":
        image = library.position("images", query.item) if query.kind == "image" else None
        text, caption = str(library.texts[position]), library.captions[position]
    of_image = encoded if image is None else library.images[image]
    return Pair(library, query, image, of_image, text, caption, similarity_of(library, settings))


def without_each_word(pair: Pair) -> pd.DataFrame:
    """What each known word is worth for the score: the score, minus the score of the sentence without the word. This
    works for every method, whatever it attends to.

    Returns: columns word and adds, positive where the word raises the score. No rows for a sentence of one word. A
    method that reads word pieces is given the words between blanks.
    Raises: BadInput for a sentence of which the method knows no word.

    >>> from xmr_core.retrieval import example_library
    >>> without_each_word(pair_of(example_library(), Query("text", "a red zebra"), 0))["word"].tolist()
    ['a', 'red']
    """
    library = pair.library
    words = pair.text.split() if library.raw.vocabulary is None else known_words(library, pair.text)
    shorter = [" ".join(words[:n] + words[n + 1 :]) for n in range(len(words))] if len(words) > 1 else []
    captions = library.model.encoded("captions", library.raw.new_captions([" ".join(words), *shorter]))
    scores = score_matrix(pair.similarity, pair.image, captions)[0]
    return pd.DataFrame({"word": words[: len(shorter)], "adds": scores[0] - scores[1:]})


def without_each_cell(pair: Pair) -> Float[np.ndarray, " l"]:
    """What each of the l cells of the image is worth for the score: the score, minus the score without the cell. A
    method that reads pixels has no cells; its image is cut into PATCHES × PATCHES, and the pixels of one after the
    other take their mean colour over the image.

    >>> from xmr_core.retrieval import example_library
    >>> without_each_cell(pair_of(example_library(), Query("text", "a red circle"), 0)).shape
    (4,)
    """
    inputs = pair.read()  # of one image, and then first as it is
    if isinstance(inputs, Pixels):
        rows, columns = (torch.arange(n) * PATCHES // n for n in inputs.x.shape[2:])
        covered = rows[:, None] * PATCHES + columns == torch.arange(PATCHES**2)[:, None, None]  # patch h w
        changed = torch.where(covered[:, None], inputs.x.mean((2, 3), keepdim=True), inputs.x)
        inputs = Pixels(torch.cat([inputs.x, changed]))
    else:
        without = inputs.mask & ~torch.eye(inputs.mask.shape[1], dtype=torch.bool)
        mask = torch.cat([inputs.mask, without])
        inputs = replace(inputs[torch.zeros(len(mask), dtype=torch.long)], mask=mask)
    scores = score_matrix(pair.similarity, pair.library.model.encoded("images", inputs), pair.caption)[:, 0]
    return scores[0] - scores[1:]


def relative_uncertainty(library: Library, modality: str, item: Representation) -> tuple[float, float] | None:
    """(uncertainty of an item, share in [0, 1] of the library's 'images' or 'captions' that are more certain). None for
    a method without uncertainty.

    >>> from xmr_core.retrieval import example_library
    >>> library = example_library("vse++")
    >>> relative_uncertainty(library, "images", library.images[0]) is None
    True
    """
    if (values := library.uncertainty(modality)) is None:
        return None
    value = float(uncertainty(item)[0])
    return value, float((values < value).mean())


def word_contributions(pair: Pair) -> pd.DataFrame:
    """What each word of the sentence adds to its score with the image.

    Where the score is a sum over the words, its terms are taken; the row '(others)' is what <start>, <end> and the
    image's own terms add, so that the rows sum to the score. Otherwise a word adds the score minus the score without
    it.
    Returns: columns word and adds; attrs['how'] is TERM or WITHOUT. Raises: BadInput as without_each_word.

    >>> from xmr_core.retrieval import example_library
    >>> word_contributions(pair_of(example_library("scan"), Query("text", "a red circle"), 0)).attrs["how"]
    'terms of the score'
    """
    parts = element_contributions(pair)
    names = [] if parts is None or parts.captions is None else element_names(pair, len(parts.captions))
    if is_sum := names and np.any(parts.captions[1:-1]):
        rest = float(parts.captions[[0, -1]].sum() + parts.images.sum())
        table = pd.DataFrame({"word": [*names[1:-1], "(others)"], "adds": [*parts.captions[1:-1].tolist(), rest]})
    else:
        table = without_each_word(pair)
    table.attrs["how"] = TERM if is_sum else WITHOUT
    return table


def cell_contributions(pair: Pair) -> tuple[Float[np.ndarray, " l"], str]:
    """(what each of the l cells of the image adds to its score with the sentence, TERM or WITHOUT). Raises: BadInput
    where the image cannot be read.

    >>> from xmr_core.retrieval import example_library
    >>> values, how = cell_contributions(pair_of(example_library("vse++"), Query("text", "a red circle"), 0))
    >>> values.shape, how
    ((4,), 'the score minus the score without it')
    """
    parts = element_contributions(pair)
    if parts is not None and parts.images is not None and np.any(parts.images) and _of_words(pair.library):
        inputs = pair.read()
        if isinstance(inputs, Features) and int(inputs.mask.sum()) == len(parts.images) > 1:
            return parts.images, TERM
    return without_each_cell(pair), WITHOUT


def element_contributions(pair: Pair) -> Contributions | None:
    """What the elements of the image and the sentence add by the similarity itself; None where they are no sets."""
    with suppress(XmrError):
        if isinstance(pair.image, EmbeddingSet) and isinstance(pair.caption, EmbeddingSet):
            return pair.similarity.contributions(pair.image, pair.caption)
    return None


def element_names(pair: Pair, count: int) -> list[str]:
    """Names of the elements of the sentence where they are its words, with <start> and <end>; [] for other sets.

    >>> from xmr_core.retrieval import example_library
    >>> element_names(pair_of(example_library("scan"), Query("text", "a red circle"), 0), 5)
    ['<start>', 'a', 'red', 'circle', '<end>']
    """
    return pair.library.model.element_words(pair.text, count)


def _of_words(library: Library) -> bool:
    """Whether the elements that are compared are cells and words, and no chosen number of slots."""
    return library.method.similarity.compares in ("tokens", "graphs")


def explained(library: Library, query: Query, table: pd.DataFrame, cells: int = STRONGEST) -> pd.DataFrame:
    """What each word, and each of the cells that count most, adds to the scores of answers.

    Every method is explained, single vectors and methods that compare pairs included. Words are those of the sentence,
    or of the caption that answers an image; cells are those of the image, whichever of the two it is.
    table: what `search` or `rank` found for the query. cells: the most that are named for each answer, those of the
    largest |adds| first; a cell that adds nothing is left out.
    Returns: columns rank, item, score, part ('word' or 'cell'), name (a word, '(others)', or 'row 2, column 5 of 8 × 8'
        counted from the top left), adds, how (TERM or WITHOUT). Where similar images answer an image there are no
        words; where the images themselves cannot be read there are no cells.

    >>> from xmr_core.retrieval import example_library, search
    >>> library, query = example_library("scan"), Query("text", "a red circle")
    >>> explained(library, query, search(library, query.text, k=1))["name"].tolist()[:4]
    ['a', 'red', 'circle', '(others)']
    """
    rows, query = [], answerable(library, query)
    for answer in table.itertuples():
        pair, parts = pair_of(library, query, library.position(query.target, answer.item)), []
        if pair.text:
            words = word_contributions(pair)
            parts.append(words.rename(columns={"word": "name"}).assign(part="word", how=words.attrs["how"]))
        with suppress(BadInput):  # the images have moved, or the method reads nothing that has cells
            parts.append(_strongest(*cell_contributions(pair), cells))
        rows += [p.assign(rank=answer.rank, item=answer.item, score=answer.score) for p in parts if len(p)]
    return pd.concat(rows, ignore_index=True)[_COLUMNS] if rows else pd.DataFrame(columns=_COLUMNS)


def _strongest(values: Float[np.ndarray, " l"], how: str, most: int) -> pd.DataFrame:
    """The cells that count most, of those that add anything."""
    chosen = [n for n in np.argsort(-np.abs(values), kind="stable")[:most].tolist() if values[n] != 0]
    edge = isqrt(len(values))
    names = [f"row {n // edge + 1}, column {n % edge + 1} of {edge} × {edge}" for n in chosen]
    if edge * edge != len(values):
        names = [f"cell {n + 1} of {len(values)}" for n in chosen]
    return pd.DataFrame({"part": "cell", "name": names, "adds": values[chosen], "how": how})


def in_sentences(table: pd.DataFrame) -> list[str]:
    """The table of `explained` as lines of text, a few for each answer.

    >>> row = {"rank": 1, "item": "a.jpg", "score": 0.5, "part": "word", "name": "dog", "adds": 0.2, "how": "terms"}
    >>> in_sentences(pd.DataFrame([row]))
    ['1. a.jpg, score 0.5000', '   words (terms): dog +0.2000']
    """
    lines, parts = {}, {"word": "words", "cell": "cells that count most"}
    for (rank, item, score, part, how), own in table.groupby(["rank", "item", "score", "part", "how"], sort=False):
        said = ", ".join(f"{name} {adds:+.4f}" for name, adds in zip(own["name"], own["adds"], strict=True))
        lines.setdefault(f"{rank}. {item}, score {score:.4f}", []).append(f"   {parts[part]} ({how}): {said}")
    return [line for title, own in lines.items() for line in (title, *own)]
