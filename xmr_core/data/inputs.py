"""Reading the inputs of a batch: frozen features and their views, pixels, frozen states of captions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from xmr_core.base.row_file import JoinedRows, RowFile
from xmr_core.base.types import Corpus, Features, Pixels
from xmr_core.features.images import Fit, read_squares

View = tuple[np.ndarray, np.ndarray | None]  # local features "n l e"; global features "n e" or None
ImageReader = Callable[..., Features | Pixels]


@dataclass(frozen=True)
class CaptionStates:
    """Frozen word states of captions, one caption after the other.

    states: "words e" (array or memory map); caption c has the rows indptr[c] … indptr[c + 1]. rows: which captions
    these are, in the order of the split.

    >>> captions = CaptionStates(np.arange(3.0)[:, None], np.array([0, 1, 3]), np.array([1, 0]))
    >>> captions.read(np.array([0, 1])).local_feats[..., 0].tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """

    states: np.ndarray
    indptr: np.ndarray
    rows: np.ndarray

    def __getitem__(self, positions: np.ndarray) -> "CaptionStates":
        """The captions at positions in the split, not read yet."""
        return replace(self, rows=self.rows[positions])

    @property
    def lengths(self) -> np.ndarray:
        """Word states of each caption."""
        return np.diff(self.indptr)[self.rows]

    def read(self, positions: np.ndarray) -> Features:
        """Features "n l e" of captions at positions in the split, padded with zeros to the longest."""
        starts, lengths = self.indptr[self.rows[positions]], self.lengths[positions]
        mask = np.arange(lengths.max(initial=0))[None] < lengths[:, None]
        out = np.zeros((*mask.shape, self.states.shape[1]), self.states.dtype)
        out[mask] = self.states[(starts[:, None] + np.arange(mask.shape[1]))[mask]]
        return Features(torch.from_numpy(out), torch.from_numpy(mask))


def feature_reader(
    array: np.ndarray | RowFile | JoinedRows,
    global_array: np.ndarray | None = None,
    views: Sequence[View] = (),
    view_rows: np.ndarray | None = None,
) -> ImageReader:
    """Reader of frozen features "n_images l e" (array, memory map or file of rows). Every local element is valid.

    float64 is read as float32. global_array: "n_images e", read as global_feat. views: (local, global) features of
    augmented views of the images view_rows (image rows, ascending). The reader takes image rows and, where there are
    views, one number per row: 0 for the image itself, v for its v-th view.

    >>> feature_reader(np.zeros((5, 2, 3)))(np.array([4, 0])).local_feats.shape
    torch.Size([2, 2, 3])
    """

    def read(rows: np.ndarray, view: np.ndarray | None = None) -> Features:
        local = np.empty((len(rows), *array.shape[1:]), np.float32 if array.dtype == np.float64 else array.dtype)
        pooled = None if global_array is None else np.empty((len(rows), global_array.shape[1]), global_array.dtype)
        view = np.zeros(len(rows), int) if view is None else view
        for v, (local_part, global_part) in enumerate([(array, global_array), *views]):
            if len(places := np.flatnonzero(view == v)):
                source = rows[places] if v == 0 else np.searchsorted(view_rows, rows[places])
                order = np.argsort(source, kind="stable")  # a memory map is read in file order
                local[places[order]] = local_part[source[order]]
                if pooled is not None:
                    pooled[places] = global_part[source]
        mask = torch.ones(local.shape[:2], dtype=torch.bool)
        return Features(torch.from_numpy(local), mask, None if pooled is None else torch.from_numpy(pooled))

    return read


def pixel_reader(
    corpus: Corpus,
    resolution: int | None = None,
    crops: Callable[[np.ndarray, np.ndarray], list] | None = None,
    fit: Fit | None = None,
) -> ImageReader:
    """Reader of images as numbers in [0, 1], for encoders that learn from pixels.

    resolution: of the images read, None for the corpus's own. crops: (image rows, one view number per row) → one Crop
    per row; the reader then takes view numbers too. fit: how images become squares, None for squashing.
    """

    def read(rows: np.ndarray, view: np.ndarray | None = None) -> Pixels:
        parts = None if view is None or crops is None else crops(rows, view)
        return as_pixels(read_squares(corpus, rows, resolution or 0, parts, fit))

    return read


def as_pixels(images: np.ndarray) -> Pixels:
    """uint8 "n h w 3" as numbers in [0, 1], channels first: "n 3 h w".

    >>> as_pixels(np.full((1, 2, 2, 3), 255, np.uint8)).x.unique()
    tensor([1.])
    """
    return Pixels(torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 255)
