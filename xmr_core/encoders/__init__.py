"""Encoders: inputs → Features, local vectors and one global vector of the joint width.

Image encoders read frozen cells or regions (Features) or pixels (Pixels); caption encoders read word numbers (Tokens)
or frozen word states (Features).

>>> import torch
>>> from xmr_core import encoders
>>> from xmr_core.base.types import Features
>>> regions = Features(torch.zeros(2, 36, 2048), torch.ones(2, 36, dtype=torch.bool))
>>> encoders.LinearRegions(2048, 256)(regions).local_feats.shape
torch.Size([2, 36, 256])
"""

from xmr_core.encoders.image import (
    GridEncoder, LinearRegions, PooledEncoder, RegionEncoder, ResidualRegions, SelfAttentionRegions, SmallCNN,
)  # fmt: skip
from xmr_core.encoders.pretrained import DualTower, StatesEncoder, TextBackbone, VisionBackbone, stage_prefixes
from xmr_core.encoders.text import BertEncoder, GRUEncoder

__all__ = [
    "BertEncoder", "DualTower", "GRUEncoder", "GridEncoder", "LinearRegions", "PooledEncoder", "RegionEncoder",
    "ResidualRegions", "SelfAttentionRegions", "SmallCNN", "StatesEncoder", "TextBackbone", "VisionBackbone",
    "stage_prefixes",
]  # fmt: skip
