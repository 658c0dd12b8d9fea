"""Other ways to pool tokens to one vector, for the comparison of aggregators (VSE+2AD, Table 4), which has no code.

Each first joins the widths, then pools, and divides by the L2 norm: local_feats "n l d_local" → Embedding "n d", blind
    to padding.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.tensors import as_features, masked_mean, masked_softmax
from xmr_core.base.types import Embedding, Features
from xmr_core.heads.gpo import GPOHead, sorted_channels
from xmr_core.heads.pooling import MaxPool, MeanPool


class _Pool(nn.Module):
    """What they share. Each adds pool(x "n l d" with zeros on padding, mask "n l") → "n d"."""

    def __init__(self, d_local: int, d: int, normalise: bool = True):
        super().__init__()
        self.join = nn.Linear(d_local, d) if d_local != d else nn.Identity()
        self.d_local, self.normalise = d_local, normalise

    def forward(self, features: Features | Tensor, mask: Tensor | None = None) -> Embedding:
        features = as_features(features, mask, width=self.d_local)
        mask = features.mask
        x = self.join(torch.where(mask[..., None], features.local_feats, 0.0))
        pooled = self.pool(torch.where(mask[..., None], x, 0.0), mask)
        return Embedding(F.normalize(pooled, dim=-1) if self.normalise else pooled)


class KMaxPool(_Pool):
    """The mean of the k largest values of each channel; of all of them where there are fewer. k = 5 is the paper's
    "manual"."""

    def __init__(self, d_local: int, d: int, k: int = 5, normalise: bool = True):
        super().__init__(d_local, d, normalise)
        if k < 1:
            raise BadInput(f"k must be at least 1, got {k}.")
        self.k = k

    def pool(self, x, mask):
        return sorted_channels(x, mask)[:, : self.k].sum(1) / mask.sum(1, keepdim=True).clamp(max=self.k)


class SoftPool(_Pool):
    """Σ_l softmax_l(x) ⊙ x, channel by channel. Stergiou, Poppe & Kalliatakis, ICCV 2021."""

    def pool(self, x, mask):
        return (masked_softmax(x, mask[..., None], dim=1) * x).sum(1)


class AdaPool(_Pool):
    """β · Σ_l w_l x_l + (1 − β) · SoftPool, w = softmax_l of the Dice–Sørensen coefficient 2|x_l · x̄|/(‖x_l‖² +
    ‖x̄‖²), β learned in (0, 1).

    Source: Stergiou & Poppe, 2021 (AdaPool), with one β for all channels.
    """

    def __init__(self, d_local: int, d: int, normalise: bool = True):
        super().__init__(d_local, d, normalise)
        self.beta = nn.Parameter(torch.zeros(()))  # before the sigmoid

    def pool(self, x, mask):
        mean = masked_mean(x, mask[..., None], dim=1)[:, None]
        dice = 2 * (x * mean).sum(-1).abs() / (x.square().sum(-1) + mean.square().sum(-1)).clamp(min=1e-12)
        near = (masked_softmax(dice, mask)[..., None] * x).sum(1)
        beta = self.beta.sigmoid()
        return beta * near + (1 - beta) * (masked_softmax(x, mask[..., None], dim=1) * x).sum(1)


class LocalImportance(_Pool):
    """LIP: Σ_l softmax_l(G(x_l)) ⊙ x_l, channel by channel, G a linear layer. Gao, Wang & Wu, ICCV 2019."""

    def __init__(self, d_local: int, d: int, normalise: bool = True):
        super().__init__(d_local, d, normalise)
        self.importance = nn.Linear(d, d, bias=False)  # a bias would cancel

    def pool(self, x, mask):
        return (masked_softmax(self.importance(x), mask[..., None], dim=1) * x).sum(1)


class SelfAttention(_Pool):
    """One transformer encoder layer over the tokens (pre-norm, `heads` heads, feed-forward of 2d), then their mean."""

    def __init__(self, d_local: int, d: int, heads: int = 4, normalise: bool = True):
        super().__init__(d_local, d, normalise)
        if d % heads:
            raise BadInput(f"width {d} cannot be split between {heads} heads.")
        self.norm, self.attend = nn.LayerNorm(d), nn.MultiheadAttention(d, heads, batch_first=True)
        self.refine = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def pool(self, x, mask):
        y = self.norm(x)
        x = x + self.attend(y, y, y, key_padding_mask=~mask, need_weights=False)[0]
        return masked_mean(x + self.refine(x), mask[..., None], dim=1)


class SequenceEncoder(_Pool):
    """Seq2Seq: a bi-GRU reads the tokens in their order; the mean of the two final states."""

    def __init__(self, d_local: int, d: int, normalise: bool = True):
        super().__init__(d_local, d, normalise)
        self.rnn = nn.GRU(d, d, batch_first=True, bidirectional=True)

    def pool(self, x, mask):
        order = mask.byte().argsort(dim=1, descending=True, stable=True)  # real tokens first, in their order
        x = x.gather(1, order[..., None].expand_as(x))
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        return self.rnn(packed)[1].mean(0)


class GraphConvolution(_Pool):
    """GCN: x ← x + W_r(A x W_g) with A = softmax over real tokens of (x W_φ)(x W_θ)ᵀ, then the mean. After VSRN (Li et
    al., ICCV 2019)."""

    def __init__(self, d_local: int, d: int, normalise: bool = True):
        super().__init__(d_local, d, normalise)
        self.query, self.key = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.graph, self.out = nn.Linear(d, d, bias=False), nn.Linear(d, d)

    def pool(self, x, mask):
        edges = masked_softmax(self.query(x) @ self.key(x).transpose(1, 2), mask[:, None], dim=-1)
        return masked_mean(x + self.out(edges @ self.graph(x)), mask[..., None], dim=1)


AGGREGATORS = {
    "gpo": GPOHead, "mean": MeanPool, "max": MaxPool, "k-max": KMaxPool, "softpool": SoftPool, "adapool": AdaPool,
    "lip": LocalImportance, "self-attention": SelfAttention, "seq2seq": SequenceEncoder, "gcn": GraphConvolution,
}  # fmt: skip


def aggregator(name: str, d_local: int, d: int) -> nn.Module:
    """One of AGGREGATORS by name. Raises BadInput for another name.

    >>> import torch
    >>> aggregator("mean", 3, 2)(torch.rand(5, 4, 3)).x.shape
    torch.Size([5, 2])
    """
    require_choice("aggregator", name, AGGREGATORS)
    return AGGREGATORS[name](d_local, d)
