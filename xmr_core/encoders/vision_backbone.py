"""Any vision model of transformers as an image encoder that is fine-tuned."""

import json
from pathlib import Path

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, Pixels
from xmr_core.data.features.pretrained import build, copy_weights
from xmr_core.data.features.pretrained_grid import find_layout
from xmr_core.data.features.scaling import Scaling
from xmr_core.encoders.image import GridEncoder
from xmr_core.encoders.stages import stage_prefixes, train_only


class VisionBackbone(nn.Module):
    """A vision model to be fine-tuned, and the study's GridEncoder on its cells.

        local, global = GridEncoder(cells of the last states of backbone(scaled pixels))

    Args: description: from describe_vision; a saved method needs no folder to be rebuilt. Weights are random until load_weights.
        d: joint width. freeze_norm: BatchNorm layers stay in eval mode, and their scale and shift are buffers, not parameters, so
        that no optimiser or unfreezing reaches them. class_token: the token before the cells enters the global feature too, as
        GridEncoder's g.
    Shapes: Pixels x "n 3 resolution resolution" in [0, 1] → Features(local_feats "n l d", global_feat "n d").
    Parameters of the pretrained network are named 'backbone.…'; those that no cell depends on (poolers, a norm behind the class
    token) do not learn. Raises: BadInput for another description, a class token that is not there, pictures of another resolution.
    """

    def __init__(self, description: str, d: int, dropout: float = 0.1, freeze_norm: bool = True, class_token: bool = False):
        super().__init__()
        try:
            given = json.loads(description)
            shape, scaling = given["architecture"], Scaling(**given["scaling"])
        except (ValueError, KeyError, TypeError):
            raise BadInput(f"a description from describe_vision is needed, got {description[:60]!r}.") from None
        self.resolution = scaling.resolution
        with torch.device("meta"):  # its shapes, for nothing
            plan = build(shape, "image").eval()
            self.layout = find_layout(plan, self.resolution, str(shape.get("model_type")))
            self._idle = _without_influence(plan, self.resolution)
        if class_token and not self.layout.before:
            raise BadInput(f"a {shape.get('model_type')} has no class token; leave class_token out.")
        self.backbone = build(shape, "image")
        self.scaling, self.class_token = scaling, class_token
        for name, value in zip(("mean", "std"), scaling.tensors(), strict=True):
            self.register_buffer(name, value, persistent=False)  # the description has them
        self.norms = [m for m in self.backbone.modules() if isinstance(m, _BatchNorm)] if freeze_norm else []
        for norm in self.norms:
            _parameters_to_buffers(norm)
        self.cells = GridEncoder(self.layout.width, d, self.layout.cells, dropout, self.layout.width if class_token else 0)
        self.stages = stage_prefixes(self.backbone, "backbone.")
        self.train_stages(len(self.stages))

    def load_weights(self, source: Path | str) -> str:
        """Fill the backbone with the weights of a folder or hub name; returns their identity. Raises BadInput for another network."""
        return copy_weights(self.backbone, source, "image")

    def stage_prefixes(self) -> list[tuple[str, ...]]:
        """Groups of parameter-name prefixes, from the output to the input, for staged unfreezing and learning rates."""
        return self.stages

    def train_stages(self, count: int) -> None:
        """Let the last `count` stages of the backbone learn, and no other; 0 freezes it, what stands behind it always learns."""
        train_only(self, self.stages, count, self._idle)

    def train(self, mode: bool = True) -> "VisionBackbone":
        super().train(mode)
        for norm in self.norms:
            norm.eval()
        return self

    def forward(self, pixels: Pixels) -> Features:
        if pixels.x.shape[1:] != (3, self.resolution, self.resolution):
            raise BadInput(f"expected pictures of 3×{self.resolution}×{self.resolution}, got {'×'.join(map(str, pixels.x.shape[1:]))}.")
        states = self.backbone(pixel_values=self.scaling.apply(pixels.x, self.mean, self.std)).last_hidden_state
        cells = self.layout.cells_of(states)
        mask = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
        return self.cells(Features(cells, mask, states[:, 0] if self.class_token else None))


def _without_influence(model: nn.Module, resolution: int) -> frozenset[str]:
    """Names ('backbone.…') of parameters that no state depends on."""
    states = model(pixel_values=torch.zeros(1, 3, resolution, resolution)).last_hidden_state
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(states.sum(), list(named.values()), allow_unused=True)
    fixed = {name for name, p in model.named_parameters() if not p.requires_grad}  # sine codes, as the model has them
    return frozenset(f"backbone.{name}" for name in fixed | {n for n, g in zip(named, gradients, strict=True) if g is None})


def _parameters_to_buffers(norm: _BatchNorm) -> None:
    for name in ("weight", "bias"):
        if (value := getattr(norm, name)) is not None:
            delattr(norm, name)
            norm.register_buffer(name, value.detach())
