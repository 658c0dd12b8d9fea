"""PCME's heads: where an item lies, and how sure of it one can be; with attention, or linear in few dimensions."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_choice, require_flag, require_number
from xmr_core.base.recurrent import at_last, run_gru
from xmr_core.base.tensors import as_features, global_of, masked_mean
from xmr_core.base.types import EmbeddingSet, Features, GaussianEmbedding
from xmr_core.heads.slots import PIENet, attended, attention_layers

SECOND = ("pooled", "gru", "global")
SPREADS = ("per dimension", "isotropic", "none")


class GaussianHead(nn.Module):
    """A mean by PIE-Net with one element, a log σ by a network of its own, and samples z = μ + σ ⊙ ε.

        μ = l2(LN(global + sigmoid(W attend(X) + b)));   log σ = U attend′(X) + c + second   (no sigmoid, no LayerNorm)

    Args: second: 'pooled' W₂ mean(X) + b₂ (images), 'gru' the last state of a second bi-GRU over X (captions), or
        'global' W₂ global + b₂ (the matched form, the same for both modalities). spread: 'per dimension'; 'isotropic',
        the mean of log σ in all dimensions; 'none', μ only: one sample, μ itself. squash: sigmoid and LayerNorm on log
        σ as on μ (an ablation of the paper). mean_attention, spread_attention: False leaves the local branch out, so
        that μ = l2(LN(global)) or log σ = second (Table D.3). samples: J, while training and in eval mode alike. seed:
        of ε in eval mode, where all items of a modality share one draw "j d": results then depend neither on the order
        nor on the grouping of items. log_std_start: a constant added to log σ; at the authors' 0 the samples start √d
        times as far from μ as μ from 0.
    Shapes: local_feats "n l d_local", global_feat "n d" → GaussianEmbedding.
    Raises: BadInput for J < 1, an unknown second or spread, an odd d with 'gru', or features without a global vector.
    Source: Chun et al., CVPR 2021 (PCME), §3.2–3.3; docs/methods/pcme.md.

    >>> import torch
    >>> GaussianHead(3, 2, samples=7)(torch.rand(5, 6, 3), global_feat=torch.rand(5, 2)).samples.shape
    torch.Size([5, 7, 2])
    """

    def __init__(
        self,
        d_local: int,
        d: int,
        second: str = "global",
        samples: int = 7,
        spread: str = "per dimension",
        squash: bool = False,
        seed: int = 0,
        d_hidden: int | None = None,
        log_std_start: float = 0.0,
        mean_attention: bool = True,
        spread_attention: bool = True,
    ):
        super().__init__()
        require_number("samples", samples, low=1, hint="PCME uses 7.")
        require_choice("second", second, SECOND)
        require_choice("spread", spread, SPREADS)
        require_flag("squash", squash)
        require_flag("mean_attention", mean_attention)
        require_flag("spread_attention", spread_attention)
        if second == "gru" and d % 2:
            raise BadInput(f"width {d} cannot be split between two directions; choose an even one.")
        require_number("log_std_start", log_std_start, low=-20, most=5, hint="It is a natural logarithm.")
        self.mean = PIENet(d_local, d, 1, d_hidden) if mean_attention else NormedGlobal(d)
        self.log_std_start = log_std_start
        self.samples, self.second, self.spread, self.squash, self.seed = samples, second, spread, squash, seed
        self.mean_attention, self.spread_attention = mean_attention, spread_attention
        if spread != "none":
            if spread_attention:
                self.w_1, self.w_2, self.fc = attention_layers(d_local, d, 1, d_hidden)
            if second == "gru":
                self.rnn = nn.GRU(d_local, d // 2, batch_first=True, bidirectional=True)
            else:
                self.fc2 = nn.Linear(d_local if second == "pooled" else d, d)
            self.norm = nn.LayerNorm(d) if squash else None

    def forward(
        self, features: Features | Tensor, mask: Tensor | None = None, global_feat: Tensor | None = None
    ) -> GaussianEmbedding:
        features = as_features(features, mask, global_feat)
        mean = self.mean(features).x[:, 0]
        if self.spread == "none":
            return GaussianEmbedding(mean, torch.full_like(mean, -torch.inf), mean[:, None])
        return _sampled(self, mean, self.log_std(features))

    def log_std(self, features: Features) -> Float[Tensor, "n d"]:
        """log σ; its mean over dimensions is the log of the geometric mean of σ, PCME's uncertainty of an item."""
        out = self._second(features)
        if self.spread_attention:
            x, attention = attended(self, features)
            local = self.fc((attention * x).sum(1))
            out = (local.sigmoid() if self.squash else local) + out
        out = self.norm(out) if self.squash else out
        out = out + self.log_std_start
        return out.mean(-1, keepdim=True).expand_as(out) if self.spread == "isotropic" else out

    def attention_maps(self, features: Features) -> tuple[Float[Tensor, "n l"], Float[Tensor, "n l"]]:
        """(what μ, what log σ attended to), each summing to 1 over an item's real elements, for visualisation. Raises
        BadInput without σ, or where one of the two attentions was left out."""
        if self.spread == "none" or not (self.mean_attention and self.spread_attention):
            raise BadInput("this head leaves an attention out, and there is none to show.")
        return self.mean(features).attention[:, 0], attended(self, features)[1].squeeze(-1)

    def _second(self, features: Features) -> Float[Tensor, "n d"]:
        x, mask = features.local_feats, features.mask
        if self.second == "gru":
            order = mask.byte().argsort(dim=1, descending=True, stable=True)  # real words first, in their order
            mask = mask.gather(1, order)
            return at_last(run_gru(self.rnn, x.gather(1, order[..., None].expand_as(x)), mask)[0], mask)
        return self.fc2(masked_mean(x, mask[..., None], dim=1) if self.second == "pooled" else features.global_feat)


