"""What people see of an image of a library: the photograph in its own shape, its captions, what the method reads."""

import numpy as np
from jaxtyping import UInt8

from xmr_core.base.errors import BadInput
from xmr_core.data.images.files import read_image, read_thumbnail
from xmr_core.search.library import Library


def photograph(library: Library, position: int, edge: int = 240) -> UInt8[np.ndarray, "h w 3"]:
    """The image at a position in its own shape, its longer edge at most `edge` pixels where it is a file.

    Raises: BadInput for a corpus of features; DamagedFile for a file that cannot be read.

    >>> from xmr_core.search import example_library
    >>> photograph(example_library(), 0)
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: this corpus has features and no images to show.
    """
    if library.pixels is None:
        raise BadInput("this corpus has features and no images to show.")
    path = library.paths(position) if library.paths is not None else ""
    return read_thumbnail(path, edge) if path else library.pixels(position)


def seen_part(library: Library, position: int, edge: int = 240) -> UInt8[np.ndarray, "h w 3"]:
    """The part of the image at a position that the method reads: the square in its centre where it was made for that,
    else all of it. Cells are those of this part. Raises: as photograph.
    """
    fit, path = library.prepared.fit, library.paths(position) if library.paths is not None else ""
    if path and fit is not None and fit.keeps_ratio:
        return read_image(path, library.prepared.inputs.resolution, fit=fit)
    return photograph(library, position, edge)


def captions_of(library: Library, position: int) -> list[str]:
    """The annotated captions of the image at a position, in file order; [] where there are none.

    >>> from xmr_core.search import example_library
    >>> captions_of(example_library(), 1)
    ['a blue square']
    """
    if "annotated" not in library.relevance_sets:
        return []
    return [str(text) for text in library.texts[library.relevant("annotated", "images", position)]]
