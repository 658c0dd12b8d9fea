"""Images: pixels, squares of any shape, crops, files that are read, and files that cannot be decoded."""

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.paths import open_regular
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
    """Images of a corpus as squares: its `read_pixels`, with those of the arguments that are given. A reader of one's
    own needs the argument `fit` only for networks that have one.

    >>> from types import SimpleNamespace
    >>> read_squares(SimpleNamespace(read_pixels=lambda rows, resolution: (rows, resolution)), [0], 8)
    ([0], 8)
    """
    options = {"resolution": resolution, "crops": crops, "fit": fit}
    return corpus.read_pixels(rows, **{name: value for name, value in options.items() if value})


# Pixels as a network reads them.


_FEW = 16  # images; where memory is reused as fast as 32, and elsewhere faster (docs/speed.md)


def channels_first(
    pixels: UInt8[np.ndarray, "n h w 3"], resolution: int, device: torch.device | str | None = None
) -> UInt8[Tensor, "n 3 h w"]:
    """Images with their channels first, on a device. Raises: BadInput unless they are resolution × resolution × 3.

    >>> channels_first(np.zeros((2, 8, 8, 3), np.uint8), 8).shape
    torch.Size([2, 3, 8, 8])
    """
    check_shape(pixels.shape[1:], resolution)
    return torch.from_numpy(np.ascontiguousarray(pixels)).to(device).permute(0, 3, 1, 2)


def check_shape(shape: tuple[int, ...], resolution: int) -> None:
    """Raise BadInput unless the shape of an image, (height, width, channels), is (resolution, resolution, 3)."""
    if tuple(shape) != (resolution, resolution, 3):
        raise BadInput(f"expected images of {resolution}×{resolution}×3, got {'×'.join(map(str, shape))}.")


def by_few(network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """network(x), computed on a CPU for a few images at a time and on other devices for all at once.

    On a CPU the activations of a large batch leave the cache; `reused_buffers` says what their memory costs besides.
    Each image's numbers are the same.

    >>> by_few(lambda x: 2 * x, torch.ones(9, 3, 2, 2)).sum().item()
    216.0
    """
    return torch.cat([network(part) for part in x.split(_FEW)]) if x.device.type == "cpu" else network(x)


class Frozen:
    """A network `net` that does not learn, on one device."""

    net: nn.Module

    def to(self, device: torch.device | str | None) -> None:
        """Compute on another device from now on; None for where the network is."""
        self.net = self.net.requires_grad_(False).to(device)
        self.device = next(self.net.parameters()).device


# Which part of an image is shown.


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
        crops = []
        for row in rows:
            rng = np.random.default_rng([self.view, int(row)])
            r = rng.uniform(SMALLEST, 1)
            left, top = rng.uniform(0, 1 - r), rng.uniform(0, 1 - r)
            crops.append(Crop((left, top, left + r, top + r), bool(rng.random() < 0.5)))
        return crops


# Reading image files.


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
        raise DamagedFile(f"image {path} cannot be read ({why_unreadable(e)}). Replace it or take it out.") from None


def why_unreadable(error: Exception) -> str:
    """One of UNREADABLE in a phrase that is the same for all files with the same fault.

    >>> why_unreadable(UnidentifiedImageError("cannot identify image file <_io.BufferedReader name=4>"))
    'it is no image, or of a kind that is not read'
    >>> why_unreadable(OSError("image file is truncated (17 bytes not processed)"))
    'image file is truncated'
    """
    if isinstance(error, UnidentifiedImageError):  # whose text names a stream of bytes, not the file
        return "it is no image, or of a kind that is not read"
    if isinstance(error, Image.DecompressionBombError):
        return f"more than {LARGEST:,} pixels"
    text = getattr(error, "strerror", None) or re.sub(r"[(][^)]*[)]|-?[0-9]+", "", str(error))
    return " ".join(text.split())[:200] or type(error).__name__


_pillow = threading.Lock()
_before: list[tuple] = []  # what Pillow was set to when each of the files was opened that are open now


@contextmanager
def _strict_pillow() -> Iterator[None]:
    """Inside, Pillow raises for a file that is cut short, whose rest it would draw grey where other code allows it."""
    with _pillow:
        _before.append((ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS))
        ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = False, LARGEST
    try:
        yield
    finally:
        with _pillow:  # the last that is closed sets what the first has found
            ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = _before.pop()


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
    with source as opened, _strict_pillow(), Image.open(opened, formats=FORMATS) as image:
        if image.size[0] * image.size[1] > LARGEST:
            raise Image.DecompressionBombError("{:,} × {:,} pixels, more than are read".format(*image.size))
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


# Which image files of a folder cannot be decoded.


_BATCH = 64  # files in one piece of work


def inspect_image(path: Path | str) -> str:
    """Why the file cannot be decoded, '' if it can.

    Every byte is decoded, so that a file that is cut short is noticed. A JPEG is decoded to an eighth of its size,
    which is faster.
    >>> import io
    >>> Image.new("L", (80, 9)).save(file := io.BytesIO(), "PNG")
    >>> inspect_image(file), inspect_image(io.BytesIO(b"GIF89a"))
    ('', 'it is no image, or of a kind that is not read')
    """
    try:
        with opened_image(path) as image:
            image.draft(image.mode, (1, 1))
            image.load()
    except UNREADABLE as e:
        return why_unreadable(e)
    return ""


def inspect_images(files: Sequence[Path | str], progress: Callable | None = None) -> list[str]:
    """`inspect_image` for every file, in order, in several threads. progress: wraps the list of pieces of work."""
    batches = [files[start : start + _BATCH] for start in range(0, len(files), _BATCH)]
    pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2))  # decoding releases Python's lock
    try:
        results = [pool.submit(list, map(inspect_image, batch)) for batch in batches]
        return [reason for result in (progress or iter)(results) for reason in result.result()]
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt does not wait for the remaining files
