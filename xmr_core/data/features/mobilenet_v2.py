"""MobileNetV2 1.0 as a frozen extractor of grid features, from one safetensors file and without torchvision."""

from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.weights import require_plain
from xmr_core.data.features.inverted_residuals import InvertedResidual, LastMap, activated

# (expansion, channels, repeats, stride) of each group of inverted residuals: Sandler et al., CVPR 2018, Table 2
_GROUPS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class MobileNetV2(nn.Module):
    """The network with batch normalisation folded into its convolutions. Pixels in [−1, 1] "n 3 h w" → logits "n 1001".

    Class 0 is the background; 1–1000 are those of ImageNet in their usual order. features(x) is the last map,
    "n 1280 h/32 w/32". Weights are random until load_mobilenet_v2 reads them.
    Source: Sandler et al., CVPR 2018, Table 2.

    >>> MobileNetV2()(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 1001])
    """

    def __init__(self):
        super().__init__()
        layers, width = [activated(3, 32, 3, 2)], 32
        for expansion, channels, repeats, stride in _GROUPS:
            for n in range(repeats):
                layers.append(InvertedResidual(width, channels, stride if n == 0 else 1, expansion))
                width = channels
        self.features = nn.Sequential(*layers, activated(width, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(1280, 1001))

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 1001"]:
        return self.classifier(self.features(x).mean((2, 3)))


def load_mobilenet_v2(path: Path | str) -> MobileNetV2:
    """The network with weights from a safetensors file (float16 or float32).

    Raises: BadInput for a file that does not exist, or naming a tensor that is missing, unknown or of another shape;
        DamagedFile for a file that is not a whole safetensors file.
    """
    path = files.existing_file(path, "MobileNetV2 weights")
    try:
        tensors = {name: tensor.float() for name, tensor in load_file(str(path)).items()}
    except (SafetensorError, OSError) as e:
        raise DamagedFile(f"{path} is not a whole safetensors file ({e}). Copy it again.") from None
    require_plain(tensors, str(path))
    net = MobileNetV2()
    shapes = {name: tensor.shape for name, tensor in net.state_dict().items()}
    for kind, names in (("lacks", shapes.keys() - tensors.keys()), ("has the unknown", tensors.keys() - shapes.keys())):
        if names:
            raise BadInput(
                f"{path} is not a MobileNetV2 1.0: it {kind} tensor {min(names)!r} (and {len(names) - 1} more)."
            )
    for name, shape in shapes.items():
        if tensors[name].shape != shape:
            raise BadInput(f"{path}: tensor {name!r} has shape {tuple(tensors[name].shape)}, not {tuple(shape)}.")
    net.load_state_dict(tensors)
    return net.eval().requires_grad_(False)


class MobileNetV2Grid(LastMap):
    """Frozen extractor (feature_cache.Extractor): the last 7 × 7 map of 1,280 channels as 49 cells, row by row.

    Args: path: the safetensors file; its bytes are part of the identity, its name is not. device: where it computes.
    Images are RGB of 224 × 224 pixels, scaled as the weights need it: (x − 127) · 0.00784314.
    Raises: BadInput and DamagedFile as load_mobilenet_v2.

    Example: `MobileNetV2Grid("mobilenet_v2.safetensors")(pixels)` of pixels "n 224 224 3" is "n 49 1280".
    """

    version = 1  # raise it when the numbers change
    kind = "mobilenet_v2"
    shape = (49, 1280)
    scale = 0.007843137718737125

    def __init__(self, path: Path | str, device: torch.device | str | None = None):
        super().__init__(load_mobilenet_v2(path), 224, device)
        self.identity = f"mobilenet_v2-grid-1-{fingerprint.file_hash(path)}"

    def weights(self) -> dict[str, Tensor]:
        """Its tensors by name, from which `from_weights` makes it again."""
        return {name: tensor.detach().cpu().contiguous() for name, tensor in self.net.state_dict().items()}

    @classmethod
    def from_weights(
        cls, name: str, tensors: Mapping[str, Tensor], identity: str, device: torch.device | str | None = None
    ) -> "MobileNetV2Grid":
        """The extractor from `weights`, without its file. Raises: BadInput for tensors of another network."""
        net = MobileNetV2()
        try:
            net.load_state_dict(dict(tensors))
        except RuntimeError as e:
            raise BadInput(f"these are not the tensors of a {name} ({' '.join(str(e).split())[:120]}).") from None
        self = cls.__new__(cls)
        LastMap.__init__(self, net.eval().requires_grad_(False), 224, device)
        self.identity = identity
        return self
