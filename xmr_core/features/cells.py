"""The frozen cell descriptor: histograms of colour and gradient direction in overlapping windows; no weights."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.features.images import channels_first

_HUES = 12  # soft bins on the colour circle, filled by colourful pixels …
_GREYS = 3  # … and dark, middle, light, filled by the others
_ORIENTATIONS = 8  # unsigned directions of the gradient


class CellDescriptor:
    """Image → one vector for each cell of 8 × 8 pixels, computed from the window of 16 × 16 pixels around the cell.

    For each quarter (2 × 2) of the window a vector holds a soft colour histogram (12 hues weighted by saturation,
    3 grey levels weighted by the rest) and a histogram of the gradient's direction (8 unsigned directions weighted by
    magnitude; HOG without its normalisation): 4 × 23 = 92 numbers of about unit scale. It reads the pixels, so that
    erasing or mixing pixels changes the features, as it would change those of a learned encoder.

    Args: resolution: height and width of the images in pixels, a multiple of 8, at least 16.
    Raises: BadInput for another resolution.
    Source: histograms of oriented gradients after Dalal & Triggs, CVPR 2005; colour bins and sizes are ours.

    >>> CellDescriptor(16)(np.zeros((1, 16, 16, 3), np.uint8)).shape
    (1, 4, 92)
    """

    version = 1  # raise it when the numbers change
    dtype = np.float16
    batch = 250

    def __init__(self, resolution: int = 64):
        if resolution % 8 or resolution < 16:
            raise BadInput(f"cells need a resolution that is a multiple of 8 and at least 16, got {resolution}.")
        self.resolution = resolution
        self.shape = ((resolution // 8) ** 2, 4 * (_HUES + _GREYS + _ORIENTATIONS))
        self.identity = f"cells-2-{resolution}"

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]:
        """Describe images. Raises: BadInput unless they have this descriptor's resolution."""
        with torch.inference_mode():
            x = channels_first(pixels, self.resolution).float() / 255  # n 3 h w
            small = F.avg_pool2d(x, 2)  # colours need no finer grid, and half of it halves the noise
            colour = F.avg_pool2d(_colour_bins(small), 2)  # n 15 h/4 w/4
            edges = F.avg_pool2d(_orientation_bins(x), 4)  # n 8 h/4 w/4
            blocks = F.pad(torch.cat([2 * colour, 8 * edges], 1), (1, 1, 1, 1), mode="replicate")
            quarters = F.avg_pool2d(blocks, 2)  # of 8 × 8 pixels around the corners of cells
            out = F.unfold(2 * quarters, 2).transpose(1, 2)  # n l 92: the four quarters around each cell
        return out.numpy().astype(self.dtype)


def _colour_bins(x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 15 h w"]:
    """Each pixel's unit mass, shared between hue bins (as much as it is colourful) and grey levels (the rest)."""
    high = x.amax(1)
    chroma = high - x.amin(1)
    r, g, b = x.unbind(1)
    safe = chroma.clamp(min=1e-4)
    from_green = torch.where(high == g, (b - r) / safe + 2, (r - g) / safe + 4)
    sector = torch.where(high == r, ((g - b) / safe) % 6, from_green)
    colourful = (chroma / high.clamp(min=0.15)).clamp(max=1)
    hues = _soft_bins(sector / 6 * _HUES, _HUES, circular=True) * colourful[:, None]
    greys = _soft_bins(high * (_GREYS - 1), _GREYS, circular=False) * (1 - colourful)[:, None]
    return torch.cat([hues, greys], 1)


def _orientation_bins(x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 8 h w"]:
    """Gradient magnitude of the clearest colour channel, shared between the two nearest directions."""
    padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
    gx = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
    gy = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
    strength, channel = (gx.square() + gy.square()).max(1, keepdim=True)
    gx, gy = gx.gather(1, channel), gy.gather(1, channel)
    direction = torch.atan2(gy, gx).remainder(torch.pi) / torch.pi * _ORIENTATIONS
    return _soft_bins(direction.squeeze(1), _ORIENTATIONS, circular=True) * strength.sqrt()


def _soft_bins(position: Float[Tensor, "n h w"], bins: int, circular: bool) -> Float[Tensor, "n b h w"]:
    """Linear shares of the two bins nearest to each position."""
    distance = (position[:, None] - torch.arange(bins).view(1, -1, 1, 1)).abs()
    if circular:
        distance = torch.minimum(distance, bins - distance)
    return (1 - distance).clamp(min=0)
