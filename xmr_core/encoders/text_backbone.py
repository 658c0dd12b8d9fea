"""Encoders of captions that a text model of transformers has read: frozen states, or the model fine-tuned."""

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.masked import masked_max, masked_mean, require_element, require_elements
from xmr_core.base.types import Features, Tokens
from xmr_core.data.features.pretrained import build, copy_weights
from xmr_core.encoders.stages import stage_prefixes, train_only

SUMMARIES = ("first", "last", "max", "mean")


class StatesEncoder(nn.Module):
    """Trainable encoder of frozen word-piece states.

        y = W x + b,   local = y + MLP(LayerNorm(y)),   global = dropout(max over valid pieces of local)

    MLP is d → d → d with GELU and dropout, as in GridEncoder. A piece's state knows its place already.
    Shapes: Features local_feats "n l d_in" → Features(local_feats "n l d", global_feat "n d"), mask kept.
    Raises: BadInput for another width, a caption without a piece, numbers that are not finite.
    """

    def __init__(self, d_in: int, d: int, dropout: float = 0.1):
        super().__init__()
        self.project = nn.Linear(d_in, d)
        self.refine = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Dropout(dropout), nn.Linear(d, d))
        self.dropout = nn.Dropout(dropout)

    @property
    def local_width(self) -> int:
        """Width of local_feats."""
        return self.project.out_features

    def forward(self, states: Features) -> Features:
        x = states.local_feats
        require_elements(x, states.mask, self.project.in_features, "caption")
        y = self.project(x.to(self.project.weight.dtype))
        local = y + self.refine(y)
        return Features(local, states.mask, self.dropout(masked_max(local, states.mask[..., None], dim=1)))


class TextBackbone(nn.Module):
    """A text model to be fine-tuned: local = W h_l + b of every last state h, global = dropout(a summary of local).

    summary: 'first' piece (BERT's [CLS]; as encoders.bert.BertEncoder), 'last' (CLIP's end of text), 'max' or 'mean' over pieces.
    Args: description: from describe_text; a saved method needs no folder to be rebuilt. Weights are random until load_weights.
    Shapes: Tokens "n l" → Features(local_feats "n l d", global_feat "n d"). Parameters of the pretrained network are named
    'backbone.…'. Raises: BadInput for another description or summary, a caption without a piece.
    """

    def __init__(self, description: str, d: int, summary: str = "first", dropout: float = 0.0):
        super().__init__()
        if summary not in SUMMARIES:
            raise BadInput(f"summary must be one of {', '.join(SUMMARIES)}, got {summary!r}.")
        try:
            shape = json.loads(description)["architecture"]
        except (ValueError, KeyError, TypeError):
            raise BadInput(f"a description from describe_text is needed, got {description[:60]!r}.") from None
        self.backbone = build(shape, "text")
        self.project, self.dropout, self.summary = nn.Linear(self.backbone.config.hidden_size, d), nn.Dropout(dropout), summary
        self.stages = stage_prefixes(self.backbone, "backbone.")

    @property
    def local_width(self) -> int:
        """Width of local_feats."""
        return self.project.out_features

    def load_weights(self, source: Path | str) -> str:
        """Fill the backbone with the weights of a folder or hub name; returns their identity. Raises BadInput for another network."""
        return copy_weights(self.backbone, source, "text")

    def stage_prefixes(self) -> list[tuple[str, ...]]:
        """Groups of parameter-name prefixes, from the output to the input, for staged unfreezing and learning rates."""
        return self.stages

    def train_stages(self, count: int) -> None:
        """Let the last `count` stages of the backbone learn, and no other; 0 freezes it, what stands behind it always learns."""
        train_only(self, self.stages, count)

    def forward(self, tokens: Tokens) -> Features:
        require_element(tokens.mask, "caption")
        states = self.backbone(input_ids=tokens.ids, attention_mask=tokens.mask.long()).last_hidden_state
        local = self.project(states)
        return Features(local, tokens.mask, self.dropout(self._summary(local, tokens.mask)))

    def _summary(self, local: Tensor, mask: Tensor) -> Tensor:
        if self.summary == "first":
            return local[:, 0]
        if self.summary == "last":
            return local[torch.arange(len(local), device=local.device), mask.sum(1) - 1]
        return (masked_max if self.summary == "max" else masked_mean)(local, mask[..., None], dim=1)
