"""Reading picture files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from xmr_core.errors import DamagedFile


def read_picture(path: Path | str, side: int) -> UInt8[np.ndarray, "h w 3"]:
    """One picture as RGB of side × side pixels: turned as its EXIF says, any colour mode converted, resized if it must be.

    Raises: DamagedFile naming a file that is missing, truncated or no picture.
    """
    try:
        with Image.open(path) as picture:
            picture = ImageOps.exif_transpose(picture).convert("RGB")
            if picture.size != (side, side):
                picture = picture.resize((side, side), Image.Resampling.BICUBIC)
            return np.asarray(picture)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as e:
        raise DamagedFile(f"picture {path} cannot be read ({e}). Replace the file, or take it out of the split lists.") from None


def read_pictures(files: Sequence[Path | str], side: int) -> UInt8[np.ndarray, "n h w 3"]:
    """Several pictures, stacked."""
    return np.stack([read_picture(file, side) for file in files])
