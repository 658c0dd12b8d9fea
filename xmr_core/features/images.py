"""Images: pixels, squares of any shape, crops, files that are read, and files that cannot be decoded."""

import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from threading import RLock
from typing import BinaryIO

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.fingerprint import bytes_hash
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


SUFFIXES = (".jpg", ".jpeg", ".jfif", ".jpe", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
# Of images that are not read: a folder with such is told so
OTHER_SUFFIXES = (".heic", ".heif", ".avif", ".jp2", ".j2k", ".jxl", ".svg", ".pdf", ".psd", ".tga", ".ppm", ".dng")
RESOLUTION = 224  # pixels
# The only formats that are read, whatever a file is called: Pillow would hand EPS, for example, to another program
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
LARGEST = 89_478_485  # pixels; a small file that says it has more is meant to fill the memory
_SCANS = 16  # of a JPEG of LARGEST pixels; encoders write about ten, and each costs as much as the image
_LARGE = 1 << 25  # pixels; of larger images one is decoded at a time, because several would fill the memory
_THREADS = 4  # decoding releases Python's lock, so threads run in parallel
ImageFileLike = Path | str | bytes | BinaryIO | Image.Image
_Tag = ExifTags.Base


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
    with named(path), opened_image(path) as image:
        return _resized(convert_to_rgb(image), resolution, crop, fit)


@contextmanager
def named(image: ImageFileLike) -> Iterator[None]:
    """Raise DamagedFile with the image's name and the reason for any error in the block, but for a lack of memory."""
    try:
        yield
    except Exception as e:  # for a damaged file Pillow raises errors of many kinds, all of which mean the same
        name = image if isinstance(image, Path | str | ImageBytes) else f"given as {type(image).__name__}"
        raise DamagedFile(f"image {name} cannot be read ({why_unreadable(e)}). Replace it or take it out.") from None


def why_unreadable(error: Exception) -> str:
    """An error of reading an image in a phrase that is the same for all files with the same fault.

    Raises: MemoryError for a lack of memory, which is no fault of a file.

    >>> why_unreadable(UnidentifiedImageError("cannot identify image file <_io.BufferedReader name=4>"))
    'it is no image, or of a kind that is not read'
    >>> why_unreadable(OSError("image file is truncated (17 bytes not processed)"))
    'image file is truncated'
    """
    if isinstance(error, MemoryError) or "out of memory" in str(error):
        raise MemoryError(str(error)) from None
    if isinstance(error, UnidentifiedImageError):  # whose text names a stream of bytes, not the file
        return "it is no image, or of a kind that is not read"
    if isinstance(error, Image.DecompressionBombError):
        return f"more than {LARGEST:,} pixels"
    if isinstance(error, BadInput):
        return str(error).rstrip(".")
    text = getattr(error, "strerror", None) or re.sub(r"[(][^)]*[)]|-?[0-9]+", "", str(error))
    return " ".join(text.split())[:200] or type(error).__name__


class ImageBytes(bytes):
    """An image file in memory, which is read like one on disk; path: where it came from, if that is known."""

    path = ""

    def __str__(self) -> str:
        return self.path or bytes_hash(self)


_one_large, _pillow = RLock(), RLock()
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
def opened_image(file: ImageFileLike) -> Iterator[Image.Image]:
    """The only place that opens images: a regular file in one of FORMATS, with at most LARGEST pixels.

    file: also bytes, a file object, and an image of Pillow, which is taken as it is. Nothing is decoded yet.
    Raises: errors of many kinds, here or when the image is decoded (`named`).

    >>> with opened_image(b"%!PS-Adobe-3.0 EPSF-3.0") as image:
    ...     pass
    Traceback (most recent call last):
    PIL.UnidentifiedImageError: cannot identify image file...
    """
    with ExitStack() as stack:
        stack.enter_context(_strict_pillow())
        image = file
        if not isinstance(file, Image.Image):
            file = io.BytesIO(file) if isinstance(file, bytes | bytearray | memoryview) else file
            opened = file if hasattr(file, "read") else stack.enter_context(open_regular(file))
            image = stack.enter_context(Image.open(opened, formats=FORMATS))
            if image.format in ("JPEG", "MPO"):
                place, _ = image.fp.tell(), image.fp.seek(0)
                scans, _ = image.fp.read().count(b"\xff\xda"), image.fp.seek(place)
                if scans * image.size[0] * image.size[1] > _SCANS * LARGEST:
                    raise BadInput("a JPEG of more scans than its pixels need")
        elif getattr(image, "tile", None):  # not decoded yet: Pillow turns a TIFF that it maps into rubbish
            stack.callback(setattr, image, "filename", image.filename)
            image.filename = ""
        pixels, tags = image.size[0] * image.size[1], getattr(image, "tag_v2", {})
        tile = tags.get(_Tag.TileWidth, 0) * tags.get(_Tag.TileLength, 0)  # is decoded whole
        if max(pixels, tile) > LARGEST:
            raise Image.DecompressionBombError("{:,} × {:,} pixels, more than are read".format(*image.size))
        if pixels > _LARGE:
            stack.enter_context(_one_large)
        yield image


def read_thumbnail(path: Path | str, edge: int) -> UInt8[np.ndarray, "h w 3"]:
    """An image in its own shape, its longer edge at most `edge` pixels; a JPEG is decoded at about that size, which is
    many times as fast. Raises: DamagedFile as read_image.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (300, 200)).save(f"{folder}/dog.jpg")
    ...     read_thumbnail(f"{folder}/dog.jpg", 90).shape
    (60, 90, 3)
    """
    with named(path), opened_image(path) as image:
        image.draft("RGB", (edge, edge))
        small = convert_to_rgb(image)
        small.thumbnail((edge, edge))
        return np.asarray(small)


def convert_to_rgb(image: Image.Image) -> Image.Image:
    """An image of any colour mode as 8-bit RGB, turned as its EXIF data says; transparency is laid on white.

    Numbers are scaled by their type (`eight_bits`), never by the largest of the image. Colour profiles are not applied.
    Raises: BadInput for numbers without a known white.
    """
    tags, of_png = getattr(image, "tag_v2", {}), image.format == "PNG"
    image.load()
    with suppress(SyntaxError):  # EXIF data that are none turn nothing
        image = ImageOps.exif_transpose(image) if image.getexif().get(_Tag.Orientation, 1) != 1 else image
    bits, signed = (np.max(tags.get(getattr(_Tag, name), 0)) for name in ("BitsPerSample", "SampleFormat"))
    if signed == 2 or (bits > 8 and tags.get(_Tag.PlanarConfiguration) == 2):  # Pillow takes their bytes for others
        raise BadInput("a TIFF of signed numbers, or of planes of 16 bits; save it with 8 bits")
    if image.mode.startswith(("I", "F")):  # grey with 16 or 32 bits, which Pillow would clip to 255
        values = np.asarray(image, np.uint16 if of_png else None)  # which older versions of Pillow hold in 32 bits
        grey = eight_bits(values, bits or 16)
        if tags.get(_Tag.PhotometricInterpretation) == 0:  # white is zero, which Pillow heeds up to 8 bits
            grey = 255 - grey
        if image.mode != "F" and "transparency" in image.info:
            grey[values == image.info["transparency"]] = 255
        image = Image.fromarray(grey)
    image = image.convert("LA") if image.mode == "La" else image
    if image.has_transparency_data:
        image = image if image.mode == "RGBA" else image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def eight_bits(values: np.ndarray, bits: int = 16) -> UInt8[np.ndarray, "..."]:
    """Numbers of pixels in 8 bits: of 16 bits the upper ones, as Pillow reads colours of 16 bits; floating-point
    numbers from 0, black, to 1, white; booleans.

    bits: of the numbers in 16 bits that are used. Raises: BadInput for other numbers.
    >>> eight_bits(np.array([0, 0.5, 1])).tolist(), eight_bits(np.array([255, 65535], np.uint16)).tolist()
    ([0, 128, 255], [0, 255])
    """
    if values.dtype == bool:
        return values * np.uint8(255)
    if values.dtype.kind == "f":
        if not ((values >= 0) & (values <= 1)).all():
            raise BadInput("floating-point numbers must lie from 0, black, to 1, white; these hold others, or NaN")
        return (values * np.float32(255)).round().astype(np.uint8)
    if values.dtype.kind != "u" or values.dtype.itemsize > 2:
        raise BadInput(f"numbers of type {values.dtype} have no known white; give uint8, uint16, or floats from 0 to 1")
    return values if values.dtype.itemsize == 1 else (values >> (bits - 8)).astype(np.uint8)


def pixels_of_array(x: np.ndarray) -> UInt8[np.ndarray, "h w 3"]:
    """An array as an image of its numbers is read: grey "h w", "h w 1", with alpha "h w 2", RGB "h w 3" or RGBA
    "h w 4"; or with 1, 3 or 4 channels first. Raises: BadInput for another shape, or as eight_bits.

    >>> pixels_of_array(np.ones((3, 5, 6), np.float32)).shape
    (5, 6, 3)
    """
    if x.ndim == 3 and x.shape[0] in (1, 3, 4) and x.shape[2] > 4:
        x = np.moveaxis(x, 0, 2)
    x = x[..., 0] if x.ndim == 3 and x.shape[2] == 1 else x
    if x.ndim not in (2, 3) or (x.ndim == 3 and x.shape[2] not in (2, 3, 4)) or not x.size:
        raise BadInput(f"an image must be height×width×3 (or grey, or a file), got {x.dtype} of {x.shape}.")
    x = eight_bits(x)
    return x if x.shape[2:] == (3,) else np.asarray(convert_to_rgb(Image.fromarray(x)))


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

    read.files = files
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
_USED = 0.1  # of the range of 8 bits


def inspect_image(path: Path | str) -> str:
    """Why the file cannot be decoded, '' if it can.

    >>> Image.new("L", (80, 9)).save(file := io.BytesIO(), "PNG")
    >>> inspect_image(file), inspect_image(io.BytesIO(b"GIF89a"))
    ('', 'it is no image, or of a kind that is not read')
    """
    return _inspected(path)[0]


def _inspected(path: Path | str, every_pixel: bool = False) -> tuple[str, str, tuple[int, ...], bool, bool]:
    """(why it cannot be decoded, digest of its pixels, its two edges, whether every pixel was read, whether nearly all
    pixels are the same).

    Every byte is decoded, so that a file that is cut short is noticed. A JPEG is decoded to an eighth of its size,
    which is faster.
    """
    try:
        with opened_image(path) as image:
            edges = tuple(sorted(size := image.size))
            if not every_pixel:
                image.draft(image.mode, (1, 1))
            image.load()
            every_pixel, pixels = image.size == size, convert_to_rgb(image)
            flat = max(high - low for low, high in pixels.getextrema()) < _USED * 255
            if every_pixel or not flat:
                return "", bytes_hash(repr(pixels.size).encode() + pixels.tobytes()), edges, every_pixel, flat
    except Exception as e:  # see `named`
        return why_unreadable(e), "", (), True, False
    return _inspected(path, every_pixel=True)  # an eighth is a mean


def is_image(path: Path | str) -> bool:
    """Whether a file begins as an image of one of FORMATS does."""
    with suppress(Exception), opened_image(path):
        return True
    return False


def inspect_images(files: Sequence[Path | str], progress: Callable | None = None) -> list[tuple[str, str, bool]]:
    """For every file, in order: why it cannot be decoded ('' if it can), a digest of its pixels, and whether nearly all
    of them are the same. Several threads read. progress: wraps the list of pieces of work.

    Digests are equal exactly where all decoded pixels are, whatever the kind of file; '' where it cannot be decoded.
    A JPEG is decoded in full only where its eighth is that of another one, or a file of another kind has its size.
    """
    batches = [files[start : start + _BATCH] for start in range(0, len(files), _BATCH)]
    complete = partial(_inspected, every_pixel=True)
    pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2))  # decoding releases Python's lock
    try:
        results = [pool.submit(list, map(_inspected, batch)) for batch in batches]
        seen = [one for result in (progress or iter)(results) for one in result.result()]
        counts, sizes = Counter(seen), {edges for _, _, edges, every_pixel, _ in seen if every_pixel}
        unsure = [n for n, one in enumerate(seen) if not one[3] and (counts[one] > 1 or one[2] in sizes)]
        for n, one in zip(unsure, pool.map(complete, (files[n] for n in unsure)), strict=True):
            seen[n] = one
        return [(why, digest, flat) for why, digest, _, _, flat in seen]
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt does not wait for the remaining files


def image_contents(corpus: Corpus, rows: np.ndarray, progress: Callable | None = None) -> tuple[list[str], list, list]:
    """(why each image cannot be decoded, whether its pixels are nearly all the same, what names its content), of these
    rows of a corpus; progress as above.

    Contents are equal where a model sees the same: all pixels of two files, or all features of two images. The content
    of an image that is in no file, or cannot be decoded, is its row.
    """
    reasons, flat, names = [], [], [""] * len(rows)
    if corpus.features is not None:
        names = [bytes_hash(np.asarray(corpus.features[row])[0].tobytes()) for row in rows]
        counts = Counter(names)  # most differ in their first element already, and files of features are large
        for n, row in enumerate(rows):
            names[n] += bytes_hash(np.asarray(corpus.features[row]).tobytes()) if counts[names[n]] > 1 else ""
    elif files := getattr(corpus.read_pixels, "files", None):
        reasons, names, flat = zip(*inspect_images([files[row] for row in rows], progress), strict=True)
    return [*reasons], [*flat], [name or row for name, row in zip(names, rows, strict=True)]
