"""Evaluation protocols: which images and captions are ranked together. A protocol refuses any other number of
images."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from xmr_core.base.errors import BadInput, unknown


@dataclass(frozen=True)
class Protocol:
    """n_images: how many images the split must have; 0 accepts any number. n_folds: contiguous parts in file order."""

    name: str
    n_images: int
    n_folds: int
    about: str

    def folds(
        self, n_images: int, image_of: Int[np.ndarray, " t"]
    ) -> list[tuple[Int[np.ndarray, " i"], Int[np.ndarray, " s"]]]:
        """(image positions, caption positions) of each fold; a caption follows its image.

        Args: n_images: how many images there are. image_of: position of each caption's only image, −1 for a caption
            that has none or several.
        Raises: BadInput when the number of images is not the protocol's, or for several folds and a caption without
            exactly one image. Nothing is cut or padded to fit.

        >>> [captions.tolist() for _, captions in Protocol("halves", 4, 2, "").folds(4, np.array([0, 3, 1, 2]))]
        [[0, 2], [1, 3]]
        """
        if self.n_images and n_images != self.n_images:
            raise BadInput(
                f"protocol {self.name} needs exactly {self.n_images:,} images, got {n_images:,}. "
                "Give the right split (COCO: 'testall', not 'test') or use protocol 'full'."
            )
        if self.n_folds == 1:
            return [(np.arange(n_images), np.arange(len(image_of)))]
        if (image_of < 0).any():
            raise BadInput(
                f"protocol {self.name} has {self.n_folds} folds, so every caption needs exactly one image in the first "
                f"relevance set; {(image_of < 0).sum():,} of {len(image_of):,} captions have none or several. "
                "Use a protocol with one fold."
            )
        parts = np.array_split(np.arange(n_images), self.n_folds)
        return [(part, np.flatnonzero((image_of >= part[0]) & (image_of <= part[-1]))) for part in parts]


FULL = Protocol("full", 0, 1, "every image against every caption of the split; n_queries gives its size")
COCO_5K = Protocol("coco-5k", 5000, 1, "all 5,000 test images against their captions")
COCO_1K = Protocol(
    "coco-1k", 5000, 5, "five contiguous folds of 1,000 of the 5,000 test images, metrics averaged over folds"
)
FLICKR_1K = Protocol("flickr-1k", 1000, 1, "the 1,000 test images of Flickr30K or Flickr8k")
PROTOCOLS = {p.name: p for p in (FULL, COCO_5K, COCO_1K, FLICKR_1K)}


def get_protocol(name: str) -> Protocol:
    """A protocol by its name. Raises: BadInput with the names that exist.

    >>> get_protocol("coco-1k").n_folds
    5
    """
    if name not in PROTOCOLS:
        raise unknown("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]
