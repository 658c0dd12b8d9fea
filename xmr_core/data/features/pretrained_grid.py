"""Any vision model of transformers as a frozen extractor of grid features."""

import json
from dataclasses import asdict, dataclass
from math import isqrt

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from xmr_core.base import fingerprint
from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput
from xmr_core.data.features.model_folder import find_pretrained
from xmr_core.data.features.pixels import by_few, channels_first
from xmr_core.data.features.pretrained import Source, architecture, load_pretrained, tower_config
from xmr_core.data.features.scaling import read_fit, read_scaling

OUTPUTS = ("cells", "global", "both")


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
    """Frozen extractor (feature_cache.Extractor): the last states of a pretrained vision model for each cell of an
    image.

    It reads every vision model of transformers whose last states are a map or a square of tokens: ResNet, RegNet,
    ConvNeXt, ViT, DeiT, DINOv2, Swin, the vision towers of CLIP and SigLIP, …. Cells stand row by row.

    output: 'cells' "n l e"; 'global' "n 1 e", one vector for the image; 'both' "n 1+l e", the global vector first.
    The global vector is the model's pooler_output: the mean of the cells (ResNet, RegNet, Swin), with LayerNorm
    (ConvNeXt), the class token after LayerNorm (CLIP, DINOv2), attention pooling (SigLIP), a tanh layer on the class
    token (ViT and DeiT, if the file has it). Without a pooler it is the class token, or else the mean of the cells.
    Attribute fit: how images become squares, as the model's preprocessor does it (scaling.read_fit).

    Args: source: folder or hub name. resolution: of the images in pixels, None for that of the model. device: where it
        computes. batch: images at a time.
    Raises: BadInput as load_pretrained, read_scaling and find_layout do.

    Example: `PretrainedGrid("facebook/dinov2-small")(pixels)` of pixels "n 224 224 3" is "n 256 384".
    """

    version = 2  # raise it when the numbers change
    dtype = np.float16

    def __init__(
        self,
        source: Source,
        output: str = "cells",
        resolution: int | None = None,
        device: torch.device | str | None = None,
        batch: int = 32,
    ):
        require_choice("output", output, OUTPUTS)
        loaded = load_pretrained(source, "image")
        self.scaling = read_scaling(loaded.folder, loaded.config, resolution)
        self.resolution, self.output, self.batch = self.scaling.resolution, output, batch
        self.fit = read_fit(loaded.folder, self.resolution)
        self.net = loaded.model.requires_grad_(False)
        self.to(device)
        self.layout = find_layout(self.net, self.resolution, loaded.folder.name)
        self.shape = (self.layout.cells, self.layout.width)
        if output != "cells":
            self.shape = self(np.zeros((1, self.resolution, self.resolution, 3), np.uint8)).shape[1:]
        recipe = fingerprint.content_hash([asdict(self.scaling), self.fit and asdict(self.fit)])
        self.identity = f"pretrained-1-{output}-{recipe}-{loaded.folder.identity}"

    def to(self, device: torch.device | str | None) -> None:
        """Compute on another device from now on; None for where the model is."""
        self.net = self.net.to(device)
        own = next(self.net.parameters()).device
        self._mean, self._std = (v.to(own) for v in self.scaling.tensors())

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]:
        """Describe images. Raises: BadInput unless they have the extractor's resolution."""
        with torch.inference_mode():
            x = channels_first(pixels, self.resolution, self._mean.device).float() / 255
            return by_few(self._features, x).cpu().numpy().astype(self.dtype)

    def _features(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n l e"]:
        out = self.net(pixel_values=self.scaling.apply(x, self._mean, self._std))
        features = cells = self.layout.cells_of(out.last_hidden_state)
        if self.output != "cells":
            features = self._pooled(out, cells)[:, None]
        return torch.cat([features, cells], 1) if self.output == "both" else features

    def _pooled(self, out, cells: Tensor) -> Float[Tensor, "n e"]:
        pooled = getattr(out, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)
        return out.last_hidden_state[:, 0] if self.layout.before else cells.mean(1)


def describe_vision(source: Source, resolution: int | None = None) -> str:
    """JSON of all that encoders.VisionBackbone needs to build a network, except its weights.

    resolution: of the images in pixels, None for that of the model.
    """
    folder = find_pretrained(source)
    scaling = read_scaling(folder, tower_config(folder, "image"), resolution)
    return json.dumps({"architecture": architecture(folder, "image"), "scaling": asdict(scaling)}, sort_keys=True)
