"""Which image files of a folder cannot be decoded, and which are unusual."""

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from xmr_core.data.images.files import LARGEST, UNREADABLE, opened_image

SMALL = 64  # pixels; an image whose shorter edge is below this is called very small
_ORIENTATION = 0x0112  # the EXIF tag that says how the camera was held
_BATCH = 64  # files in one piece of work


def inspect_image(path: Path | str) -> tuple[str, tuple[str, ...]]:
    """(why the file cannot be decoded, '' if it can; what is unusual about an image that can be decoded).

    Every byte is decoded, so that a file that is cut short is noticed. A JPEG is decoded to an eighth of its size,
    which is faster.
    >>> import io
    >>> Image.new("L", (80, 9)).save(file := io.BytesIO(), "PNG")
    >>> inspect_image(file)
    ('', ('grey', 'very small (shorter edge below 64 pixels)'))
    """
    try:
        with opened_image(path) as image:
            unusual = _unusual(image)
            image.draft(image.mode, (1, 1))
            image.load()
    except UNREADABLE as e:
        return _reason(e), ()
    return "", unusual


def inspect_images(files: Sequence[Path | str], progress: Callable | None = None) -> list[tuple[str, tuple[str, ...]]]:
    """`inspect_image` for every file, in order, in several threads. progress: wraps the list of pieces of work."""
    batches = [files[start : start + _BATCH] for start in range(0, len(files), _BATCH)]
    pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2))  # decoding releases Python's lock
    try:
        results = [pool.submit(list, map(inspect_image, batch)) for batch in batches]
        return [inspection for result in (progress or iter)(results) for inspection in result.result()]
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt does not wait for the remaining files


def _unusual(image: Image.Image) -> tuple[str, ...]:
    kinds = {
        "grey": image.mode in ("L", "LA", "1"),
        "16 bits or more a channel": image.mode.startswith(("I", "F")),
        "CMYK": image.mode == "CMYK",
        "transparent": image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info,
        "animated (the first frame is read)": getattr(image, "is_animated", False),
        "turned by EXIF": image.getexif().get(_ORIENTATION, 1) != 1,
        f"very small (shorter edge below {SMALL} pixels)": min(image.size) < SMALL,
    }
    return tuple(kind for kind, applies in kinds.items() if applies)


def _reason(e: Exception) -> str:
    """A phrase that is the same for all files with the same fault."""
    if isinstance(e, Image.DecompressionBombError):
        return f"more than {LARGEST:,} pixels"
    if "truncated" in str(e).lower():
        return "cut short"
    if isinstance(e, UnidentifiedImageError):
        return "not an image, or of an unknown format"
    if isinstance(e, OSError) and e.strerror:
        return e.strerror
    return f"damaged: {' '.join(re.sub(r'[(][^)]*[)]|-?[0-9]+', '', str(e)).split()) or type(e).__name__}"
