"""How inputs are read when a batch asks for them: frozen features and their views, pixels, frozen states of captions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from xmr_core.base.row_file import JoinedRows, RowFile
from xmr_core.base.types import Corpus, Features, Pixels

View = tuple[np.ndarray, np.ndarray | None]
ImageReader = Callable[..., Features | Pixels]


@dataclass(frozen=True)
class CaptionStates:
    """Frozen states of captions, one after the other: states "words e" (array or memory map), caption c having rows
    indptr[c] … indptr[c + 1]. rows: which captions these are, in the order of the split."""

    states: np.ndarray
    indptr: np.ndarray
    rows: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return self.indptr[self.rows + 1] - self.indptr[self.rows]

    def at(self, positions: np.ndarray) -> Features:
        """Features "n l e" of captions at positions within the split, padded with zeros to the longest."""
        rows = self.rows[positions]
        lengths = self.indptr[rows + 1] - self.indptr[rows]
        mask = np.arange(lengths.max(initial=0))[None] < lengths[:, None]
        out = np.zeros((*mask.shape, self.states.shape[1]), self.states.dtype)
        for n, row in enumerate(rows):
            out[n, : lengths[n]] = self.states[self.indptr[row] : self.indptr[row + 1]]
        return Features(torch.from_numpy(out), torch.from_numpy(mask))


def feature_reader(
    array: np.ndarray | RowFile | JoinedRows,
    whole: np.ndarray | None = None,
    views: Sequence[View] = (),
    view_rows: np.ndarray | None = None,
) -> ImageReader:
    """Reader of frozen features "n_images l e" (array, memory map or file of rows); every local element is real. float64 is read as
    float32.

    whole: "n_images e", as global_feat. views: (array, whole) of other looks at the pictures view_rows (image rows, ascending).
    The reader takes image rows and, where there are views, one number per row: 0 the picture itself, v its v-th view.
    """

    def read(rows: np.ndarray, view: np.ndarray | None = None) -> Features:
        local = np.empty((len(rows), *array.shape[1:]), np.float32 if array.dtype == np.float64 else array.dtype)
        overall = None if whole is None else np.empty((len(rows), whole.shape[1]), whole.dtype)
        for v, (of_cells, of_whole) in enumerate([(array, whole), *views]):
            mine = np.arange(len(rows)) if view is None else np.flatnonzero(view == v)
            if len(mine) and (v == 0 or view is not None):
                at = rows[mine] if v == 0 else np.searchsorted(view_rows, rows[mine])
                order = np.argsort(at, kind="stable")  # a memory map is read in file order
                local[mine[order]] = of_cells[at[order]]
                if overall is not None:
                    overall[mine] = of_whole[at]
        mask = torch.ones(local.shape[:2], dtype=torch.bool)
        return Features(torch.from_numpy(local), mask, None if overall is None else torch.from_numpy(overall))

    return read


def pixel_reader(corpus: Corpus, resolution: int = 0, crops: Callable[[np.ndarray, np.ndarray], list] | None = None) -> ImageReader:
    """Reader of pictures as numbers in [0, 1], for encoders that learn from pixels. resolution: 0 for the corpus's own.

    crops: (image rows, one view number per row) → data.pictures.Crop per row; the reader then takes view numbers too.
    """

    def read(rows: np.ndarray, view: np.ndarray | None = None) -> Pixels:
        given = {} if view is None or crops is None else {"crops": crops(rows, view)}
        return as_pixels(corpus.read_pixels(rows, **({"resolution": resolution} if resolution else {}), **given))

    return read


def as_pixels(pictures: np.ndarray) -> Pixels:
    """uint8 "n h w 3" as numbers in [0, 1], channels first."""
    return Pixels(torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float() / 255)
