"""Evaluation protocols: which images and captions are ranked together. They state their counts and refuse to guess."""

from dataclasses import dataclass

import numpy as np

from xmr_core.base.errors import BadInput, unknown


@dataclass(frozen=True)
class Protocol:
    """n_images: how many images the test split must have (0 = any, all ranked together). n_folds: contiguous parts in file order."""

    name: str
    n_images: int
    n_folds: int
    about: str

    def folds(self, n_images: int, image_of: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """(image positions, caption positions) of each fold; a caption follows its image.

        Args: n_images: images at hand. image_of: each caption's image position.
        Raises: BadInput when the counts are not the protocol's; nothing is cut or padded to fit.
        """
        if self.n_images and n_images != self.n_images:
            raise BadInput(
                f"protocol {self.name} needs exactly {self.n_images:,} images, got {n_images:,}. "
                "Give the right split (COCO: 'testall', not 'test') or use protocol 'full'."
            )
        parts = np.array_split(np.arange(n_images), self.n_folds)
        return [(part, np.flatnonzero((image_of >= part[0]) & (image_of <= part[-1]))) for part in parts]


FULL = Protocol("full", 0, 1, "every image against every caption of the split; its size stands in n_queries")
COCO_5K = Protocol("coco-5k", 5000, 1, "all 5,000 test images against their captions")
COCO_1K = Protocol("coco-1k", 5000, 5, "five contiguous folds of 1,000 of the 5,000 test images, metrics averaged over folds")
FLICKR_1K = Protocol("flickr-1k", 1000, 1, "the 1,000 test images of Flickr30K or Flickr8k")
PROTOCOLS = {p.name: p for p in (FULL, COCO_5K, COCO_1K, FLICKR_1K)}


def get_protocol(name: str) -> Protocol:
    """A protocol by name. Raises BadInput with the known names."""
    if name not in PROTOCOLS:
        raise unknown("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]
