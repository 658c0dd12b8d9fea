"""How a pretrained model wants its images: resolution, scale, mean and deviation, from its preprocessor file."""

import warnings
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.fit import Fit
from xmr_core.data.features.model_folder import ModelFolder, read_settings

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, RGB in [0, 1]
_USUAL = 224  # pixels, where no file names a resolution
_BICUBIC, _WARPED = 3, 384  # the filter where none is named; pixels from which on ConvNeXt squashes


@dataclass(frozen=True)
class Scaling:
    """y = (factor · x − mean) / std per channel, x RGB in [0, 1] (turned to BGR if the model was trained on it).

    resolution: of the square images in pixels. How an image of another shape becomes a square is the matter of
    `read_fit`.

    >>> import torch
    >>> scaling = Scaling(32, mean=(0.5,) * 3, std=(0.5,) * 3)
    >>> scaling.apply(torch.ones(1, 3, 2, 2), *scaling.tensors()).unique()
    tensor([1.])
    """

    resolution: int
    mean: tuple[float, ...] = _MEAN
    std: tuple[float, ...] = _STD
    factor: float = 1.0
    bgr: bool = False

    def tensors(self) -> tuple[Tensor, Tensor]:
        """(mean, std), each "3 1 1"."""
        return tensor(self.mean).view(3, 1, 1), tensor(self.std).view(3, 1, 1)

    def apply(self, x: Float[Tensor, "n 3 h w"], mean: Tensor, std: Tensor) -> Float[Tensor, "n 3 h w"]:
        """y of images x. mean, std: from `tensors`, on the device of x."""
        return (self.factor * (x.flip(1) if self.bgr else x) - mean) / std


def read_scaling(folder: ModelFolder, config, resolution: int | None = None) -> Scaling:
    """From preprocessor_config.json, or the image part of processor_config.json. resolution: in place of the file's.

    Without such a file: the resolution in the model's config (or 224) with ImageNet's mean and deviation, and a
    warning.
    Raises: BadInput for images that are not square, or values that are not numbers.
    """
    settings, size = _preprocessor(folder), getattr(config, "image_size", None) or _USUAL
    if settings is None:
        usual = Scaling(resolution or _edge(size, folder.name))
        warnings.warn(
            f"{folder.name} holds no preprocessor_config.json: images of {usual.resolution} pixels are scaled with "
            "ImageNet's mean and deviation. Copy the file into the folder if the model was trained otherwise.",
            stacklevel=3,
        )
        return usual
    cropped = settings.get("do_center_crop", "crop_size" in settings)
    size = (settings.get("crop_size") if cropped else None) or settings.get("size") or size
    normal = settings.get("do_normalize", True) and "image_mean" in settings
    try:
        if settings.get("rescale_offset"):
            raise ValueError("rescale_offset")
        mean, std = (settings["image_mean"], settings["image_std"]) if normal else ((0,) * 3, (1,) * 3)
        if len(mean) != 3 or len(std) != 3:
            raise ValueError(f"{len(mean)} channels, not 3")
        return Scaling(
            resolution or _edge(size, folder.name),
            mean=tuple(map(float, mean)),
            std=tuple(map(float, std)),
            factor=255 * float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 255.0,
            bgr=bool(settings.get("do_flip_channel_order", False)),
        )
    except (TypeError, ValueError, KeyError) as e:
        if isinstance(e, BadInput):
            raise
        raise BadInput(f"{folder.name}: preprocessor_config.json asks for what is not supported here ({e}).") from None


def read_fit(folder: ModelFolder, resolution: int) -> Fit | None:
    """How the model's own preprocessor makes an image a square, from the same file; None for plain squashing.

    {'shortest_edge': e} with a centre crop keeps the ratio (CLIP); {'height': h, 'width': h} does not (SigLIP, ViT).
    ConvNeXt and ResNet have no crop size: below 384 pixels they resize to e / crop_pct and cut out e. Where no filter
    is named, it is bicubic. Without a crop, a preprocessor that keeps the ratio would give images that are no squares;
    they are squashed here.
    resolution: of the square; where it is not the model's own, the size before the crop changes with it.
    Raises: BadInput for sizes that are not numbers, or an unknown filter.
    """
    settings = _preprocessor(folder) or {}
    kind = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")
    size, resample = settings.get("size") or resolution, settings.get("resample", _BICUBIC)
    if not isinstance(resample, int) or not 0 <= resample <= 5:
        raise BadInput(f"{folder.name}: preprocessor_config.json names the filter {resample!r}, not 0 to 5.")
    edge, cropped = _edge(size, folder.name), settings.get("do_center_crop", "crop_size" in settings)
    own, keeps_ratio = edge, False
    if cropped:
        own = _edge(settings.get("crop_size") or size, folder.name)
        keeps_ratio = "shortest_edge" in size if isinstance(size, dict) else not kind.startswith("DeiT")
    elif edge < _WARPED and (kind.startswith("ConvNext") or settings.get("crop_pct")):
        edge, keeps_ratio = int(edge / (settings.get("crop_pct") or 224 / 256)), True
    fit = Fit(edge if own == resolution else round(edge * resolution / own), keeps_ratio, resample)
    return None if fit == Fit(resolution, keeps_ratio=False) else fit


def _preprocessor(folder: ModelFolder) -> dict | None:
    alone, shared = folder.path / "preprocessor_config.json", folder.path / "processor_config.json"
    if alone.exists():
        return read_settings(alone)
    return read_settings(shared).get("image_processor") if shared.exists() else None


def _edge(size, name: str) -> int:
    """One number from 224, {'shortest_edge': 224}, {'height': 224, 'width': 224} or [224, 224]."""
    values = {size} if isinstance(size, int) else set(size)
    if isinstance(size, dict):
        values = {size[key] for key in ("shortest_edge", "height", "width") if size.get(key)}
    if len(values) != 1 or not all(isinstance(v, int) and v > 0 for v in values):
        raise BadInput(f"{name} wants images of size {size}; only square ones can be given. Choose another model.")
    return values.pop()
