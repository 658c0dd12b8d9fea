"""Why a method returned an item: its score without a word or without a cell, and how uncertain the item is."""

from dataclasses import dataclass
from math import isqrt

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput, XmrError
from xmr_core.base.types import EmbeddingSet, Features, Pixels, Representation
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.evaluation.scoring import score_matrix
from xmr_core.features.words import rule
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query, Settings, encode, known_words, similarity_of, uploaded_input
from xmr_core.similarities.base import Contributions

PATCHES = 5  # of an image of pixels, in a row and in a column


@dataclass(frozen=True)
class OutsideImage:
    """An image that is not in the library. items: encoded. inputs: what the method reads of it."""

    items: Representation
    inputs: Features | Pixels


def outside_image(library: Library, query: Query) -> OutsideImage:
    """The image of a query of the kind 'upload', encoded."""
    return OutsideImage(encode(library, query), uploaded_input(library, query))


def encoded_image(library: Library, image: int | OutsideImage) -> Representation:
    """An image by its position in the library, or one from outside, encoded."""
    return image.items if isinstance(image, OutsideImage) else library.images[image]


def image_input(library: Library, image: int | OutsideImage) -> Features | Pixels:
    """What the method reads of an image. Raises: BadInput where the images of an index are gone."""
    return image.inputs if isinstance(image, OutsideImage) else library.inputs(np.array([image]))


def without_each_word(
    library: Library, text: str, image: int | OutsideImage, settings: Settings = Settings()
) -> pd.DataFrame:
    """What each known word of a sentence is worth for the score with an image (its position): the score, minus the
    score of the sentence without the word. This works for every method, whatever it attends to.

    Returns: columns word and worth, positive where the word raises the score. No rows for a sentence of one word.
    A method that reads word pieces is given the words between blanks.
    Raises: BadInput for a sentence of which the method knows no word.

    >>> from xmr_core.retrieval import example_library
    >>> without_each_word(example_library(), "a red zebra", 0)["word"].tolist()
    ['a', 'red']
    """
    words = text.split() if library.prepared.vocabulary is None else known_words(library, text)
    shorter = [" ".join(words[:n] + words[n + 1 :]) for n in range(len(words))] if len(words) > 1 else []
    tokens = library.prepared.new_captions([" ".join(words), *shorter])
    with torch.inference_mode():
        captions = library.method.encode_captions(tokens.to(library.method.device)).to("cpu")
    scores = score_matrix(similarity_of(library, settings), encoded_image(library, image), captions)[0]
    return pd.DataFrame({"word": words[: len(shorter)], "worth": scores[0] - scores[1:]})


def without_each_cell(
    library: Library, image: int | OutsideImage, caption: Representation, settings: Settings = Settings()
) -> Float[np.ndarray, " l"]:
    """What each of the l cells of an image (its position) is worth for its score with one caption: the score, minus the
    score without the cell. A method that reads pixels has no cells; its image is cut into PATCHES × PATCHES, and the
    pixels of one after the other take their mean colour over the image.

    >>> from xmr_core.retrieval import example_library
    >>> library = example_library()
    >>> without_each_cell(library, 0, library.captions[0]).shape
    (4,)
    """
    features = image_input(library, image)
    inputs = _without_patches(features) if isinstance(features, Pixels) else _without_cells(features)
    with torch.inference_mode():
        images = library.method.encode_images(inputs.to(library.method.device)).to("cpu")
    scores = score_matrix(similarity_of(library, settings), images, caption)[:, 0]
    return scores[0] - scores[1:]


def _without_cells(features: Features) -> Features:
    """The features of one image, first as they are, then without each cell."""
    cells = features.mask.shape[1]
    local, vector = (
        None if x is None else x.expand(cells + 1, *x.shape[1:]) for x in (features.local_feats, features.global_feat)
    )
    mask = torch.cat([features.mask, features.mask & ~torch.eye(cells, dtype=torch.bool)])
    return Features(local, mask, vector)


