"""Pixels as a network reads them."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from xmr_core.base.errors import BadInput

_FEW = 16  # images; where memory is reused as fast as 32, and elsewhere faster (docs/speed.md)


def channels_first(
    pixels: UInt8[np.ndarray, "n h w 3"], resolution: int, device: torch.device | str | None = None
) -> UInt8[Tensor, "n 3 h w"]:
    """Images with their channels first, on a device. Raises: BadInput unless they are resolution × resolution × 3.

    >>> channels_first(np.zeros((2, 8, 8, 3), np.uint8), 8).shape
    torch.Size([2, 3, 8, 8])
    """
    check_shape(pixels.shape[1:], resolution)
    return torch.from_numpy(np.ascontiguousarray(pixels)).to(device).permute(0, 3, 1, 2)


def check_shape(shape: tuple[int, ...], resolution: int) -> None:
    """Raise BadInput unless the shape of an image, (height, width, channels), is (resolution, resolution, 3)."""
    if tuple(shape) != (resolution, resolution, 3):
        raise BadInput(f"expected images of {resolution}×{resolution}×3, got {'×'.join(map(str, shape))}.")


def by_few(network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """network(x), computed on a CPU for a few images at a time and on other devices for all at once.

    On a CPU the activations of a large batch leave the cache; base.buffers says what their memory costs besides. Each
    image's numbers are the same.

    >>> by_few(lambda x: 2 * x, torch.ones(9, 3, 2, 2)).sum().item()
    216.0
    """
    return torch.cat([network(part) for part in x.split(_FEW)]) if x.device.type == "cpu" else network(x)
