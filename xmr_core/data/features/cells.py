"""The frozen cell descriptor: colour and gradient histograms of overlapping windows, from pixels, without any weights."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from xmr_core.base.errors import BadInput

_HUES = 12  # soft bins on the colour circle, filled by colourful pixels …
_GREYS = 3  # … and dark, middle, light, filled by the others
_ORIENTATIONS = 8  # unsigned directions of the gradient


class CellDescriptor:
    """Image → one vector per cell of 8 × 8 pixels, each looking at the 16 × 16 window around its cell.

    A vector holds, for the window's 2 × 2 quarters, a soft colour histogram (12 hues weighted by saturation, 3 grey levels
    weighted by what is left) and a histogram of gradient orientation over 8 unsigned directions weighted by magnitude
    (HOG without its normalisation): 4 × 23 = 92 numbers of about unit scale. It is computed from the pixels, so erasing or
    mixing pixels acts on features as it would for a learned encoder.

    Args: side: height and width of the pictures in pixels, a multiple of 8, at least 16.
    Source: histograms of oriented gradients after Dalal & Triggs, CVPR 2005; colour bins and sizes are ours.
    """

    version = 1  # raise it when the numbers change
    dtype = np.float16
    batch = 250

    def __init__(self, side: int = 64):
        if side % 8 or side < 16:
            raise BadInput(f"the cell descriptor needs pictures whose side is a multiple of 8 and at least 16, got {side}.")
        self.side = side
        self.grid = (side // 8, side // 8)
        self.shape = (self.grid[0] * self.grid[1], 4 * (_HUES + _GREYS + _ORIENTATIONS))
        self.identity = f"cells-2-{side}"

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]:
        """Describe pictures. Raises BadInput when their side is not the one this descriptor was made for."""
        if pixels.shape[1:] != (self.side, self.side, 3):
            raise BadInput(f"expected pictures of {self.side}×{self.side}×3, got {'×'.join(map(str, pixels.shape[1:]))}.")
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float() / 255  # n 3 h w
            small = F.avg_pool2d(x, 2)  # colours need no finer grid, and half of it halves the noise
            colour = F.avg_pool2d(_colour_bins(small), 2)  # n 15 h/4 w/4
            edges = F.avg_pool2d(_orientation_bins(x), 4)  # n 8 h/4 w/4
            blocks = torch.cat([2 * colour, 8 * edges], 1)
            eighths = F.avg_pool2d(F.pad(blocks, (1, 1, 1, 1), mode="replicate"), 2)  # quarters of 8 × 8 pixels around cell corners
            out = F.unfold(2 * eighths, 2).transpose(1, 2)  # n l 92: the four quarters around each cell
        return out.numpy().astype(self.dtype)


def _colour_bins(x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 15 h w"]:
    """Each pixel's unit mass, shared between hue bins (as much as it is colourful) and grey levels (the rest)."""
    high, low = x.amax(1), x.amin(1)
    chroma = high - low
    r, g, b = x.unbind(1)
    safe = chroma.clamp(min=1e-4)
    sector = torch.where(high == r, ((g - b) / safe) % 6, torch.where(high == g, (b - r) / safe + 2, (r - g) / safe + 4))
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
    away = (position[:, None] - torch.arange(bins).view(1, -1, 1, 1)).abs()
    if circular:
        away = torch.minimum(away, bins - away)
    return (1 - away).clamp(min=0)
