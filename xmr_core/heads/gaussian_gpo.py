"""PCME++'s head: a mean and a variance per dimension, each pooled by an operator of its own."""

import torch
from torch import Tensor, nn

from xmr_core.base.checks import require_flag, require_number
from xmr_core.base.types import Features, GaussianEmbedding
from xmr_core.heads.gpo import GPOHead
from xmr_core.heads.inputs import features_for


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
        features = features_for(self.mean_linear, features, mask, width=self.d_local)
        spread = features.local_feats if features.spread_feats is None else features.spread_feats
        mean, log_variance = (
            pool(linear(torch.where(features.mask[..., None], x, 0.0)), features.mask).x
            for x, linear, pool in (
                (features.local_feats, self.mean_linear, self.mean_pool),
                (spread, self.spread_linear, self.spread_pool),
            )
        )
        log_variance = log_variance if self.norm is None else self.norm(log_variance)
        return GaussianEmbedding(mean, log_variance / 2)
