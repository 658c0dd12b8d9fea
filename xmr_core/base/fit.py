"""How an image of any shape becomes a square, and reading images that way from any corpus."""

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from xmr_core.base.types import Corpus

_ROUNDING = 1e-9  # of the sides of crops, which are fractions; sides in pixels divide exactly or miss by more


@dataclass(frozen=True)
class Fit:
    """An image is resized, and the square in its centre is cut out (black is added where it is smaller).

    keeps_ratio: the shorter edge gets `edge` pixels, and the other one as many as keep the ratio, rounded down;
    otherwise both get `edge`. resample: Pillow's number of the filter (0 nearest, 1 Lanczos, 2 bilinear, 3 bicubic,
    4 box, 5 Hamming).

    >>> Fit(edge=256, keeps_ratio=True).size(width=640, height=480)
    (341, 256)
    """

    edge: int
    keeps_ratio: bool
    resample: int = 3

    def size(self, width: float, height: float) -> tuple[int, int]:
        """(width, height) of an image after resizing, before its centre is cut out."""
        if not self.keeps_ratio:
            return self.edge, self.edge
        if width <= height:
            return self.edge, int(self.edge * height / width + _ROUNDING)
        return int(self.edge * width / height + _ROUNDING), self.edge


def read_squares(
    corpus: Corpus, rows: np.ndarray, resolution: int = 0, crops: Sequence | None = None, fit: Fit | None = None
) -> UInt8[np.ndarray, "n h w 3"]:
    """Images of a corpus as squares: its `read_pixels`, with those of the arguments that are given.

    A reader of one's own that knows no `fit` squashes, and a warning says so.

    >>> from types import SimpleNamespace
    >>> read_squares(SimpleNamespace(read_pixels=lambda rows, resolution: (rows, resolution)), [0], 8)
    ([0], 8)
    """
    options = {"resolution": resolution, "crops": crops, "fit": fit}
    options = {name: value for name, value in options.items() if value}
    if fit and not _takes_fit(corpus.read_pixels):
        warnings.warn(
            f"the image reader of {corpus.name} takes no argument `fit`, so images are squashed where the network was "
            "trained on the centre of images. Give it the argument, as data.array_reader has it.",
            stacklevel=2,
        )
        del options["fit"]
    return corpus.read_pixels(rows, **options)


def _takes_fit(reader) -> bool:
    try:
        parameters = inspect.signature(reader).parameters.values()
    except (TypeError, ValueError):  # of a compiled function
        return False
    return any(p.name == "fit" or p.kind is p.VAR_KEYWORD for p in parameters)
