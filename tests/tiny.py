"""The smallest study there is: `scenes` of 64 training images, a narrow model, two epochs."""

from xmr_core.training.runs import RunConfig
from xmr_core.training.runs.config import base_config

TINY = {"dive": {"iterations": 1}, "sgraf": {"m": 8}}  # options that make a method small


def tiny_config(method: str = "dive", **changes) -> RunConfig:
    small = {"size": "tiny", "epochs": 2, "d": 16, "batch_images": 16, "captions_per_image": 2, "device": "cpu"}
    return base_config(method=method).replace(**{**small, **TINY.get(method, {}), **changes})
