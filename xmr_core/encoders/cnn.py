"""A small trainable CNN: pixels to a grid of cells, for those who want the image resolution learned end to end."""

import itertools

import torch
from torch import nn

from xmr_core.base.types import Features, Pixels
from xmr_core.encoders.image import GridEncoder


class SmallCNN(nn.Module):
    """Three strided 3 × 3 convolutions (GroupNorm, GELU), then the study's GridEncoder on the resulting cells.

    64-pixel pictures give 8 × 8 cells. About 0.3 M parameters at d = 128; no pretrained weights.

    Shapes: Pixels x "n 3 h w" in [0, 1] → Features(local_feats "n l d", global_feat "n d") with l = (h/8)·(w/8).
    """

    def __init__(self, d: int, resolution: int = 64, channels: int = 32, dropout: float = 0.1):
        super().__init__()
        widths = [3, channels, 2 * channels, 4 * channels]
        blocks = []
        for c_in, c_out in itertools.pairwise(widths):
            blocks += [nn.Conv2d(c_in, c_out, 3, stride=2, padding=1), nn.GroupNorm(8, c_out), nn.GELU()]
        self.convolutions = nn.Sequential(*blocks)
        self.cells = GridEncoder(widths[-1], d, cells=(resolution // 8) ** 2, dropout=dropout)

    def forward(self, pixels: Pixels) -> Features:
        x = self.convolutions(2 * pixels.x - 1).flatten(2).transpose(1, 2)  # n l c
        return self.cells(Features(x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)))
