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

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    dict.fromkeys(("GridEncoder", "PooledEncoder", "RegionEncoder", "SmallCNN"), "image")
    | dict.fromkeys(("LinearRegions", "ResidualRegions", "SelfAttentionRegions"), "regions")
    | dict.fromkeys(("StatesEncoder", "TextBackbone"), "text_backbone")
    | {"GRUEncoder": "text", "BertEncoder": "bert", "VisionBackbone": "vision_backbone", "stage_prefixes": "stages"},
)
