"""Image files: reading them, inspecting them, and crops for training."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {"array_reader": "files", "read_image": "files", "TrainingCrops": "crops", "inspect_image": "inspection"},
)
