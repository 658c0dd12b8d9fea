"""A distribution in few dimensions: PCME's heads without attention, as its two-dimensional pictures need them."""

from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.plain_tensors import as_features, global_of
from xmr_core.base.types import Features, GaussianEmbedding
from xmr_core.heads.gaussian import noise_for
from xmr_core.heads.inputs import require_precision


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
        for name, value in (("out", out), ("samples", samples)):
            if value < 1:
                raise BadInput(f"{name} must be at least 1, got {value}.")
        self.mean, self.spread = nn.Linear(d, out), nn.Linear(d, out)
        self.samples, self.seed, self.log_std_start = samples, seed, log_std_start

    def forward(
        self, features: Features | Tensor, mask: Tensor | None = None, global_feat: Tensor | None = None
    ) -> GaussianEmbedding:
        g = global_of(
            as_features(features, mask, global_feat), "a distribution in few dimensions reads the global feature"
        )
        require_precision(g, self.mean)
        mean, log_std = self.mean(g), self.spread(g) + self.log_std_start
        noise = noise_for(mean, self.samples, None if self.training else self.seed)
        return GaussianEmbedding(mean, log_std, mean[:, None] + log_std.exp()[:, None] * noise)
