"""Answers explained in words and cells, for every method."""

from math import isqrt

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Representation
from xmr_core.search.contributions import cell_contributions, word_contributions
from xmr_core.search.library import Library
from xmr_core.search.query import Query, encode
from xmr_core.search.why import OutsideImage, outside_image

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

    >>> from xmr_core.search import example_library, search
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
