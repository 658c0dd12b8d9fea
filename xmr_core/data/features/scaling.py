"""How a pretrained model wants its pictures: resolution, scale, mean and deviation, from its preprocessor file."""

import warnings
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, tensor

from xmr_core.base.errors import BadInput
from xmr_core.data.features.model_folder import Found, read_settings

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, RGB in [0, 1]
_FALLBACK_SIDE = 224


@dataclass(frozen=True)
class Scaling:
    """y = (factor · x − mean) / std per channel, x RGB in [0, 1] (then turned to BGR where the model was trained on it).

    resolution: of the square pictures in pixels. Resizing to it is the corpus reader's: the whole picture, its aspect ratio not kept,
    where most preprocessors cut out the middle.
    """

    resolution: int
    mean: tuple[float, ...] = _MEAN
    std: tuple[float, ...] = _STD
    factor: float = 1.0
    bgr: bool = False

    def tensors(self) -> tuple[Tensor, Tensor]:
        """(mean, std), "3 1 1" each."""
        return tensor(self.mean).view(3, 1, 1), tensor(self.std).view(3, 1, 1)

    def apply(self, x: Float[Tensor, "n 3 h w"], mean: Tensor, std: Tensor) -> Float[Tensor, "n 3 h w"]:
        """y of pictures x. mean, std: from `tensors`, on the device of x."""
        return (self.factor * (x.flip(1) if self.bgr else x) - mean) / std


def read_scaling(found: Found, config, resolution: int = 0) -> Scaling:
    """From preprocessor_config.json, or the image part of processor_config.json. resolution: another resolution than the file's, 0 for that.

    Without such a file: the resolution in the model's config (or 224) and ImageNet's mean and deviation, and a warning says so.
    Raises: BadInput for pictures that are not square, or numbers that are none.
    """
    told = _preprocessor(found)
    if told is None:
        usual = Scaling(resolution or _edge(getattr(config, "image_size", None) or _FALLBACK_SIDE, found.given))
        warnings.warn(
            f"{found.given} holds no preprocessor_config.json: pictures of {usual.resolution} pixels are scaled with ImageNet's mean and deviation. "
            "Copy the file into the folder if the model was trained otherwise.",
            stacklevel=3,
        )
        return usual
    cropped = told.get("do_center_crop", "crop_size" in told)
    size = (told.get("crop_size") if cropped else None) or told.get("size") or getattr(config, "image_size", None) or _FALLBACK_SIDE
    normal = told.get("do_normalize", True) and "image_mean" in told
    try:
        if told.get("rescale_offset"):
            raise ValueError("rescale_offset")
        return Scaling(
            resolution=resolution or _edge(size, found.given),
            mean=_three(told["image_mean"]) if normal else (0.0,) * 3,
            std=_three(told["image_std"]) if normal else (1.0,) * 3,
            factor=255 * float(told.get("rescale_factor", 1 / 255)) if told.get("do_rescale", True) else 255.0,
            bgr=bool(told.get("do_flip_channel_order", False)),
        )
    except (TypeError, ValueError, KeyError) as e:
        raise BadInput(f"{found.given}: preprocessor_config.json asks for what is not supported here ({e}). Correct the file.") from None


def _preprocessor(found: Found) -> dict | None:
    alone, shared = found.folder / "preprocessor_config.json", found.folder / "processor_config.json"
    if alone.exists():
        return read_settings(alone)
    return read_settings(shared).get("image_processor") if shared.exists() else None


def _edge(size, given: str) -> int:
    """One number from 224, {'shortest_edge': 224}, {'height': 224, 'width': 224} or [224, 224]."""
    if isinstance(size, dict):
        values = {size[key] for key in ("shortest_edge", "height", "width") if size.get(key)}
    else:
        values = set(size) if isinstance(size, list | tuple) else {size}
    if len(values) != 1 or not all(isinstance(v, int) and v > 0 for v in values):
        raise BadInput(f"{given} wants pictures of size {size}; only square ones can be given. Choose another model.")
    return values.pop()


def _three(values) -> tuple[float, ...]:
    numbers = tuple(map(float, values))
    if len(numbers) != 3:
        raise ValueError(f"{len(numbers)} channels, not 3")
    return numbers
