"""One vector per item: the encoder's global feature, or masked pooling of the local ones, from the mean to VSE+2AD's
adaptive pooling and what its Table 4 compares, of which there is no code by the authors."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_choice, require_flag, require_number
from xmr_core.base.recurrent import run_gru
from xmr_core.base.tensors import as_features, as_floats, global_of, masked_max, masked_mean, masked_softmax, xavier
from xmr_core.base.types import Embedding, Features
from xmr_core.heads.gpo import GPOHead, PoolingHead, sorted_channels

PADDING = ("masked", "official")
TOKEN_WEIGHTS = ("matrix", "scalar")
LEVELS = ("both", "token", "embedding")


class GlobalHead(nn.Module):
    """x = g/‖g‖₂ of the global feature. normalise=False leaves g as it is (VSE0); absolute=True takes |x| (order
    embedding).

    Shapes: global_feat "n d" → Embedding "n d". Raises: BadInput where there is no global feature.
    Source: Faghri et al., BMVC 2018 (VSE++).

    >>> import torch
    >>> GlobalHead()(torch.tensor([[3.0, 4.0]])).x
    tensor([[0.6000, 0.8000]])
    """

    def __init__(self, normalise: bool = True, absolute: bool = False):
        super().__init__()
        require_flag("normalise", normalise)
        require_flag("absolute", absolute)
        self.normalise, self.absolute = normalise, absolute

    def forward(self, features: Features | Tensor) -> Embedding:
        if not isinstance(features, Features):
            x = as_floats(features, "the global features", 2)
            features = as_features(x[:, None], global_feat=x)
        x = global_of(features, "this head reads the global feature")
        return Embedding(_finish(x, self.normalise, self.absolute))


class MeanPool(nn.Module):
    """x = W mean_l(x_l) + b over real local features, then L2-normalised.

    Args: projection: False leaves W and b out and needs d_local == d. normalise: False leaves the length as it is.
    Shapes: local_feats "n l d_local" → Embedding "n d".
    Raises: BadInput for projection=False with two widths, or an item without a real element.

    >>> import torch
    >>> MeanPool(2, 2, projection=False, normalise=False)(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])).x
    tensor([[2., 3.]])
    """

    def __init__(self, d_local: int, d: int, projection: bool = True, normalise: bool = True):
        super().__init__()
        if not projection and d_local != d:
            raise BadInput(f"without a projection the pooled width {d_local} must be the joint width, got d={d}.")
        self.project = nn.Linear(d_local, d) if projection else nn.Identity()
        self.d_local, self.normalise = d_local, normalise

    def forward(self, features: Features | Tensor, mask: Tensor | None = None) -> Embedding:
        features = as_features(features, mask, width=self.d_local)
        pooled = self._pool(features.local_feats, features.mask[..., None])  # n d_local
        return Embedding(_finish(self.project(pooled), self.normalise, absolute=False))

    def _pool(self, x: Tensor, mask: Tensor) -> Tensor:
        return masked_mean(x, mask, dim=1)


class MaxPool(MeanPool):
    """As MeanPool, with the largest value of each channel in place of the mean."""

    def _pool(self, x: Tensor, mask: Tensor) -> Tensor:
        return masked_max(x, mask, dim=1)


def _finish(x: Tensor, normalise: bool, absolute: bool) -> Tensor:
    x = F.normalize(x, dim=-1) if normalise else x
    return x.abs() if absolute else x


class AdaptivePoolHead(PoolingHead):
    """x = l2(ω_tok t_tok + ω_emb t_emb), on U = the tokens with every channel sorted, largest first.

        t_emb = Σ_k softmax_k(U) ⊙ U        t_tok = Σ_k θ_k ⊙ U_k,  θ = softmax over k of ReLU(U W + b)
        (ω_tok, ω_emb) = softmax(t_tok · w_b + b_b, t_emb · w_b + b_b)

    Args: d_local, d: widths; a linear layer joins them first where they differ. padding: 'masked', or 'official', where
        padded rows keep the logit ReLU(b) and so thin out the others (docs/differences.md#x-30). token_weights:
        'matrix' W "d d" with ReLU (the authors' code) or 'scalar' W "d 1" without (the paper,
        docs/differences.md#x-31). levels: 'both', or one of them alone (Table 3). balance: None to learn ω_tok; or, as
        in Table C-2, a fixed ω_tok in [0, 1], or 'random' for one drawn in [0, 1) when the head is made, and stored.
    Shapes: local_feats "n l d_local" → Embedding "n d".
    Raises: BadInput for an unknown choice, a balance outside [0, 1] or an item without a token.
    Source: Zhang, Shu et al., EACL 2023 (VSE+2AD), adaptive pooling; docs/methods/vse_2ad.md.

    >>> import torch
    >>> AdaptivePoolHead(3, 2)(torch.rand(5, 4, 3)).x.shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        d_local: int,
        d: int,
        padding: str = "masked",
        token_weights: str = "matrix",
        levels: str = "both",
        balance: float | str | None = None,
        normalise: bool = True,
    ):
        super().__init__(d_local, d, normalise)
        require_choice("padding", padding, PADDING)
        require_choice("token_weights", token_weights, TOKEN_WEIGHTS)
        require_choice("levels", levels, LEVELS)
        require_flag("normalise", normalise)
        if isinstance(balance, str):
            require_choice("balance", balance, ("random",))
        elif balance is not None and not 0 <= balance <= 1:
            raise BadInput(f"balance is the weight of the token level, in [0, 1], or None to learn it; got {balance}.")
        self.padding, self.token_weights, self.levels, self.fixed = padding, token_weights, levels, balance
        self.linear, self.balance = nn.Linear(d, d if token_weights == "matrix" else 1), nn.Linear(d, 1)
        xavier(self.linear)
        if balance == "random":  # a buffer: it is stored with the weights and never trained
            self.register_buffer("share", torch.rand(()))

    def pool(self, x: Float[Tensor, "n l d"], mask: Bool[Tensor, "n l"]) -> Float[Tensor, "n d"]:
        token, embedding, _, balance = self._parts(x, mask)
        return balance[:, :1] * token + balance[:, 1:] * embedding

    def parts(self, features: Features | Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(t_tok "n d", t_emb "n d", θ by rank "n l d", (ω_tok, ω_emb) "n 2"), for visualisation."""
        return self._parts(*self.joined(features, mask))

    def _parts(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        u = sorted_channels(x, mask)
        valid = (torch.arange(u.shape[1], device=u.device) < mask.sum(1, keepdim=True))[..., None]  # n l 1
        embedding = (masked_softmax(u, valid, dim=1) * u).sum(1)
        logits = self.linear(u).relu() if self.token_weights == "matrix" else self.linear(u)
        weights = logits.softmax(1) if self.padding == "official" else masked_softmax(logits, valid, dim=1)
        token = (weights * u).sum(1)
        return token, embedding, weights.expand_as(u), self._balance(token, embedding)

    def _balance(self, token: Tensor, embedding: Tensor) -> Float[Tensor, "n 2"]:
        if self.levels == "both" and self.fixed == "random":
            return torch.stack([self.share, 1 - self.share]).to(token.dtype).expand(len(token), 2)
        if self.levels != "both" or self.fixed is not None:
            share = {"both": self.fixed, "token": 1.0, "embedding": 0.0}[self.levels]
            return torch.cat([token.new_full((len(token), 1), each) for each in (share, 1 - share)], 1)
        return torch.cat([self.balance(token), self.balance(embedding)], 1).softmax(1)


class KMaxPool(PoolingHead):
    """The mean of the k largest values of each channel; of all of them where there are fewer. k = 5 is the paper's
    "manual"."""

    def __init__(self, d_local: int, d: int, k: int = 5, normalise: bool = True):
        super().__init__(d_local, d, normalise)
        require_number("k", k, low=1)
        self.k = k

    def pool(self, x, mask):
        return sorted_channels(x, mask)[:, : self.k].sum(1) / mask.sum(1, keepdim=True).clamp(max=self.k)


class SoftPool(PoolingHead):
    """Σ_l softmax_l(x) ⊙ x, channel by channel. Stergiou, Poppe & Kalliatakis, ICCV 2021."""

    def pool(self, x, mask):
        return (masked_softmax(x, mask[..., None], dim=1) * x).sum(1)


class AdaPool(PoolingHead):
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


class LocalImportance(PoolingHead):
    """LIP: Σ_l softmax_l(G(x_l)) ⊙ x_l, channel by channel, G a linear layer. Gao, Wang & Wu, ICCV 2019."""

    def __init__(self, d_local: int, d: int, normalise: bool = True):
        super().__init__(d_local, d, normalise)
        self.importance = nn.Linear(d, d, bias=False)  # a bias would cancel

    def pool(self, x, mask):
        return (masked_softmax(self.importance(x), mask[..., None], dim=1) * x).sum(1)


class SelfAttention(PoolingHead):
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


class SequenceEncoder(PoolingHead):
    """Seq2Seq: a bi-GRU reads the tokens in their order; the mean of the two final states."""

    def __init__(self, d_local: int, d: int, normalise: bool = True):
        super().__init__(d_local, d, normalise)
        self.rnn = nn.GRU(d, d, batch_first=True, bidirectional=True)

    def pool(self, x, mask):
        order = mask.byte().argsort(dim=1, descending=True, stable=True)  # real tokens first, in their order
        x = x.gather(1, order[..., None].expand_as(x))
        return run_gru(self.rnn, x, mask.gather(1, order))[1].mean(0)


class GraphConvolution(PoolingHead):
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
