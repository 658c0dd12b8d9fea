"""CLIP's two towers, each ending in two branches: its own last blocks for means, new ones for variances."""

import torch
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.masked import require_element
from xmr_core.base.types import Features, Pixels, Tokens
from xmr_core.data.features.pixels import check_shape
from xmr_core.data.features.pretrained import build
from xmr_core.data.features.scaling import Scaling
from xmr_core.encoders.stages import FineTuned, read_description


class ClipBranches(FineTuned):
    """A tower of CLIP whose first L − U blocks both branches share.

        local_feats = what the tower's own last U blocks make of it   (captions: after the tower's last norm)
        spread_feats = what U new blocks of the same kind make of it  (no norm, random at the start)

    A subclass says which tower. Args: description: from describe_vision or describe_text of a CLIP. blocks: U.
    Parameters of the pretrained network are named 'backbone.…'; the new blocks, 'spread_blocks.…', always learn.
    Raises: BadInput for another description, a model that is not a CLIP, or as many blocks as the tower has.
    Source: Chun, ICLR 2024 (PCME++), §3.5; the new blocks start at random as in its code (docs/differences.md#x-83).
    """

    def __init__(self, description: str, blocks: int = 1):
        super().__init__()
        function = "describe_vision" if self.kind == "image" else "describe_text"
        self.values = read_description(description, function)
        shape = self.values["architecture"]
        if not str(shape.get("model_type")).startswith("clip"):
            raise BadInput(f"PCME++ branches off a CLIP, got a {shape.get('model_type')}. Give the folder of a CLIP.")
        self.backbone = build(shape, self.kind)
        own = next(m for m in self.backbone.modules() if isinstance(m, nn.ModuleList))
        if not 1 <= blocks < len(own):
            raise BadInput(f"blocks must lie between 1 and {len(own) - 1}, one less than the tower has; got {blocks}.")
        self.shared = len(own) - blocks
        self.spread_blocks = nn.ModuleList(type(own[0])(self.backbone.config) for _ in range(blocks))
        self.find_stages(self._without_influence())

    @property
    def local_width(self) -> int:
        """Width of local_feats and spread_feats."""
        return self.backbone.config.hidden_size

    def _without_influence(self) -> list[str]:
        """Parameters that no feature depends on."""
        return [f"backbone.{n}" for n, _ in self.backbone.named_parameters() if self.unread in n]

    def _branches(self, attend: Tensor | None = None, **inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(local, spread). attend: added to the attention of the new blocks, "1 1 l l"."""
        out = self.backbone(**inputs, output_hidden_states=True)
        spread = out.hidden_states[self.shared]
        for block in self.spread_blocks:
            spread = block(spread, attend)
            spread = spread[0] if isinstance(spread, tuple) else spread
        return out.last_hidden_state, spread


class ClipImageBranches(ClipBranches):
    """The image tower. Pixels "n 3 h w" in [0, 1] → Features over class token and cells; h and w are `resolution`.

    Example: `ClipImageBranches(describe_vision("openai/clip-vit-base-patch32"))`, then `.load_weights` of that name.
    """

    kind, unread = "image", "post_layernorm"

    def __init__(self, description: str, blocks: int = 1):
        super().__init__(description, blocks)
        self.scaling = Scaling(**self.values["scaling"])
        self.resolution = self.scaling.resolution
        for name, value in zip(("mean", "std"), self.scaling.tensors(), strict=True):
            self.register_buffer(name, value, persistent=False)  # the description has them

    def forward(self, pixels: Pixels) -> Features:
        check_shape((*pixels.x.shape[2:], pixels.x.shape[1]), self.resolution)
        local, spread = self._branches(pixel_values=self.scaling.apply(pixels.x, self.mean, self.std))
        return Features(local, local.new_ones(local.shape[:2], dtype=torch.bool), spread_feats=spread)


class ClipTextBranches(ClipBranches):
    """The caption tower, which reads from left to right. Tokens "n l" → Features over the tokens of each caption."""

    kind, unread = "text", "\0"  # every parameter has a say

    def forward(self, tokens: Tokens) -> Features:
        require_element(tokens.mask, "caption")
        l = tokens.ids.shape[1]
        weight = self.spread_blocks[0].layer_norm1.weight
        later = torch.full((l, l), -torch.inf, device=weight.device, dtype=weight.dtype).triu(1)[None, None]
        local, spread = self._branches(later, input_ids=tokens.ids, attention_mask=tokens.mask.long())
        return Features(local, tokens.mask, spread_feats=spread)
