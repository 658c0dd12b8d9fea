"""Any vision model of transformers as an image encoder that is fine-tuned."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, Pixels
from xmr_core.data.features.pixels import check_shape
from xmr_core.data.features.pretrained import build
from xmr_core.data.features.pretrained_grid import find_layout
from xmr_core.data.features.scaling import Scaling
from xmr_core.encoders.image import GridEncoder
from xmr_core.encoders.stages import FineTuned, read_description


class VisionBackbone(FineTuned):
    """A vision model to be fine-tuned, and the study's GridEncoder on its cells.

        local, global = GridEncoder(cells of the last states of backbone(scaled pixels))

    Args: description: from describe_vision; a saved method needs no folder to be built again. Weights are random until
        load_weights. d: joint width. freeze_norm: BatchNorm layers stay in eval mode, and their scale and shift are
        buffers instead of parameters, so that no optimiser or unfreezing reaches them. class_token: the token before
        the cells enters the global feature too, as GridEncoder's g.
    Shapes: Pixels x "n 3 h w" in [0, 1] → Features(local_feats "n l d", global_feat "n d"); h and w are `resolution`.
    Parameters of the pretrained network are named 'backbone.…'. Those that no cell depends on (poolers, a norm after
    the class token) do not learn.
    Raises: BadInput for another description, a class token that the model does not have, images of another resolution.

    Example: `VisionBackbone(describe_vision("facebook/dinov2-small"), d=256)`, then `.load_weights(...)` with the same
    name.
    """

    kind = "image"

    def __init__(
        self, description: str, d: int, dropout: float = 0.1, freeze_norm: bool = True, class_token: bool = False
    ):
        super().__init__()
        values = read_description(description, "describe_vision")
        shape, self.scaling, self.class_token = values["architecture"], Scaling(**values["scaling"]), class_token
        self.resolution, model_type = self.scaling.resolution, str(shape.get("model_type"))
        with torch.device("meta"):  # its shapes, without memory or work
            plan = build(shape, "image").eval()
            self.layout = find_layout(plan, self.resolution, model_type)
            untrained = _without_influence(plan, self.resolution)
        if class_token and not self.layout.before:
            raise BadInput(f"a {model_type} has no class token; leave class_token out.")
        self.backbone = build(shape, "image")
        for name, value in zip(("mean", "std"), self.scaling.tensors(), strict=True):
            self.register_buffer(name, value, persistent=False)  # the description has them
        self.norms = [m for m in self.backbone.modules() if isinstance(m, _BatchNorm)] if freeze_norm else []
        for norm in self.norms:
            _parameters_to_buffers(norm)
        width, cells = self.layout.width, self.layout.cells
        self.cells = GridEncoder(width, d, cells, dropout, width if class_token else 0)
        self.find_stages(untrained)

    def train(self, mode: bool = True) -> "VisionBackbone":
        super().train(mode)
        for norm in self.norms:
            norm.eval()
        return self

    def forward(self, pixels: Pixels) -> Features:
        check_shape((*pixels.x.shape[2:], pixels.x.shape[1]), self.resolution)
        states = self.backbone(pixel_values=self.scaling.apply(pixels.x, self.mean, self.std)).last_hidden_state
        cells = self.layout.cells_of(states)
        mask = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
        return self.cells(Features(cells, mask, states[:, 0] if self.class_token else None))


def _without_influence(model: nn.Module, resolution: int) -> set[str]:
    """Names ('backbone.…') of parameters that no state depends on, or that the model keeps fixed (sine codes)."""
    states = model(pixel_values=torch.zeros(1, 3, resolution, resolution)).last_hidden_state
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(states.sum(), list(learned.values()), allow_unused=True)
    influential = {name for name, g in zip(learned, gradients, strict=True) if g is not None}
    return {f"backbone.{name}" for name, _ in model.named_parameters() if name not in influential}


def _parameters_to_buffers(norm: _BatchNorm) -> None:
    for name in ("weight", "bias"):
        if (value := getattr(norm, name)) is not None:
            delattr(norm, name)
            norm.register_buffer(name, value.detach())
