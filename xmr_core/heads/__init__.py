"""Heads: features of an item in, its representation out. A head never sees the other modality. All take plain
tensors."""

from xmr_core.heads.adpool import AdaptivePoolHead
from xmr_core.heads.aggregators import AGGREGATORS, aggregator
from xmr_core.heads.gaussian import GaussianHead, LinearGaussianHead, total_variance
from xmr_core.heads.gpo import GaussianGPOHead, GPOHead
from xmr_core.heads.pie_net import PIENet
from xmr_core.heads.pooling import GlobalHead, MaxPool, MeanPool
from xmr_core.heads.slots import SlotHead
from xmr_core.heads.tokens import GlobalTokenHead, TokenHead

__all__ = [
    "AGGREGATORS", "AdaptivePoolHead", "GPOHead", "GaussianGPOHead", "GaussianHead", "GlobalHead",
    "GlobalTokenHead", "LinearGaussianHead", "MaxPool", "MeanPool", "PIENet", "SlotHead", "TokenHead", "aggregator",
    "total_variance",
]  # fmt: skip
