"""Encoders of captions that a text model of transformers has read: frozen states, or the model fine-tuned."""

import torch
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.masked import masked_max, masked_mean, require_element, require_elements
from xmr_core.base.types import Features, Tokens
from xmr_core.data.features.pretrained import build
from xmr_core.encoders.stages import FineTuned, read_description

SUMMARIES = ("first", "last", "max", "mean")


class StatesEncoder(nn.Module):
    """Encoder that learns on frozen word-piece states.

        y = W x + b,   local = y + MLP(LayerNorm(y)),   global = dropout(max over valid pieces of local)

    MLP is d → d → d with GELU and dropout, as in GridEncoder. There is no vector of place: states depend on it already.
    Shapes: Features local_feats "n l d_in" → Features(local_feats "n l d", global_feat "n d"), same mask.
    Raises: BadInput for another width, a caption without a piece, numbers that are not finite.

    >>> states = Features(torch.zeros(2, 4, 5), torch.ones(2, 4, dtype=torch.bool))
    >>> StatesEncoder(5, 8)(states).global_feat.shape
    torch.Size([2, 8])
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


class TextBackbone(FineTuned):
    """A text model to be fine-tuned: local = W h_l + b of every last state h, global = dropout(a summary of local).

    summary: the 'first' piece (BERT's [CLS], as in BertEncoder), the 'last' (CLIP's end of text), or 'max' or 'mean'
    over all pieces; '' for the one in the description, which is the first where it names none.
    Args: description: from describe_text; a saved method needs no folder to be built again. Weights are random until
        load_weights. d: joint width.
    Shapes: Tokens "n l" → Features(local_feats "n l d", global_feat "n d"). Parameters of the pretrained network are
        named 'backbone.…'.
    Raises: BadInput for another description or summary, a caption without a piece.

    Example: `TextBackbone(describe_text("bert-base-uncased"), d=256)`, then `.load_weights(...)` with the same name.
    """

    kind = "text"

    def __init__(self, description: str, d: int, summary: str = "", dropout: float = 0.0):
        super().__init__()
        values = read_description(description, "describe_text")
        summary = summary or values.get("summary", "first")
        if summary not in SUMMARIES:
            raise BadInput(f"summary must be one of {', '.join(SUMMARIES)}, got {summary!r}.")
        self.backbone = build(values["architecture"], "text")
        self.project = nn.Linear(self.backbone.config.hidden_size, d)
        self.dropout, self.summary = nn.Dropout(dropout), summary
        self.find_stages([f"backbone.{n}" for n, p in self.backbone.named_parameters() if not p.requires_grad])

    @property
    def local_width(self) -> int:
        """Width of local_feats."""
        return self.project.out_features

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
