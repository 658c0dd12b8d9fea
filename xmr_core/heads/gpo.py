"""VSE∞'s pooling, which learns how much the largest, second largest, … value counts, and PCME++'s head of two such
poolings."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_flag, require_number
from xmr_core.base.recurrent import run_gru
from xmr_core.base.tensors import as_features, masked_softmax, may_branch
from xmr_core.base.types import Embedding, Features, GaussianEmbedding


class PoolingHead(nn.Module):
    """Widths joined where they differ, pool(x "n l d" with zeros on padding, mask "n l") → "n d" of a subclass, and a
    division by the L2 norm unless normalise=False: local_feats "n l d_local" → Embedding "n d", blind to padding."""

    def __init__(self, d_local: int, d: int, normalise: bool = True):
        super().__init__()
        self.join = nn.Linear(d_local, d) if d_local != d else nn.Identity()
        self.d_local, self.normalise = d_local, normalise

    def forward(self, features: Features | Tensor, mask: Tensor | None = None) -> Embedding:
        pooled = self.pool(*self.joined(features, mask))
        return Embedding(F.normalize(pooled, dim=-1) if self.normalise else pooled)

    def joined(
        self, features: Features | Tensor, mask: Tensor | None = None
    ) -> tuple[Float[Tensor, "n l d"], Bool[Tensor, "n l"]]:
        """x and mask of `pool`; zeros before the layer too, because NaN there times a gradient of 0 would be NaN."""
        features = as_features(features, mask, width=self.d_local)
        mask = features.mask[..., None]
        x = self.join(torch.where(mask, features.local_feats, 0.0))
        return torch.where(mask, x, 0.0), features.mask


class GPOHead(PoolingHead):
    """x = l2(Σ_k θ_k F_(k)), F_(k) the k-th largest value of each channel.

    θ = softmax over k < length of w · h_k / temperature;   h = mean of both directions of a bi-GRU over the codes p_0 …
    p_{length−1}, p_k = (sin(k·10000^{−2i/d_pe}), cos(…)) interleaved

    θ depends on the number of tokens only, so padding has no say. Mean and max pooling are special cases.
    Args: d_local, d: widths; a linear layer joins them before pooling where they differ. d_pe, d_hidden: widths of code
        and GRU (32, 32). temperature: 0.1. normalise: False leaves the length as it is.
    Shapes: local_feats "n l d_local" → Embedding "n d". Raises: BadInput for an odd d_pe, a temperature
        that is not positive, or an item without a token.
    Source: Chen et al., CVPR 2021 (VSE∞), §4; docs/methods/vse_infty.md.

    >>> import torch
    >>> GPOHead(3, 2)(torch.rand(5, 4, 3)).x.shape
    torch.Size([5, 2])
    """

    def __init__(
        self, d_local: int, d: int, d_pe: int = 32, d_hidden: int = 32, temperature: float = 0.1, normalise: bool = True
    ):
        super().__init__(d_local, d, normalise)
        if d_pe % 2:
            raise BadInput(f"the width of the position code must be even, got {d_pe}.")
        require_number("temperature", temperature, above=0, hint="VSE∞ uses 0.1.")
        self.d_pe, self.temperature = d_pe, temperature
        self.gru = nn.GRU(d_pe, d_hidden, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(d_hidden, 1, bias=False)

    def pool(self, x: Float[Tensor, "n l d"], mask: Bool[Tensor, "n l"]) -> Float[Tensor, "n d"]:
        return (self.weights(mask)[..., None] * sorted_channels(x, mask)).sum(1)

    def weights(self, mask: Tensor) -> Float[Tensor, "n l"]:
        """θ of each item, by rank; 0 beyond its number of tokens. For visualisation."""
        lengths, most, item = mask.sum(1), mask.shape[1], slice(None)
        if mask.device.type == "cpu":  # elsewhere, how many lengths there are would have to be read
            lengths, item = lengths.unique(return_inverse=True)  # θ is the same for items of one length
        valid = torch.arange(most, device=mask.device) < lengths[:, None]
        states = run_gru(self.gru, self._codes(most).expand(len(lengths), -1, -1), valid)[0]
        scores = self.linear(states.unflatten(-1, (2, -1)).mean(-2)).squeeze(-1)
        return masked_softmax(scores / self.temperature, valid)[item]

    def _codes(self, most: int) -> Float[Tensor, "l p"]:
        weight = self.linear.weight
        rate = 10000.0 ** (-torch.arange(0, self.d_pe, 2, device=weight.device, dtype=weight.dtype) / self.d_pe)
        angle = torch.arange(most, device=weight.device, dtype=weight.dtype)[:, None] * rate
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def sorted_channels(x: Float[Tensor, "n l d"], mask: Tensor) -> Float[Tensor, "n l d"]:
    """Every channel of an item sorted by value, largest first; 0 beyond the item's number of tokens."""
    filled = torch.where(mask[..., None], x, -torch.inf)
    if may_branch(x) and x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        # numpy's uses vector instructions and is ten times as fast as torch's
        channels = filled.detach().transpose(1, 2).neg().contiguous().numpy()
        ordered = filled.gather(1, torch.from_numpy(np.argsort(channels, axis=2)).transpose(1, 2))
    else:
        ordered = filled.sort(dim=1, descending=True).values
    ranks = torch.arange(x.shape[1], device=x.device)
    return torch.where((ranks < mask.sum(1, keepdim=True))[..., None], ordered, 0.0)


