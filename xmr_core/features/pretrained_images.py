"""Any vision model of transformers as a frozen extractor of grid features, and how it wants its images."""

import json
import warnings
from dataclasses import asdict, dataclass
from math import isqrt

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn, tensor

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput
from xmr_core.features.images import Fit, by_few, channels_first
from xmr_core.features.pretrained import (
    ModelFolder,
    Source,
    architecture,
    find_pretrained,
    load_pretrained,
    read_settings,
    tower_config,
)

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, RGB in [0, 1]
_USUAL = 224  # pixels, where no file names a resolution
_BICUBIC, _WARPED = 3, 384  # the filter where none is named; pixels from which on ConvNeXt squashes


@dataclass(frozen=True)
class Scaling:
    """y = (factor · x − mean) / std per channel, x RGB in [0, 1] (turned to BGR if the model was trained on it).

    resolution: of the square images in pixels.

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


def read_preprocessing(folder: ModelFolder, config, resolution: int | None = None) -> tuple[Scaling, Fit | None]:
    """How the model's own preprocessor scales an image and makes it a square (None for plain squashing).

    From preprocessor_config.json, or the image part of processor_config.json. Without such a file: the resolution in
    the model's config (or 224) with ImageNet's mean and deviation, and a warning. {'shortest_edge': e} with a centre
    crop keeps the ratio (CLIP); {'height': h, 'width': h} does not (SigLIP, ViT). ConvNeXt and ResNet have no crop
    size: below 384 pixels they resize to e / crop_pct and cut out e. Where no filter is named, it is bicubic. Without a
    crop, a preprocessor that keeps the ratio would give images that are no squares; they are squashed here.
    resolution: in place of the file's; the size before a crop changes with it.
    Raises: BadInput for images that are not square, or values that are not supported.
    """
    settings = _preprocessor(folder)
    if settings is None:
        warnings.warn(
            f"{folder.name} holds no preprocessor_config.json: images are scaled with ImageNet's mean and deviation. "
            "Copy the file into the folder if the model was trained otherwise.",
            stacklevel=3,
        )
        settings = {"image_mean": _MEAN, "image_std": _STD}
    cropped = settings.get("do_center_crop", "crop_size" in settings)
    size = settings.get("size") or getattr(config, "image_size", None) or _USUAL
    try:
        own = _edge((cropped and settings.get("crop_size")) or size)
        resolution = resolution or own
        normal = settings.get("do_normalize", True) and "image_mean" in settings
        mean, std = (settings["image_mean"], settings["image_std"]) if normal else ((0,) * 3, (1,) * 3)
        if settings.get("rescale_offset") or len(mean) != 3 or len(std) != 3:
            raise ValueError(f"rescale_offset, or {len(mean)} channels, not 3")
        factor = 255 * float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 255.0
        bgr = bool(settings.get("do_flip_channel_order", False))
        scaling = Scaling(resolution, tuple(map(float, mean)), tuple(map(float, std)), factor, bgr)
        return scaling, _fit(settings, cropped, resolution)
    except (TypeError, ValueError, KeyError) as e:
        raise BadInput(f"{folder.name}: preprocessor_config.json asks for what is not supported here ({e}).") from None


def _fit(settings: dict, cropped: bool, resolution: int) -> Fit | None:
    kind = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")
    size, resample = settings.get("size") or resolution, settings.get("resample", _BICUBIC)
    if resample not in range(6):
        raise ValueError(f"the filter {resample!r}")
    own = edge = _edge(size)
    keeps_ratio = False
    if cropped:
        own = _edge(settings.get("crop_size") or size)
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


def _edge(size) -> int:
    """One number from 224, {'shortest_edge': 224}, {'height': 224, 'width': 224} or [224, 224]."""
    values = {size} if isinstance(size, int) else set(size)
    if isinstance(size, dict):
        values = {size[key] for key in ("shortest_edge", "height", "width") if size.get(key)}
    if len(values) != 1 or not all(isinstance(v, int) and v > 0 for v in values):
        raise ValueError(f"images of size {size}; only square ones can be given")
    return values.pop()


@dataclass(frozen=True)
class Layout:
    """Where the cells of an image stand in the last states of a model: in a map "n c h w" (`before` is None), or among
    tokens "n l c", of which the first `before` are not cells (class token, distillation token, registers). The cells
    form a square, row by row.

    >>> Layout(cells=4, width=3, before=1).cells_of(torch.zeros(2, 5, 3)).shape
    torch.Size([2, 4, 3])
    """

    cells: int
    width: int
    before: int | None

    def cells_of(self, states: Tensor) -> Float[Tensor, "n l c"]:
        """The cells without the other tokens."""
        return states.flatten(2).transpose(1, 2) if self.before is None else states[:, self.before :]


def find_layout(model: nn.Module, resolution: int, name: str) -> Layout:
    """The layout of a model's last states, from the states of one image.

    A plain transformer has (resolution / patch)² cells and at most class, distillation and register tokens before them.
    A model with stages has a grid that was halved once or several times, and no tokens before it. If the config names
    no patch size, there may be one token before a square.
    Raises: BadInput for a model that cannot read this resolution, or whose tokens are not such a grid (masked
        autoencoders in pretraining, detection tokens). name: of the model, for these messages.
    """
    device = next(model.parameters()).device
    try:
        with torch.no_grad():
            states = model(pixel_values=torch.zeros(1, 3, resolution, resolution, device=device)).last_hidden_state
    except Exception as e:  # whatever a model of another library raises
        reason = " ".join(str(e).split())[:120]
        raise BadInput(f"{name} cannot read images of {resolution}×{resolution} ({reason}).") from e
    if states.ndim == 4:
        return Layout(states.shape[2] * states.shape[3], states.shape[1], None)
    tokens, width = states.shape[1:]
    patch, registers = getattr(model.config, "patch_size", None), getattr(model.config, "num_register_tokens", 0) or 0
    edge, most = isqrt(tokens), 1
    if isinstance(patch, int):
        edge, most = max(1, resolution // patch), 2 + registers
        while edge**2 > tokens:
            edge, most = (edge + 1) // 2, 0
    if (before := tokens - edge**2) > most:
        raise BadInput(f"{name}: its {tokens} tokens are no square grid of cells. Choose another model.")
    return Layout(tokens - before, width, before)


class PretrainedGrid:
    """Frozen extractor (cache.Extractor): the last states of a pretrained vision model for each cell of an image.

    It reads every vision model of transformers whose last states are a map or a square of tokens: ResNet, RegNet,
    ConvNeXt, ViT, DeiT, DINOv2, Swin, the vision towers of CLIP and SigLIP, …. Cells stand row by row.
    Attribute fit: how images become squares, as the model's preprocessor does it.

    Args: source: folder or hub name. resolution: of the images in pixels, None for that of the model. device: where it
        computes.
    Raises: BadInput as load_pretrained, read_preprocessing and find_layout do.

    Example: `PretrainedGrid("facebook/dinov2-small")(pixels)` of pixels "n 224 224 3" is "n 256 384".
    """

    version = 2  # raise it when the numbers change
    dtype = np.float16
    batch = 32

    def __init__(self, source: Source, resolution: int | None = None, device: torch.device | str | None = None):
        loaded = load_pretrained(source, "image")
        self.scaling, self.fit = read_preprocessing(loaded.folder, loaded.config, resolution)
        self.resolution = self.scaling.resolution
        self.folder, self.net = loaded.folder, loaded.model.requires_grad_(False)
        self.to(device)
        self.layout = find_layout(self.net, self.resolution, loaded.folder.name)
        self.shape = (self.layout.cells, self.layout.width)
        recipe = fingerprint.content_hash([asdict(self.scaling), self.fit and asdict(self.fit)])
        self.identity = f"pretrained-1-cells-{recipe}-{loaded.folder.identity}"

    def to(self, device: torch.device | str | None) -> None:
        """Compute on another device from now on; None for where the model is."""
        self.net = self.net.to(device)
        own = next(self.net.parameters()).device
        self._mean, self._std = (v.to(own) for v in self.scaling.tensors())

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]:
        """Describe images. Raises: BadInput unless they have the extractor's resolution."""
        with torch.inference_mode():
            x = channels_first(pixels, self.resolution, self._mean.device).float() / 255
            return by_few(self._cells, x).cpu().numpy().astype(self.dtype)

    def _cells(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n l e"]:
        states = self.net(pixel_values=self.scaling.apply(x, self._mean, self._std)).last_hidden_state
        return self.layout.cells_of(states)


def describe_vision(source: Source) -> str:
    """JSON of all that encoders.VisionBackbone needs to build a network, except its weights."""
    folder = find_pretrained(source)
    scaling, _ = read_preprocessing(folder, tower_config(folder, "image"))
    return json.dumps({"architecture": architecture(folder, "image"), "scaling": asdict(scaling)}, sort_keys=True)