class NormedGlobal(nn.Module):
    """LN(global) as a set of one element of unit length: the mean of a head whose local branch is left out.

    >>> import torch
    >>> g = torch.tensor([[1.0, 3.0]])
    >>> NormedGlobal(2)(Features(g[:, None], torch.ones(1, 1, dtype=torch.bool), g)).x.detach()
    tensor([[[-0.7071,  0.7071]]])
    """

    def __init__(self, d: int):
        super().__init__()
        self.layer_norm = nn.LayerNorm(d)

    def forward(self, features: Features) -> EmbeddingSet:
        x = self.layer_norm(global_of(features, "a mean without attention reads the global feature"))
        x = F.normalize(x, dim=-1).unsqueeze(1)
        return EmbeddingSet(x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device))


def noise_for(mean: Float[Tensor, "n d"], samples: int, seed: int | None) -> Tensor:
    """ε for J samples: "n j d" of its own for every item where seed is None (training), else one draw "j d" for all.

    >>> import torch
    >>> noise_for(torch.zeros(3, 2), 7, seed=0).shape
    torch.Size([7, 2])
    """
    shape = (samples, mean.shape[1])
    if seed is None:
        return torch.randn(len(mean), *shape, device=mean.device, dtype=mean.dtype)
    generator = torch.Generator().manual_seed(seed)  # on the CPU: every device draws the same
    return torch.randn(shape, generator=generator, dtype=torch.float32).to(mean)


def _sampled(head: nn.Module, mean: Float[Tensor, "n d"], log_std: Float[Tensor, "n d"]) -> GaussianEmbedding:
    noise = noise_for(mean, head.samples, None if head.training else head.seed)
    return GaussianEmbedding(mean, log_std, mean[:, None] + log_std.exp()[:, None] * noise)


def total_variance(items: GaussianEmbedding) -> Float[Tensor, " n"]:
    """Σ_d σ_d², ≥ 0: what PCME++ calls the uncertainty of an item (Chun, ICLR 2024, §4), and adds to its distances.

    >>> import torch
    >>> total_variance(GaussianEmbedding(mean=torch.zeros(1, 2), log_std=torch.zeros(1, 2)))
    tensor([2.])
    """
    return (2 * items.log_std).exp().sum(1)


# A distribution in few dimensions: PCME's heads without attention, as its two-dimensional pictures need them.


class LinearGaussianHead(nn.Module):
    """μ = W g + b,   log σ = W′ g + b′ + start: two projections of the global feature g, samples z = μ + σ ⊙ ε.

    μ has no fixed length: on the unit circle two dimensions would leave a single one.
    Args: d: width of g. out: width of μ and σ. samples, seed, log_std_start: as in GaussianHead.
    Shapes: global_feat "n d" → GaussianEmbedding "n out".
    Raises: BadInput for out or samples below 1, or features without a global vector.
    Source: Chun et al., CVPR 2021 (PCME), App. C.3 (two dimensions); docs/methods/pcme.md#pcme-plane.

    >>> import torch
    >>> LinearGaussianHead(3, 2)(torch.rand(5, 6, 3), global_feat=torch.rand(5, 3)).samples.shape
    torch.Size([5, 7, 2])
    """

    def __init__(self, d: int, out: int, samples: int = 7, seed: int = 0, log_std_start: float = 0.0):
        super().__init__()
        require_number("out", out, low=1)
        require_number("samples", samples, low=1)
        self.mean, self.spread = nn.Linear(d, out), nn.Linear(d, out)
        self.samples, self.seed, self.log_std_start = samples, seed, log_std_start

    def forward(
        self, features: Features | Tensor, mask: Tensor | None = None, global_feat: Tensor | None = None
    ) -> GaussianEmbedding:
        g = global_of(as_features(features, mask, global_feat), "this distribution reads the global feature")
        return _sampled(self, self.mean(g), self.spread(g) + self.log_std_start)