# PCME++'s head: a mean and a variance per dimension, each pooled by an operator of its own.


class GaussianGPOHead(nn.Module):
    """μ = l2(GPO(W X + b)),   log σ² = GPO′(W′ X′ + b′), optionally LayerNorm(log σ²); X′ = X unless there is a branch.

    No sample is drawn: what compares such distributions has a closed form (similarities.DistanceLogit).
    Args: d_local, d: widths; both linear layers are there for equal widths too. log_variance_start: b′ at the start,
        which pooling adds to log σ² as it is. The released configuration has 0, where Σ σ² is near d and the logit of
        every pair near −10d; the authors' comments advise −4 or −10 (docs/differences.md#x-73). layer_norm: on log σ²,
        with weight 0.01 at the start; off in the released configuration.
    Shapes: local_feats "n l d_local" (spread_feats too, for log σ²) → GaussianEmbedding without samples.
    Raises: BadInput for a start that is no number, an item without a token.
    Source: Chun, ICLR 2024 (PCME++), §3.5, with the pooling of VSE∞; docs/methods/pcmepp.md.

    >>> out = GaussianGPOHead(3, 2)(torch.rand(5, 4, 3))
    >>> out.mean.shape, out.log_std.shape, out.samples
    (torch.Size([5, 2]), torch.Size([5, 2]), None)
    """

    def __init__(self, d_local: int, d: int, log_variance_start: float = -4.0, layer_norm: bool = False):
        super().__init__()
        require_number("log_variance_start", log_variance_start)
        require_flag("layer_norm", layer_norm)
        self.d_local = d_local
        self.mean_linear, self.mean_pool = nn.Linear(d_local, d), GPOHead(d, d)
        self.spread_linear, self.spread_pool = nn.Linear(d_local, d), GPOHead(d, d, normalise=False)
        nn.init.constant_(self.spread_linear.bias, log_variance_start)
        self.norm = nn.LayerNorm(d) if layer_norm else None
        if layer_norm:
            nn.init.constant_(self.norm.weight, 0.01)
            nn.init.constant_(self.norm.bias, log_variance_start)  # it would take the start of the linear layer away

    def forward(self, features: Features | Tensor, mask: Tensor | None = None) -> GaussianEmbedding:
        features = as_features(features, mask, width=self.d_local)
        mask, spread = features.mask[..., None], features.spread_feats
        x = torch.where(mask, features.local_feats, 0.0)
        mean = self.mean_pool(self.mean_linear(x), features.mask).x
        x = x if spread is None else torch.where(mask, spread, 0.0)
        log_variance = self.spread_pool(self.spread_linear(x), features.mask).x
        log_variance = log_variance if self.norm is None else self.norm(log_variance)
        return GaussianEmbedding(mean, log_variance / 2)
