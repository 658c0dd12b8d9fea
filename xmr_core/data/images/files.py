"""Reading image files."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from xmr_core.base.errors import DamagedFile
from xmr_core.data.images.crops import Crop

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
RESOLUTION = 224  # pixels
# What Pillow raises for files that it cannot read
UNREADABLE = (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError)
_THREADS = 4  # decoding releases Python's lock, so threads run in parallel


def read_image(path: Path | str, resolution: int = RESOLUTION, crop: Crop = Crop()) -> UInt8[np.ndarray, "h w 3"]:
    """One image, or a part of it, as RGB in [0, 255], resized to resolution × resolution pixels.

    The aspect ratio is not kept, so that nothing is cut off. The image is turned as its EXIF data says, and any colour
    mode is converted as `convert_to_rgb` describes. Of an animation, the first frame is read.
    Raises: DamagedFile, with the name of a file that is missing, cut short or not an image.
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("L", (30, 20), 9).save(f"{folder}/grey.png")
    ...     read_image(f"{folder}/grey.png", resolution=2)[0].tolist()
    [[9, 9, 9], [9, 9, 9]]
    """
    try:
        return _resized(decoded(path), resolution, crop)
    except UNREADABLE as e:
        raise DamagedFile(
            f"image {path} cannot be read ({e}). Replace the file, or take it out of the lists."
        ) from None


def decoded(file: Path | str | BinaryIO) -> Image.Image:
    """An image file as 8-bit RGB in its own size, turned as its EXIF data says. Raises one of UNREADABLE."""
    with Image.open(file) as image:
        return convert_to_rgb(ImageOps.exif_transpose(image))


def convert_to_rgb(image: Image.Image) -> Image.Image:
    """An image of any colour mode as 8-bit RGB: 16 bits a channel are scaled to 8, transparency is laid on white."""
    if image.mode.startswith(("I", "F")):  # grey with 16 or 32 bits, which Pillow would clip to 255
        values = np.asarray(image, np.float64)
        largest = 255.0 if values.max(initial=0) <= 255 else 65535.0
        image = Image.fromarray((values / largest * 255).clip(0, 255).round().astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def image_reader(
    files: Sequence[Path | str], resolution: int = RESOLUTION
) -> Callable[..., UInt8[np.ndarray, "n h w 3"]]:
    """A Corpus's `read_pixels` for image files: (rows, resolution, one Crop for each row) → stacked images."""

    def read(rows: np.ndarray, resolution: int = resolution, crops: Sequence[Crop] | None = None) -> np.ndarray:
        parts = crops or [Crop()] * len(rows)
        jobs = [(files[row], resolution, part) for row, part in zip(rows, parts, strict=True)]
        if len(jobs) < 2 * _THREADS:
            return np.stack([read_image(*job) for job in jobs])
        with ThreadPoolExecutor(_THREADS) as pool:
            return np.stack(list(pool.map(lambda job: read_image(*job), jobs)))

    return read


def array_reader(pixels: UInt8[np.ndarray, "n h w 3"]) -> Callable[..., UInt8[np.ndarray, "n h w 3"]]:
    """A Corpus's `read_pixels` for images in memory, with the arguments of `image_reader`.

    >>> array_reader(np.zeros((5, 8, 8, 3), np.uint8))([4, 0], resolution=3).shape
    (2, 3, 3, 3)
    """

    def read(rows: np.ndarray, resolution: int = 0, crops: Sequence[Crop] | None = None) -> np.ndarray:
        resolution = resolution or pixels.shape[1]
        if resolution == pixels.shape[1] and crops is None:
            return pixels[rows]
        pairs = zip(rows, crops or [Crop()] * len(rows), strict=True)
        return np.stack([_resized(Image.fromarray(pixels[row]), resolution, crop) for row, crop in pairs])

    return read


def _resized(image: Image.Image, resolution: int, crop: Crop) -> np.ndarray:
    w, h = image.size
    left, top, right, bottom = crop.box
    if image.size != (resolution, resolution) or crop.box != (0, 0, 1, 1):
        box = (left * w, top * h, right * w, bottom * h)
        image = image.resize((resolution, resolution), Image.Resampling.BICUBIC, box)
    return np.asarray(ImageOps.mirror(image) if crop.mirrored else image)
