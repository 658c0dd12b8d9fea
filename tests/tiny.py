"""The smallest study there is: `scenes` of 64 training images, a narrow model, two epochs."""

from xmr_core.methods.registry import method_spec
from xmr_core.study.presets import base_config
from xmr_core.training.runs import RunConfig


def tiny_config(method: str = "dive", **changes) -> RunConfig:
    small = {"size": "tiny", "epochs": 2, "d": 16, "batch_images": 16, "captions_per_image": 2, "device": "cpu"}
    return base_config(method=method).replace(**{**small, **method_spec(method).tiny, **changes})
