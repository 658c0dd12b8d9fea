"""Any vision model of transformers as a frozen extractor of grid features."""

import json
from dataclasses import asdict, dataclass
from math import isqrt
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from xmr_core.base import paths
from xmr_core.base.errors import BadInput
from xmr_core.data.features.model_folder import find_pretrained
from xmr_core.data.features.pretrained import architecture, load_pretrained, tower_config
from xmr_core.data.features.scaling import read_scaling

WHAT = ("cells", "whole", "both")


@dataclass(frozen=True)
class Layout:
    """Where the cells of a picture stand in a model's last states: a map "n c h w" (`before` None), or tokens "n l c" of which
    the first `before` are not cells (class token, distillation token, registers). The cells form a square, row by row."""

    cells: int
    width: int
    before: int | None

    def of(self, states: Tensor) -> Float[Tensor, "n l c"]:
        """The cells alone."""
        return states.flatten(2).transpose(1, 2) if self.before is None else states[:, self.before :]


def find_layout(model: nn.Module, side: int, given: str) -> Layout:
    """Try one picture and compare the number of tokens with the grid of patches.

    A plain transformer has (side / patch)² tokens and at most class, distillation and register tokens before them; one with
    stages has a grid halved once or several times, and none before; without a patch size in the config there may be one
    token more than a square.
    Raises: BadInput when the model refuses pictures of this side, or its tokens are no such grid (masked autoencoders in
        pretraining, detection tokens).
    """
    parameter = next(model.parameters())
    try:
        with torch.no_grad():
            states = model(pixel_values=torch.zeros(1, 3, side, side, device=parameter.device)).last_hidden_state
    except Exception as e:  # whatever a foreign model raises
        raise BadInput(f"{given} cannot read pictures of {side}×{side} ({' '.join(str(e).split())[:120]}). Give another side.") from e
    if states.ndim == 4:
        return Layout(states.shape[2] * states.shape[3], states.shape[1], None)
    tokens, width = states.shape[1:]
    patch, registers = getattr(model.config, "patch_size", None), getattr(model.config, "num_register_tokens", 0) or 0
    if isinstance(patch, int):
        edge = max(1, side // patch)
        if 0 <= (before := tokens - edge**2) <= 2 + registers:
            return Layout(edge**2, width, before)
        while edge**2 > tokens:
            edge = (edge + 1) // 2
        before, most = tokens - edge**2, 0
    else:
        before, most = tokens - isqrt(tokens) ** 2, 1
    if before > most:
        raise BadInput(f"{given}: its {tokens} tokens are no square grid of cells of a picture of {side}×{side}. Choose another model.")
    return Layout(tokens - before, width, before)


class PretrainedGrid:
    """Frozen extractor (feature_cache.Extractor): what a pretrained vision model sees in each cell of a picture.

    Works for any vision model of transformers whose last states are a map or a square of tokens: ResNet, RegNet, ConvNeXt,
    ViT, DeiT, DINOv2, Swin, the vision towers of CLIP and SigLIP, …; row by row, class and register tokens left out.

    what: 'cells' "n l e"; 'whole' "n 1 e", one vector for the whole picture; 'both' "n 1+l e", the whole first.
    The whole is the model's pooler_output: mean over cells (ResNet, RegNet, Swin), with LayerNorm (ConvNeXt), class token after
    LayerNorm (CLIP, DINOv2), attention pooling (SigLIP), tanh layer on the class token (ViT and DeiT, where the file has one).
    Models without it, or whose file lacks it: class token, else mean over cells.

    Args: source: folder or hub name. side: of the pictures in pixels, 0 for what the model was made for. device: where it
        computes. batch: pictures at a time.
    Raises: BadInput as load_pretrained, read_scaling and find_layout do.
    """

    version = 1  # raise it when the numbers change
    dtype = np.float16
    ordered = True

    def __init__(self, source: Path | str, what: str = "cells", side: int = 0, device: torch.device | str | None = None, batch: int = 32):
        if what not in WHAT:
            raise BadInput(f"what must be one of {', '.join(WHAT)}, got {what!r}.")
        loaded = load_pretrained(source, "image")
        self.scaling = read_scaling(loaded.found, loaded.config, side)
        self.net = loaded.model.to(device).requires_grad_(False)
        self._mean, self._std = (v.to(device) for v in self.scaling.tensors())
        self.layout = find_layout(self.net, self.scaling.side, loaded.found.given)
        self.what, self.batch = what, batch
        cells = {"cells": self.layout.cells, "whole": 1, "both": 1 + self.layout.cells}[what]
        probe = self(np.zeros((1, self.side, self.side, 3), np.uint8)) if what != "cells" else None
        self.shape = (cells, self.layout.width if probe is None else probe.shape[2])
        self.identity = f"pretrained-1-{what}-{paths.content_hash(asdict(self.scaling))}-{loaded.found.identity}"

    @property
    def side(self) -> int:
        """Height and width of the pictures it wants, in pixels."""
        return self.scaling.side

    def __call__(self, pixels: UInt8[np.ndarray, "n h w 3"]) -> Float[np.ndarray, "n l e"]:
        """Describe pictures. Raises BadInput unless they are side × side."""
        if pixels.shape[1:] != (self.side, self.side, 3):
            raise BadInput(f"expected pictures of {self.side}×{self.side}×3, got {'×'.join(map(str, pixels.shape[1:]))}.")
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(pixels)).to(self._mean.device).permute(0, 3, 1, 2).float() / 255
            out = self.net(pixel_values=self.scaling.apply(x, self._mean, self._std))
            parts = {"cells": self.layout.of(out.last_hidden_state)}
            if self.what != "cells":
                parts["whole"] = self._whole(out, parts["cells"])[:, None]
            parts["both"] = torch.cat([parts["whole"], parts["cells"]], 1) if self.what == "both" else None
            return parts[self.what].cpu().numpy().astype(self.dtype)

    def _whole(self, out, cells: Tensor) -> Float[Tensor, "n e"]:
        pooled = getattr(out, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)
        return out.last_hidden_state[:, 0] if self.layout.before else cells.mean(1)


def describe_vision(source: Path | str, side: int = 0) -> str:
    """JSON of everything that VisionBackbone needs to build a network, but its weights. side: of the pictures, 0 for the model's own."""
    found = find_pretrained(source)
    scaling = read_scaling(found, tower_config(found, "image"), side)
    return json.dumps({"architecture": architecture(found, "image"), "scaling": asdict(scaling)}, sort_keys=True)
