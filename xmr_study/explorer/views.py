"""What people see of a library: photographs and captions, attention, and the models that encode a folder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.analysis.elements import nearest_partner, node_weights, slot_attention, word_attention
from xmr_core.features.images import read_image, read_thumbnail
from xmr_core.retrieval.index import MANIFEST
from xmr_core.retrieval.library import Library, elements_of
from xmr_core.retrieval.ranking import known_words
from xmr_core.training.runs.folder import resolve_run, run_table


def photograph(library: Library, position: int, edge: int = 240) -> UInt8[np.ndarray, "h w 3"]:
    """The image at a position in its own shape, its longer edge at most `edge` pixels where it is a file.

    Raises: BadInput for a corpus of features; DamagedFile for a file that cannot be read.

    >>> from xmr_core.retrieval import example_library
    >>> photograph(example_library(), 0)
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: this corpus has features and no images to show.
    """
    if library.pixels is None:
        raise BadInput("this corpus has features and no images to show.")
    path = library.paths(position)
    return read_thumbnail(path, edge) if path else library.pixels(position)


def seen_part(library: Library, position: int, edge: int = 240) -> UInt8[np.ndarray, "h w 3"]:
    """The part of the image at a position that the method reads: the square in its centre where it was made for that,
    else all of it. Cells are those of this part. Raises: as photograph.
    """
    fit, path = library.raw.fit, library.paths(position)
    if path and fit is not None and fit.keeps_ratio:
        return read_image(path, library.raw.inputs.resolution, fit=fit)
    return photograph(library, position, edge)


def captions_of(library: Library, position: int) -> list[str]:
    """The annotated captions of the image at a position, in file order; [] where there are none.

    >>> from xmr_core.retrieval import example_library
    >>> captions_of(example_library(), 1)
    ['a blue square']
    """
    if "annotated" not in library.relevance_sets:
        return []
    return [str(text) for text in library.texts[library.relevant("annotated", "images", position)]]


# The attention of a method to an image of a library: of its elements, and of the words of a sentence.


def element_attention(library: Library, position: int) -> Float[np.ndarray, "k l"]:
    """How each of the k elements of the image at a position attends to its l cells in the last round. Rows sum to 1.

    Raises: BadInput for a method whose elements do not come from attention to cells.

    >>> from xmr_core.retrieval import example_library
    >>> element_attention(example_library("dive"), 0).shape
    (4, 4)
    """
    return slot_attention(library.method, _image_input(library, position))[0, -1].cpu().numpy()


def nearest_captions(library: Library, position: int) -> pd.DataFrame:
    """For each element of the image at a position, the caption of the library that holds its nearest element.

    Returns: columns element (from 0), text, cosine.
    Raises: BadInput for a method without small sets, or a library without captions.

    >>> from xmr_core.retrieval import example_library
    >>> nearest_captions(example_library("dive"), 0).columns.tolist()
    ['element', 'text', 'cosine']
    """
    captions = library.items("captions")
    if elements_of(library.images) < 2:
        raise BadInput(f"{library.label} makes no small sets, so there are no elements to have neighbours.")
    nearest = nearest_partner(library.images[position], captions)
    return nearest.assign(text=library.texts[nearest["caption"]])[["element", "text", "cosine"]]


def word_attention_of(library: Library, text: str, position: int) -> tuple[list[str], Float[np.ndarray, "q l"]]:
    """(the q words of a sentence that the method knows, how each attends to the l cells of the image at a position).

    Rows sum to 1. Raises: BadInput for a method without attention of words over cells, or one that reads word pieces.

    >>> from xmr_core.retrieval import example_library
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

    >>> from xmr_core.retrieval import example_library
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
    tokens = library.raw.new_captions([" ".join(words)])
    return words, (_image_input(library, position), tokens.to(library.method.device))


# Which models encode a folder of images: those that are named, or the newest run of each method.


def folder_models(place: Path, names: Sequence[str] = ()) -> list[str]:
    """What `load` is to read, checked before anything starts that takes its time; [] for an index, which has its own.

    place: a folder of images, or an index. names: runs, folders, files or models on the hub; none takes the newest
    finished run of each method, the newest first. Only what cannot be a path or lie on the hub is looked up here;
    `load` says what is wrong with others.
    Raises: BadInput for a place that is no folder, names beside an index, a name that is no run, and where no run is
        finished.

    >>> folder_models(Path("."), ["google/siglip-base-patch16-224"])
    ['google/siglip-base-patch16-224']
    """
    if not place.is_dir():
        raise BadInput(f"{place} is no folder. Give a folder of images, or an index.")
    if (place / MANIFEST).exists():
        if names:
            raise BadInput(f"{place} is an index, which holds its own model. Name no other.")
        return []
    for name in names:
        if "/" not in name and not Path(name).expanduser().exists():
            resolve_run(name)
    models = list(names) or _newest_runs()
    if not models:
        fault = "there is no finished run to encode these images with"
        raise BadInput(f"{fault}. Train one (`python -m xmr_core train dive`), or name a model: --run NAME.")
    return models


def _newest_runs() -> list[str]:
    """Short names of the newest finished run of each method, the newest first."""
    table = run_table()
    table = table[table["state"] == "finished"]
    return table.groupby("method", sort=False)["name"].last().tolist()[::-1]
