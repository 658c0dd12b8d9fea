"""What a head reads, in the precision of its weights."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xmr_core.base.checks import require_flag
from xmr_core.base.coerce import as_features, as_floats, global_of
from xmr_core.base.errors import BadInput
from xmr_core.base.masked import masked_max, masked_mean, require_finite
from xmr_core.base.types import Embedding, Features


def features_for(
    layer: nn.Module,
    inputs: Features | Tensor,
    mask: Tensor | None = None,
    global_feat: Tensor | None = None,
    width: int | None = None,
) -> Features:
    """`as_features`, in the precision of the layer that reads the local features.

    Raises: BadInput as `as_features` and `require_precision`.

    >>> features_for(nn.Linear(3, 2), torch.rand(5, 4, 3), width=3).mask.shape
    torch.Size([5, 4])
    """
    features = as_features(inputs, mask, global_feat, width)
    require_precision(features.local_feats, layer)
    return features


def global_for(layer: nn.Module, features: Features, needs: str) -> Tensor:
    """`global_of`, for a head that adds it to what comes of the layer. Raises: BadInput also for doubles that the
    layer has not."""
    x = global_of(features, needs)
    if x.dtype == torch.float64:  # what is narrower than the other features is widened by the addition
        require_precision(x, layer)
    return x


def require_precision(x: Tensor, layer: nn.Module) -> None:
    """Raise BadInput where a matrix of the layer has another precision than x, and no autocast brings them together."""
    weight = next((p for p in layer.parameters() if p.ndim > 1), None)
    if weight is None or weight.dtype == x.dtype:
        return
    converts = torch.is_autocast_enabled(x.device.type) and torch.float64 not in (weight.dtype, x.dtype)
    if not converts:
        raise BadInput(
            f"the features are {x.dtype} and the weights of the head {weight.dtype}; take head.to({x.dtype}), or "
            "convert the features."
        )


# One vector per item: the encoder's global feature, or masked pooling of the local ones.


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
        features = features_for(self.project, features, mask, width=self.d_local)
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
