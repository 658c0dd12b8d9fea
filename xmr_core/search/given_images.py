"""Images in the forms in which a user has them, as a loaded model reads them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import existing_file
from xmr_core.base.types import Features
from xmr_core.data.images.files import UNREADABLE, array_reader, convert_to_rgb, decoded, why_unreadable
from xmr_core.data.raw_inputs import RawInputs
from xmr_core.methods.common import Inputs

ImageLike = str | Path | Image.Image | np.ndarray


def listed(images, one_has_three_axes: bool) -> Sequence:
    """Images as a list or an array with one entry for each; a single one becomes a list of one.

    one_has_three_axes: whether an array of three axes is one image. Raises: BadInput for what is no image and no
    collection.
    """
    if isinstance(images, Tensor):
        images = _array(images)
    if hasattr(images, "to_numpy"):  # a table of pandas
        images = images.to_numpy()
    one = one_has_three_axes and isinstance(images, np.ndarray) and images.ndim == 3
    if one or isinstance(images, str | Path | Image.Image):
        return [images]
    if not isinstance(images, Iterable):
        raise BadInput(f"images must be files, PIL images or arrays, got {images!r:.100}.")
    images = images if hasattr(images, "__len__") else list(images)
    if not len(images):
        raise BadInput("no image given; give at least one.")
    return images


def pixels_of(image: ImageLike | Tensor) -> UInt8[np.ndarray, "h w 3"]:
    """The pixels of an image given as a file, a PIL image or an array.

    Raises: BadInput for what is no image; DamagedFile for a file that cannot be read.
    """
    if isinstance(image, str | Path):
        image = existing_file(image, "image")
    try:
        if isinstance(image, Path):
            image = decoded(image)
        if isinstance(image, Image.Image):
            image = np.asarray(convert_to_rgb(image))
    except UNREADABLE as e:
        raise DamagedFile(f"image {image} cannot be read ({why_unreadable(e)}). Give another file.") from None
    if not isinstance(image, np.ndarray | Tensor):
        raise BadInput(f"an image must be a file, a PIL image or an array, got {type(image).__name__}.")
    image = _array(image)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        shape = "×".join(map(str, image.shape))
        raise BadInput(f"an image must be uint8 of height×width×3 and not empty, got {image.dtype} of {shape}.")
    return image


def one_image(image: ImageLike, raw: RawInputs) -> UInt8[np.ndarray, "h w 3"]:
    """One image of any size at a model's resolution, read as images of a corpus are. Raises: as pixels_of."""
    return array_reader(pixels_of(image)[None])(np.array([0]), raw.inputs.resolution, fit=raw.fit)[0]


def regions(images, inputs: Inputs) -> Features:
    """Features of regions, "n l e", or one vector for each image, "n e", where a model was trained on such.

    Raises: BadInput for other shapes, another width, or numbers that are not finite.
    """
    try:
        x = torch.from_numpy(np.stack([_array(image).astype(np.float32) for image in images]))
    except (RuntimeError, TypeError, ValueError) as e:
        raise BadInput(f"features of regions must be arrays of one shape, regions × width ({e}).") from None
    if x.ndim == 2 and inputs.cells == 1:  # it was trained on one vector of each image
        x = x[:, None]
    if x.ndim != 3 or x.shape[2] != inputs.image_width or not x.isfinite().all():
        width = inputs.image_width
        raise BadInput(f"features of regions must be finite, n × regions × {width}, got {tuple(x.shape)}.")
    return Features(x, torch.ones(x.shape[:2], dtype=torch.bool))


def _array(x) -> np.ndarray:
    if isinstance(x, Tensor):  # numpy knows no bfloat16
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy(force=True)
    return np.asarray(x)
