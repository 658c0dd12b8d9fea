"""Which part of a picture a training view shows."""

import numpy as np

from xmr_core.data.images.files import Crop

SMALLEST = 0.6  # of each side


class TrainingCrops:
    """One view of every training picture: a part of r times its width and height, r ~ U(0.6, 1), anywhere; mirrored half the time.

    Frozen features of several such views let a method train on augmented pictures without computing the network every time.
    view: 1, 2, …; a crop follows from it and the picture's row in the corpus.
    Source: the crop of VSE∞'s grid features (METHODS §7 b), with one ratio for both sides.
    """

    def __init__(self, view: int):
        self.view = view
        self.identity = f"crop-{SMALLEST}-mirror-{view}"

    def __call__(self, rows: np.ndarray) -> list[Crop]:
        return [self._crop(int(row)) for row in rows]

    def _crop(self, row: int) -> Crop:
        rng = np.random.default_rng([self.view, row])
        r = rng.uniform(SMALLEST, 1)
        left, top = rng.uniform(0, 1 - r), rng.uniform(0, 1 - r)
        return Crop((left, top, left + r, top + r), bool(rng.random() < 0.5))
