"""Image files: reading them, inspecting a folder of them, and crops for training."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    dict.fromkeys(("array_reader", "convert_to_rgb", "decoded", "image_reader", "read_image"), "files")
    | {"Crop": "crops", "TrainingCrops": "crops", "inspect_image": "inspection", "inspect_images": "inspection"},
)
