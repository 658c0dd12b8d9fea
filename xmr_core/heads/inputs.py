"""What a head reads, in the precision of its weights."""

import torch
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.plain_tensors import as_features, global_of
from xmr_core.base.types import Features


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
