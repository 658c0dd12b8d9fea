"""Heads: features of an item in, its representation out. A head never sees the other modality. All take plain
tensors."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "GlobalHead": "pooling", "MeanPool": "pooling", "MaxPool": "pooling", "GPOHead": "gpo",
        "AdaptivePoolHead": "adpool", "aggregator": "aggregators", "AGGREGATORS": "aggregators",
        "PIENet": "pie_net", "SlotHead": "slots", "GaussianHead": "gaussian",
        "GaussianGPOHead": "gaussian_gpo", "total_variance": "gaussian", "LinearGaussianHead": "gaussian_linear",
        "TokenHead": "tokens", "GlobalTokenHead": "tokens",
    },
)  # fmt: skip
