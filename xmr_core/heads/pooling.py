"""One vector per item: the encoder's global feature, or masked pooling of the local ones."""

import torch.nn.functional as F
from torch import nn

from xmr_core.errors import BadInput
from xmr_core.masked import masked_max, masked_mean
from xmr_core.types import Embedding, Features


class GlobalHead(nn.Module):
    """x = g/‖g‖₂ of the global feature. normalise=False leaves g as it is (VSE0); absolute=True takes |x| (order embedding).

    Shapes: global_feat "n d" → Embedding "n d". Raises: BadInput when the encoder gave no global feature.
    Source: Faghri et al., BMVC 2018 (VSE++).
    """

    def __init__(self, normalise: bool = True, absolute: bool = False):
        super().__init__()
        self.normalise, self.absolute = normalise, absolute

    def forward(self, features: Features) -> Embedding:
        if features.global_feat is None:
            raise BadInput("this head reads the global feature, but the encoder gave none. Use an encoder with one, or a pooling head.")
        return Embedding(_finish(features.global_feat, self.normalise, self.absolute))


class PoolHead(nn.Module):
    """x = W pool_l(x_l) + b over valid local features, then L2-normalised. pool: 'mean' or 'max'.

    Shapes: local_feats "n l d_local" → Embedding "n d". Raises: BadInput for another pool.
    """

    def __init__(self, d_local: int, d: int, pool: str = "mean", normalise: bool = True):
        super().__init__()
        if pool not in ("mean", "max"):
            raise BadInput(f"pool must be 'mean' or 'max', got {pool!r}.")
        self.pool = masked_mean if pool == "mean" else masked_max
        self.project = nn.Linear(d_local, d)
        self.normalise = normalise

    def forward(self, features: Features) -> Embedding:
        pooled = self.pool(features.local_feats, features.mask[..., None], dim=1)
        return Embedding(_finish(self.project(pooled), self.normalise, absolute=False))


def _finish(x, normalise: bool, absolute: bool):
    x = F.normalize(x, dim=-1) if normalise else x
    return x.abs() if absolute else x
