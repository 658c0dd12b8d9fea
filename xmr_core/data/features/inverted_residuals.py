"""What mobile image networks are built of, and how their last map describes images as a grid of cells."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from xmr_core.data.features.pixels import by_few, channels_first


class Convolution(nn.Conv2d):
    """Convolution with TensorFlow's SAME padding: of an odd total, bottom and right get the larger half.

    >>> import torch
    >>> Convolution(3, 2, 3, stride=2)(torch.zeros(1, 3, 9, 9)).shape
    torch.Size([1, 2, 5, 5])
    """

    def forward(self, x: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        if kernel > 1:
            needed = [max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[-2:]]
            x = F.pad(x, (needed[1] // 2, needed[1] - needed[1] // 2, needed[0] // 2, needed[0] - needed[0] // 2))
        return super().forward(x)


def activated(c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution and ReLU6."""
    return nn.Sequential(Convolution(c_in, c_out, kernel, stride, groups=groups), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; add the input where the shape allows. Source: Sandler et al., CVPR 2018.

    >>> InvertedResidual(4, 4, stride=1, expansion=2).adds
    True
    """

    def __init__(self, c_in: int, c_out: int, stride: int, expansion: int, kernel: int = 3):
        super().__init__()
        inner = c_in * expansion
        layers = [activated(c_in, inner, 1)] if expansion > 1 else []
        self.conv = nn.Sequential(
            *layers, activated(inner, inner, kernel, stride, groups=inner), Convolution(inner, c_out, 1)
        )
        self.adds = stride == 1 and c_in == c_out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.adds else self.conv(x)


class LastMap:
    """A frozen extractor (feature_cache.Extractor) of cells "n l e": the last map of net.features, row by row.

    A subclass gives shape, identity, its own `version`, and `scale`: images are RGB, (x − 127) · scale.
    Args: net: with `features`, and logits when it is called. resolution: of the images in pixels. device: where it
        computes.
    """

    dtype = np.float16
    batch = 32
    scale: float

    def __init__(self, net: nn.Module, resolution: int, device: torch.device | str | None = None):
        self.net, self.resolution = net.to(memory_format=torch.channels_last), resolution
        self.to(device)

    def to(self, device: torch.device | str | None) -> None:
        """Compute on another device from now on; None for where the network is."""
        self.net = self.net.to(device)
        self.device = next(self.net.parameters()).device

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]:
        """Describe images. Raises: BadInput unless they have the extractor's resolution."""
        with torch.inference_mode():
            cells = by_few(self.net.features, self._scaled(pixels)).flatten(2).transpose(1, 2)
            return cells.cpu().numpy().astype(self.dtype)

    def classify(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n c"]:
        """Logits of ImageNet's classes; they show whether weights and scaling fit together."""
        with torch.inference_mode():
            return self.net(self._scaled(pixels)).cpu().numpy()

    def _scaled(self, pixels: np.ndarray) -> Tensor:
        x = channels_first(pixels, self.resolution, self.device)  # still channels-last in memory
        return (x.float() - 127) * self.scale
