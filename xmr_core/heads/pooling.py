"""One vector per item: the encoder's global feature, or masked pooling of the local ones."""

import torch.nn.functional as F
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_flag
from xmr_core.base.tensors import as_features, as_floats, global_of, masked_max, masked_mean, require_finite
from xmr_core.base.types import Embedding, Features


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
        if isinstance(features, Features):
            x = global_of(features, "this head reads the global feature")
        else:
            require_finite(x := as_floats(features, "the global features", 2))
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
