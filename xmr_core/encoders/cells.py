"""The frozen cell descriptor: colour and gradients of overlapping windows, straight from pixels, without any weights."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8

from xmr_core.errors import BadInput

_BLOCK = 4  # pixels; a window is 4 × 4 blocks, windows start every 2 blocks
_ORIENTATIONS = 8


class CellDescriptor:
    """Image → one vector per cell of 8 × 8 pixels, each looking at the 16 × 16 window around its cell.

    A vector holds the mean colour of the window's 4 × 4 blocks (48 numbers: a thumbnail) and, for its 2 × 2 quarters, a
    histogram of gradient orientation over 8 unsigned directions weighted by gradient magnitude (32 numbers: HOG without
    its normalisation). Values are roughly in [−1, 1]. Erasing or mixing pixels therefore acts on features as it would
    for a learned encoder.

    Args: side: height and width of the pictures in pixels, a multiple of 8.
    Source: the idea of histograms of oriented gradients, Dalal & Triggs, CVPR 2005; sizes are ours.
    """

    dtype = np.float16
    batch = 250

    def __init__(self, side: int = 64):
        if side % 8 or side < 16:
            raise BadInput(f"the cell descriptor needs pictures whose side is a multiple of 8 and at least 16, got {side}.")
        self.side = side
        self.grid = (side // 8, side // 8)
        self.shape = (self.grid[0] * self.grid[1], 16 * 3 + 4 * _ORIENTATIONS)
        self.identity = f"cells-1-{side}"

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]:
        """Describe pictures. Raises BadInput when their side is not the one this descriptor was made for."""
        if pixels.shape[1:] != (self.side, self.side, 3):
            raise BadInput(f"expected pictures of {self.side}×{self.side}×3, got {'×'.join(map(str, pixels.shape[1:]))}.")
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float() / 127.5 - 1  # n 3 h w
            colour = F.avg_pool2d(x, _BLOCK)  # n 3 h/4 w/4
            gradients = F.avg_pool2d(self._orientation(x), _BLOCK)  # n 8 h/4 w/4
            quarters = F.avg_pool2d(gradients, 2, stride=1, padding=0, count_include_pad=False)
            thumbnail = F.unfold(F.pad(colour, (1, 1, 1, 1), mode="replicate"), 4, stride=2)  # n 48 l
            corners = F.unfold(F.pad(quarters, (1, 2, 1, 2), mode="replicate"), 2, dilation=2, stride=2)  # n 32 l
            out = torch.cat([thumbnail, 4 * corners], 1).transpose(1, 2)  # n l 80
        return out.numpy().astype(self.dtype)

    def _orientation(self, x: torch.Tensor) -> torch.Tensor:
        """Gradient magnitude shared between the two nearest of 8 unsigned directions, per pixel: n 8 h w."""
        padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
        gx = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
        gy = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
        strength, channel = (gx.square() + gy.square()).max(1, keepdim=True)  # the colour channel with the clearest edge
        gx, gy = gx.gather(1, channel), gy.gather(1, channel)
        position = torch.atan2(gy, gx).remainder(torch.pi) / torch.pi * _ORIENTATIONS  # n 1 h w in [0, 8)
        bins = torch.arange(_ORIENTATIONS).view(1, -1, 1, 1)
        away = (position - bins).abs()
        share = (1 - torch.minimum(away, _ORIENTATIONS - away)).clamp(min=0)
        return strength.sqrt() * share
