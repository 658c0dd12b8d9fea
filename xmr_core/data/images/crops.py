"""Which part of an image is shown."""

from dataclasses import dataclass

import numpy as np

SMALLEST = 0.6  # of the width and of the height


@dataclass(frozen=True)
class Crop:
    """A part of an image. box: left, top, right and bottom as fractions of its width and height, in [0, 1]."""

    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
    mirrored: bool = False


class TrainingCrops:
    """One view of every training image: a part of r times its width and height, r ~ U(0.6, 1), at a random place.

    Half of the crops are mirrored. Frozen features of several views let a method train on augmented images without
    running the network again. A crop follows from the view and from the row of the image in the corpus.
    Args: view: 1, 2, …
    Source: the crop of VSE∞'s grid features, with one ratio for width and height; docs/data.md#data-image-features.
    >>> [crop] = TrainingCrops(view=1)([0])
    >>> left, top, right, bottom = crop.box
    >>> 0.6 <= round(right - left, 6) == round(bottom - top, 6) <= 1
    True
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
