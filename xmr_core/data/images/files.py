"""Reading picture files."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from xmr_core.base.errors import DamagedFile

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
SIDE = 224
UNREADABLE = (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError)  # what Pillow raises for bad files
_THREADS = 4  # decoding leaves Python's lock, so threads do run side by side


@dataclass(frozen=True)
class Crop:
    """A part of a picture, in fractions of its width and height: left, top, right, bottom in [0, 1]; then mirrored or not."""

    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
    mirrored: bool = False


def read_picture(path: Path | str, resolution: int = SIDE, crop: Crop = Crop()) -> UInt8[np.ndarray, "h w 3"]:
    """One picture, or a part of it, as RGB of resolution × resolution pixels (the whole is kept, so its aspect ratio is not).

    It is turned as its EXIF says. Any colour mode is converted: grey and palette, CMYK, 16 bits a channel (scaled to 8),
    transparency (laid on white). Of an animation, the first picture.
    Raises: DamagedFile naming a file that is missing, truncated or no picture.
    """
    try:
        return _part(decoded(path), resolution, crop)
    except UNREADABLE as e:
        raise DamagedFile(f"picture {path} cannot be read ({e}). Replace the file, or take it out of the lists.") from None


def decoded(file: Path | str | BinaryIO) -> Image.Image:
    """A picture file as 8-bit RGB, turned as its EXIF says. Raises one of UNREADABLE."""
    with Image.open(file) as picture:
        return as_rgb(ImageOps.exif_transpose(picture))


def as_rgb(picture: Image.Image) -> Image.Image:
    """Any colour mode as 8-bit RGB."""
    if picture.mode.startswith(("I", "F")):  # 16 or 32 bits of grey: Pillow would clip them to 255
        values = np.asarray(picture, np.float64)
        top = 255.0 if values.max(initial=0) <= 255 else 65535.0
        picture = Image.fromarray((values / top * 255).clip(0, 255).round().astype(np.uint8))
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert("RGB")


def picture_reader(files: Sequence[Path | str], resolution: int = SIDE) -> Callable[..., UInt8[np.ndarray, "n h w 3"]]:
    """A Corpus's read_pixels for picture files: (row numbers, resolution, one Crop per row) → stacked pictures."""

    def read(rows: np.ndarray, resolution: int = resolution, crops: Sequence[Crop] | None = None) -> np.ndarray:
        jobs = list(zip([files[row] for row in rows], [resolution] * len(rows), crops or [Crop()] * len(rows), strict=True))
        if len(jobs) < 2 * _THREADS:
            return np.stack([read_picture(*job) for job in jobs])
        with ThreadPoolExecutor(_THREADS) as pool:
            return np.stack(list(pool.map(lambda job: read_picture(*job), jobs)))

    return read


def array_reader(pixels: UInt8[np.ndarray, "n h w 3"]) -> Callable[..., UInt8[np.ndarray, "n h w 3"]]:
    """A Corpus's read_pixels for pictures in memory."""

    def read(rows: np.ndarray, resolution: int = 0, crops: Sequence[Crop] | None = None) -> np.ndarray:
        resolution = resolution or pixels.shape[1]
        if resolution == pixels.shape[1] and crops is None:
            return pixels[rows]
        return np.stack(
            [_part(Image.fromarray(pixels[row]), resolution, crop) for row, crop in zip(rows, crops or [Crop()] * len(rows), strict=True)]
        )

    return read


def _part(picture: Image.Image, resolution: int, crop: Crop) -> np.ndarray:
    w, h = picture.size
    left, top, right, bottom = crop.box
    if picture.size != (resolution, resolution) or crop.box != (0, 0, 1, 1):
        picture = picture.resize((resolution, resolution), Image.Resampling.BICUBIC, box=(left * w, top * h, right * w, bottom * h))
    return np.asarray(ImageOps.mirror(picture) if crop.mirrored else picture)
