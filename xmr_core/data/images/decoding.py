"""Whether picture files can be decoded, and what is unusual about them: the fast way, for a whole folder."""

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from xmr_core.data.images.files import UNREADABLE

SMALL = 64  # pixels; a shorter side than this is called very small
_TURNED = 0x0112  # the EXIF tag that says how the camera was held
_AT_ONCE = 64  # files of one piece of work


def look_at(path: Path | str) -> tuple[str, tuple[str, ...]]:
    """(why the file cannot be decoded or '', what is unusual about it though it can be read).

    Every byte of the picture is decoded, so that a file that is cut short is found; a JPEG only to an eighth of its size, which
    saves the time of the transforms that nobody looks at.
    """
    try:
        with Image.open(path) as picture:
            seen = _unusual(picture)
            picture.draft(picture.mode, (1, 1))
            picture.load()
    except UNREADABLE as e:
        return _reason(e), ()
    return "", seen


def look_at_all(files: Sequence[Path | str], progress: Callable | None = None) -> list[tuple[str, tuple[str, ...]]]:
    """look_at for each file, in order. progress: wraps the list of pieces of work."""
    pieces = [files[at : at + _AT_ONCE] for at in range(0, len(files), _AT_ONCE)]
    pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2))  # decoding leaves Python's lock
    try:
        waiting = [pool.submit(lambda piece: [look_at(f) for f in piece], piece) for piece in pieces]
        return [found for piece in (progress or iter)(waiting) for found in piece.result()]
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt need not wait for all the rest


def _unusual(picture: Image.Image) -> tuple[str, ...]:
    kinds = {
        "grey": picture.mode in ("L", "LA", "1"),
        "16 bits or more a channel": picture.mode.startswith(("I", "F")),
        "CMYK": picture.mode == "CMYK",
        "transparent": picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info,
        "animated (the first picture counts)": getattr(picture, "n_frames", 1) > 1,
        "turned by EXIF": picture.getexif().get(_TURNED, 1) != 1,
        f"very small (shorter side below {SMALL} pixels)": min(picture.size) < SMALL,
    }
    return tuple(kind for kind, is_so in kinds.items() if is_so)


def _reason(e: Exception) -> str:
    """A phrase that is the same for all files with the same fault."""
    if isinstance(e, UnidentifiedImageError):
        return "no picture, or of a kind that is not known"
    if isinstance(e, Image.DecompressionBombError):
        return "more pixels than can be trusted"
    if isinstance(e, OSError) and e.strerror:
        return e.strerror
    if "truncated" in str(e).lower():
        return "cut short"
    return f"damaged: {' '.join(re.sub(r'[(][^)]*[)]|-?[0-9]+', '', str(e)).split()) or type(e).__name__}"
