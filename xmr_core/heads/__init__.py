"""Heads: features of an item in, its representation out. A head never sees the other modality. All take plain
tensors."""

from xmr_core.heads.gaussian import GaussianHead, LinearGaussianHead, total_variance
from xmr_core.heads.gpo import GaussianGPOHead, GPOHead
from xmr_core.heads.pooling import AGGREGATORS, AdaptivePoolHead, GlobalHead, MaxPool, MeanPool, aggregator
from xmr_core.heads.slots import PIENet, SlotHead
from xmr_core.heads.tokens import GlobalTokenHead, TokenHead

__all__ = [
    "AGGREGATORS", "AdaptivePoolHead", "GPOHead", "GaussianGPOHead", "GaussianHead", "GlobalHead",
    "GlobalTokenHead", "LinearGaussianHead", "MaxPool", "MeanPool", "PIENet", "SlotHead", "TokenHead", "aggregator",
    "total_variance",
]  # fmt: skip
