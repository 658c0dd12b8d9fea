"""Heads that keep every token: SCAN compares tokens, SGRAF tokens and one vector that speaks for all of them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.tensors import checking, masked_mean, masked_softmax, xavier
from xmr_core.base.types import EmbeddingSet, Features
from xmr_core.heads.gpo import PoolingHead


class TokenHead(PoolingHead):
    """The set is the local features themselves, each divided by its L2 norm (unless normalise=False, the authors'
    `no_imgnorm`).

    Args: d_local, d: widths; a linear layer joins them where they differ, none is used where they are equal.
    Shapes: local_feats "n l d_local" → EmbeddingSet x "n l d", same mask. Raises: BadInput for an item without a token.
    Source: Lee et al., ECCV 2018 (SCAN).

    >>> import torch
    >>> TokenHead(2, 2)(torch.tensor([[[3.0, 4.0]]])).x
    tensor([[[0.6000, 0.8000]]])
    """

    def forward(self, features: Features | Tensor, mask: Tensor | None = None) -> EmbeddingSet:
        x, mask = self.joined(features, mask)
        return EmbeddingSet(F.normalize(x, dim=-1) if self.normalise else x, mask)


class GlobalTokenHead(nn.Module):
    """The tokens, and before them one vector of the entire item by self-attention against the mean token.

        v̄ = mean_i v_i,   l_i = drop(tanh(N(W_l v_i + b_l))),   g = drop(tanh(N(W_g v̄ + b_g))),
        w = softmax_i((l_i ⊙ g) · w_c + b_c),   row 0 = l2(Σ_i w_i v_i),   rows 1… = v_i

    Args: regions: N is BatchNorm; for l its channels are the region index (docs/differences.md#x-25), so every item has
        exactly `regions` tokens. 0: N is the identity (captions; images of any number of tokens).
    Shapes: local_feats "n l d_local" → EmbeddingSet x "n 1+l d", attention "n 1 l" (w).
    Raises: BadInput for another number of tokens than `regions`, or an item without a token.
    Source: Diao et al., AAAI 2021 (SGRAF), §3.1, after SCAN's tokens; dropout 0.4 in the authors' code.

    >>> import torch
    >>> GlobalTokenHead(3, 2)(torch.rand(5, 4, 3)).x.shape
    torch.Size([5, 5, 2])
    """

    def __init__(self, d_local: int, d: int, regions: int = 0, dropout: float = 0.4, normalise: bool = True):
        super().__init__()
        self.tokens = TokenHead(d_local, d, normalise)
        self.local, self.global_linear, self.common = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 1)
        for linear in (self.local, self.global_linear, self.common):
            xavier(linear)
        self.norm_local = nn.BatchNorm1d(regions) if regions else nn.Identity()
        self.norm_global = nn.BatchNorm1d(d) if regions else nn.Identity()
        self.regions, self.dropout = regions, nn.Dropout(dropout)

    def forward(self, features: Features | Tensor, mask: Tensor | None = None) -> EmbeddingSet:
        tokens = self.tokens(features, mask)
        if self.regions and (tokens.x.shape[1] != self.regions or (checking() and not tokens.mask.all())):
            raise BadInput(f"exactly {self.regions} regions an image are needed, got up to {tokens.x.shape[1]}.")
        global_row, attention = self.global_vector(tokens.x, tokens.mask)
        mask = F.pad(tokens.mask, (1, 0), value=True)
        return EmbeddingSet(torch.cat([global_row[:, None], tokens.x], 1), mask, attention=attention[:, None])

    def global_vector(self, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """(row 0 "n d", w "n l") of tokens "n l d"."""
        mean = masked_mean(v, mask[..., None], dim=1)
        local = self.dropout(torch.tanh(self.norm_local(self.local(v))))
        global_gate = self.dropout(torch.tanh(self.norm_global(self.global_linear(mean))))
        weights = masked_softmax(self.common(local * global_gate[:, None]).squeeze(-1), mask)
        return F.normalize((weights[..., None] * v).sum(1), dim=-1), weights