def _without_patches(image: Pixels) -> Pixels:
    """One image, first as it is, then with each patch in the mean colour of the image."""
    height, width = image.x.shape[2:]
    rows, columns = (torch.arange(n) * PATCHES // n for n in (height, width))
    patch = rows[:, None] * PATCHES + columns  # h w
    covered = patch == torch.arange(PATCHES**2)[:, None, None]
    changed = torch.where(covered[:, None], image.x.mean((2, 3), keepdim=True), image.x)
    return Pixels(torch.cat([image.x, changed]))


def relative_uncertainty(
    library: Library, modality: str, item: Representation | None = None, position: int | None = None
) -> tuple[float, float] | None:
    """(uncertainty of an item, share in [0, 1] of the library's items of that modality that are more certain).

    modality: 'images' or 'captions'. The item is the one at a position of the library, or `item`. None for a method
    without uncertainty.

    >>> from xmr_core.retrieval import example_library
    >>> relative_uncertainty(example_library("vse++"), "images", position=0) is None
    True
    """
    values = library.uncertainty(modality)
    if values is None:
        return None
    value = float(uncertainty(item)[0]) if position is None else float(values[position])
    return value, float((values < value).mean())


# What each word and each cell adds to a score, for every method: the terms of the score where it is a sum over
# them, else the score minus the score without the word or the cell.


TERM, WITHOUT = "terms of the score", "the score minus the score without it"


def word_contributions(
    library: Library, text: str, image: int | OutsideImage, caption: Representation, settings: Settings = Settings()
) -> pd.DataFrame:
    """What each word of a sentence adds to its score with an image, given by its position or from outside.

    caption: the sentence, encoded. Where the score is a sum over the words, its terms are taken; the row '(others)' is
    what <start>, <end> and the image's own terms add, so that the rows sum to the score. Otherwise a word adds the
    score minus the score without it.
    Returns: columns word and adds; attrs['how'] is TERM or WITHOUT. Raises: BadInput as without_each_word.

    >>> from xmr_core.retrieval import example_library
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

    >>> from xmr_core.retrieval import example_library
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

    >>> from xmr_core.retrieval import example_library
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

    >>> from xmr_core.retrieval import example_library
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


# Answers explained in words and cells, for every method.


STRONGEST = 3  # cells of an answer that are named

_NO_ROWS = pd.DataFrame({"part": [], "name": [], "adds": [], "how": []})


def explained(library: Library, query: Query, table: pd.DataFrame, cells: int = STRONGEST) -> pd.DataFrame:
    """What each word, and each of the cells that count most, adds to the scores of answers.

    A word or a cell adds its term of the score where the score is a sum over them, else the score minus the score
    without it; so every method is explained, single vectors and methods that compare pairs included. Words are those of
    the sentence, or of the caption that answers an image; cells are those of the image, whichever of the two it is.
    table: what `search` or `rank` found for the query. cells: the most that are named for each answer, those of the
    largest |adds| first; a cell that adds nothing is left out.
    Returns: columns rank, item, score, part ('word' or 'cell'), name (a word, '(others)', or 'row 2, column 5 of 8 × 8'
        counted from the top left), adds, how (contributions.TERM or WITHOUT). Where similar images answer an image
        there are no words; where the images themselves cannot be read there are no cells.

    >>> from xmr_core.retrieval import example_library, search
    >>> library, query = example_library("scan"), Query("text", "a red circle")
    >>> explained(library, query, search(library, query.text, k=1))["name"].tolist()[:4]
    ['a', 'red', 'circle', '(others)']
    """
    captions_answer = query.target == "captions" and library.captions is not None
    rows = []
    for answer in table.itertuples():
        if captions_answer:
            position = library.position("captions", answer.item)
            image = outside_image(library, query) if query.kind == "upload" else library.position("images", query.item)
            text, caption = str(library.texts[position]), library.captions[position]
        else:
            image, caption, text = library.position("images", answer.item), encode(library, query), query.text
            if query.kind == "caption":
                text = str(library.texts[library.position("captions", query.item)])
            text = "" if query.kind == "upload" else text
        parts = [_words(library, text, image, caption)] if text else []
        parts = [part for part in (*parts, _cells(library, image, caption, cells)) if len(part)]
        part = pd.concat(parts, ignore_index=True) if parts else _NO_ROWS
        rows.append(part.assign(rank=answer.rank, item=answer.item, score=answer.score))
    columns = ["rank", "item", "score", *_NO_ROWS]
    return pd.concat(rows, ignore_index=True)[columns] if rows else _NO_ROWS.reindex(columns=columns)


def in_sentences(table: pd.DataFrame) -> list[str]:
    """The table of `explained` as lines of text, a few for each answer.

    >>> row = {"rank": 1, "item": "a.jpg", "score": 0.5, "part": "word", "name": "dog", "adds": 0.2, "how": "terms"}
    >>> in_sentences(pd.DataFrame([row]))
    ['1. a.jpg, score 0.5000', '   words (terms): dog +0.2000']
    """
    lines = []
    for (rank, item, score), own in table.groupby(["rank", "item", "score"], sort=False):
        lines.append(f"{rank}. {item}, score {score:.4f}")
        for (part, how), group in own.groupby(["part", "how"], sort=False):
            said = ", ".join(f"{name} {adds:+.4f}" for name, adds in zip(group["name"], group["adds"], strict=True))
            strongest = "words" if part == "word" else "cells that count most"
            lines.append(f"   {strongest} ({how}): {said}")
    return lines


def _words(library: Library, text: str, image: int | OutsideImage, caption: Representation) -> pd.DataFrame:
    table = word_contributions(library, text, image, caption)
    return table.rename(columns={"word": "name"}).assign(part="word", how=table.attrs["how"])


def _cells(library: Library, image: int | OutsideImage, caption: Representation, most: int) -> pd.DataFrame:
    try:
        values, how = cell_contributions(library, image, caption)
    except BadInput:  # the images have moved, or the method reads nothing that has cells
        return _NO_ROWS
    strongest = [n for n in np.argsort(-np.abs(values), kind="stable")[:most].tolist() if values[n] != 0]
    edge = isqrt(len(values))
    square = edge * edge == len(values)
    names = [
        f"row {n // edge + 1}, column {n % edge + 1} of {edge} × {edge}" if square else f"cell {n + 1} of {len(values)}"
        for n in strongest
    ]
    return pd.DataFrame({"part": "cell", "name": names, "adds": values[strongest], "how": how})
