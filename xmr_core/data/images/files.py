"""Reading image files."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import repeat
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from xmr_core.base.errors import DamagedFile
from xmr_core.base.fit import Fit
from xmr_core.base.regular import open_regular
from xmr_core.data.images.crops import Crop

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
RESOLUTION = 224  # pixels
# The only formats that are read, whatever a file is called: Pillow would hand EPS, for example, to another program
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
LARGEST = 89_478_485  # pixels; a small file that says it has more is meant to fill the memory
UNREADABLE = (Exception,)  # for a damaged file Pillow raises errors of many kinds, all of which mean the same
_THREADS = 4  # decoding releases Python's lock, so threads run in parallel


def read_image(
    path: Path | str, resolution: int = RESOLUTION, crop: Crop = Crop(), fit: Fit | None = None
) -> UInt8[np.ndarray, "h w 3"]:
    """One image, or a part of it, as RGB in [0, 255], of resolution × resolution pixels.

    Without `fit` the aspect ratio is not kept, so that nothing is cut off. The image is turned as its EXIF data says,
    and any colour mode is converted as `convert_to_rgb` describes. Of an animation, the first frame is read.
    Raises: DamagedFile, with the name of a file that is missing, cut short or not an image.
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("L", (30, 20), 9).save(f"{folder}/grey.png")
    ...     read_image(f"{folder}/grey.png", resolution=2)[0].tolist()
    [[9, 9, 9], [9, 9, 9]]
    """
    with _named(path):
        return _resized(decoded(path), resolution, crop, fit)


@contextmanager
def _named(path: Path | str) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as e:
        raise DamagedFile(
            f"image {path} cannot be read ({why_unreadable(e)}). Replace the file, or take it out of the lists."
        ) from None


def why_unreadable(error: Exception) -> str:
    """One of UNREADABLE in a few words for people.

    >>> why_unreadable(UnidentifiedImageError("cannot identify image file <_io.BufferedReader name=4>"))
    'it is no image, or of a kind that is not read'
    """
    if isinstance(error, UnidentifiedImageError):  # whose text names a stream of bytes, not the file
        return "it is no image, or of a kind that is not read"
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


@contextmanager
def opened_image(file: Path | str | BinaryIO) -> Iterator[Image.Image]:
    """The only place that opens images: a regular file in one of FORMATS, with at most LARGEST pixels.

    Nothing is decoded yet. Raises: one of UNREADABLE, here or when the image is decoded.

    >>> import io
    >>> with opened_image(io.BytesIO(b"%!PS-Adobe-3.0 EPSF-3.0")) as image:
    ...     pass
    Traceback (most recent call last):
    PIL.UnidentifiedImageError: cannot identify image file...
    """
    source = nullcontext(file) if hasattr(file, "read") else open_regular(file)
    with source as opened, Image.open(opened, formats=FORMATS) as image:
        if image.size[0] * image.size[1] > LARGEST:
            raise Image.DecompressionBombError(f"{image.size[0]:,} × {image.size[1]:,} pixels, more than are read")
        yield image


def decoded(file: Path | str | BinaryIO) -> Image.Image:
    """An image file as 8-bit RGB in its own size, turned as its EXIF data says. Raises one of UNREADABLE."""
    with opened_image(file) as image:
        return convert_to_rgb(ImageOps.exif_transpose(image))


def read_thumbnail(path: Path | str, edge: int) -> UInt8[np.ndarray, "h w 3"]:
    """An image in its own shape, its longer edge at most `edge` pixels; a JPEG is decoded at about that size, which is
    many times as fast. Raises: DamagedFile as read_image.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (300, 200)).save(f"{folder}/dog.jpg")
    ...     read_thumbnail(f"{folder}/dog.jpg", 90).shape
    (60, 90, 3)
    """
    with _named(path), opened_image(path) as image:
        image.draft("RGB", (edge, edge))
        small = convert_to_rgb(ImageOps.exif_transpose(image))
        small.thumbnail((edge, edge))
        return np.asarray(small)


def convert_to_rgb(image: Image.Image) -> Image.Image:
    """An image of any colour mode as 8-bit RGB: 16 bits a channel are scaled to 8, so are floating-point
    numbers of at most 1; transparency is laid on white."""
    if image.mode.startswith(("I", "F")):  # grey with 16 or 32 bits, which Pillow would clip to 255
        values = np.asarray(image, np.float64)
        largest = 255.0 if values.max(initial=0) <= 255 else 65535.0
        if image.mode.startswith("F") and values.max(initial=0) <= 1:  # as scientific programs write TIFF
            largest = 1.0
        image = Image.fromarray((values / largest * 255).clip(0, 255).round().astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def image_reader(
    files: Sequence[Path | str], resolution: int = RESOLUTION
) -> Callable[..., UInt8[np.ndarray, "n h w 3"]]:
    """A Corpus's `read_pixels` for image files: (rows, resolution, one Crop for each row, fit) → stacked images."""

    def read(
        rows: np.ndarray, resolution: int = resolution, crops: Sequence[Crop] | None = None, fit: Fit | None = None
    ) -> np.ndarray:
        jobs = [files[row] for row in rows], repeat(resolution), crops or [Crop()] * len(rows), repeat(fit)
        if len(rows) < 2 * _THREADS:
            return np.stack(list(map(read_image, *jobs)))
        with ThreadPoolExecutor(_THREADS) as pool:
            return np.stack(list(pool.map(read_image, *jobs)))

    return read


def array_reader(pixels: UInt8[np.ndarray, "n h w 3"]) -> Callable[..., UInt8[np.ndarray, "n h w 3"]]:
    """A Corpus's `read_pixels` for images in memory, with the arguments of `image_reader`.

    >>> array_reader(np.zeros((5, 8, 8, 3), np.uint8))([4, 0], resolution=3).shape
    (2, 3, 3, 3)
    """

    def read(
        rows: np.ndarray, resolution: int = 0, crops: Sequence[Crop] | None = None, fit: Fit | None = None
    ) -> np.ndarray:
        resolution = resolution or pixels.shape[1]
        if resolution == pixels.shape[1] == pixels.shape[2] and crops is None and fit is None:
            return pixels[rows]
        pairs = zip(rows, crops or [Crop()] * len(rows), strict=True)
        return np.stack([_resized(Image.fromarray(pixels[row]), resolution, crop, fit) for row, crop in pairs])

    return read


def _resized(image: Image.Image, resolution: int, crop: Crop, fit: Fit | None = None) -> np.ndarray:
    fit = fit or Fit(resolution, keeps_ratio=False)
    w, h = image.size
    left, top, right, bottom = crop.box
    box = (left * w, top * h, right * w, bottom * h)
    size = fit.size(box[2] - box[0], box[3] - box[1])
    if image.size != size or crop.box != (0, 0, 1, 1):
        image = image.resize(size, Image.Resampling(fit.resample), box)
    if size != (resolution, resolution):
        x, y = (size[0] - resolution) // 2, (size[1] - resolution) // 2
        image = image.crop((x, y, x + resolution, y + resolution))
    return np.asarray(ImageOps.mirror(image) if crop.mirrored else image)
