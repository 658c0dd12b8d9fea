"""PIE-Net: K views of one item by self-attention, each added to the global feature."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.tensors import as_features, global_of, masked_softmax
from xmr_core.base.types import EmbeddingSet, Features


class PIENet(nn.Module):
    """K elements from K attention maps over the local features.

    A = softmax over valid inputs of W₂ tanh(W₁ X)  ("n l k", no biases)
    r_k = dropout(sigmoid(W_f Σ_l A_lk X_l + b_f)),   residual = r
    element k = LN(global + r_k)/‖·‖₂ with one LayerNorm for all k.

    Args: d_local: width of X. d: joint width. slots: K. d_hidden: width inside the attention, ⌊d_local/2⌋ by default.
    Shapes: local_feats "n l d_local", global_feat "n d" → EmbeddingSet x "n k d", residual "n k d", attention "n k l".
    Raises: BadInput for K < 1 or features without a global vector or an item without a real element.
    Source: Song & Soleymani, CVPR 2019 (PVSE); docs/methods/pvse.md.

    >>> import torch
    >>> PIENet(3, 2, slots=4)(torch.rand(5, 6, 3), global_feat=torch.rand(5, 2)).x.shape
    torch.Size([5, 4, 2])
    """

    def __init__(self, d_local: int, d: int, slots: int, d_hidden: int | None = None, dropout: float = 0.0):
        super().__init__()
        if slots < 1:
            raise BadInput(f"slots must be at least 1, got {slots}.")
        self.w_1 = nn.Linear(d_local, d_hidden or d_local // 2, bias=False)
        self.w_2 = nn.Linear(d_hidden or d_local // 2, slots, bias=False)
        self.fc = nn.Linear(d_local, d)
        self.layer_norm = nn.LayerNorm(d)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.w_1, self.w_2, self.fc):
            nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(
        self, features: Features | Tensor, mask: Tensor | None = None, global_feat: Tensor | None = None
    ) -> EmbeddingSet:
        features = as_features(features, mask, global_feat, self.fc.in_features)
        added = global_of(features, "PIE-Net adds the global feature")
        x = torch.where(features.mask[..., None], features.local_feats, 0.0)  # a weight of 0 does not silence a NaN
        # n k l
        attention = masked_softmax(self.w_2(self.w_1(x).tanh()), features.mask[..., None], dim=1).transpose(1, 2)
        residual = self.dropout(self.fc(attention @ x).sigmoid())
        elements = F.normalize(self.layer_norm(added.unsqueeze(1) + residual), dim=-1)
        mask = torch.ones(elements.shape[:2], dtype=torch.bool, device=x.device)
        return EmbeddingSet(elements, mask, residual=residual, attention=attention)
