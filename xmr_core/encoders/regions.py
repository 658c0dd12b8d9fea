"""Encoders of detected regions as SCAN, SGRAF, VSE∞ and CHAN have them."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from xmr_core.base.errors import BadInput
from xmr_core.base.masked import masked_mean
from xmr_core.base.types import Features
from xmr_core.encoders.image import checked, xavier


class LinearRegions(nn.Module):
    """local = W x + b,   global = mean over valid regions of local. W starts Xavier-uniform ±√(6/(in + out)), b = 0.

    Args: scalar_norm: W = g V/‖V‖_F with one learned number g (an option of the authors), from torch's own start.
    Shapes: local_feats "n l d_in" → Features(local_feats "n l d", global_feat "n d"). Raises: BadInput for another
    width.
    Source: Lee et al., ECCV 2018 (SCAN); the same in SGRAF.

    >>> regions = Features(torch.zeros(2, 3, 5), torch.ones(2, 3, dtype=torch.bool))
    >>> LinearRegions(5, 8)(regions).local_feats.shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, d_in: int, d: int, scalar_norm: bool = False):
        super().__init__()
        self.fc = nn.Linear(d_in, d)
        self.fc = weight_norm(self.fc, dim=None) if scalar_norm else xavier(self.fc)

    def forward(self, features: Features) -> Features:
        local = self.fc(checked(features, self.fc.in_features))
        return Features(local, features.mask, masked_mean(local, features.mask[..., None], dim=1))


class ResidualRegions(nn.Module):
    """VSE∞'s encoder: local = W x + b + MLP(x),   MLP: d_in → d/2, BatchNorm over all rows, ReLU, d/2 → d.

    BatchNorm reads padded rows too, as in the authors' code, where they are zeros; so they are set to zero here.
    Without mlp ('backbone' features) only the linear part remains.
    Shapes: as LinearRegions. Raises: BadInput for an odd d, or features of another width.
    Source: Chen et al., CVPR 2021 (VSE∞); their checkpoints hold a second BatchNorm, which is never applied.

    >>> regions = Features(torch.zeros(2, 3, 5), torch.ones(2, 3, dtype=torch.bool))
    >>> ResidualRegions(5, 8)(regions).global_feat.shape
    torch.Size([2, 8])
    """

    def __init__(self, d_in: int, d: int, mlp: bool = True):
        super().__init__()
        if d % 2:
            raise BadInput(f"width {d} cannot be halved; choose an even one.")
        self.fc = xavier(nn.Linear(d_in, d))
        self.mlp = nn.ModuleList([nn.Linear(d_in, d // 2), nn.Linear(d // 2, d)]) if mlp else None
        self.norm = nn.BatchNorm1d(d // 2) if mlp else None

    def forward(self, features: Features) -> Features:
        x = torch.where(features.mask[..., None], checked(features, self.fc.in_features), 0.0)
        local = self.fc(x)
        if self.mlp is not None:
            hidden = self.mlp[0](x)
            local = local + self.mlp[1](self.norm(hidden.flatten(0, 1)).view_as(hidden).relu())
        return Features(local, features.mask, masked_mean(local, features.mask[..., None], dim=1))


class SelfAttentionRegions(nn.Module):
    """CHAN's encoder: y = W x + b,   local = y + MHA(LN(y)),   global = mean over valid regions of local.

    MHA is self-attention of `heads` heads among the real regions of one image. The authors' code attends to padding and
    to dropped regions too (docs/differences.md#x-88). W starts Xavier-uniform, b = 0; MHA and LN as torch's own.
    Args: d_in, d: widths. heads: of the attention, a divisor of d.
    Shapes: as LinearRegions. Raises: BadInput for heads that do not divide d, or features of another width.
    Source: Pan et al., CVPR 2023 (CHAN), the bi-GRU models.

    >>> regions = Features(torch.zeros(2, 3, 5), torch.ones(2, 3, dtype=torch.bool))
    >>> SelfAttentionRegions(5, 8)(regions).local_feats.shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, d_in: int, d: int, heads: int = 8):
        super().__init__()
        if heads < 1 or d % heads:
            raise BadInput(
                f"width {d} cannot be split between {heads} heads of attention; choose a multiple of {heads}."
            )
        self.fc, self.norm = xavier(nn.Linear(d_in, d)), nn.LayerNorm(d)
        self.attention = nn.MultiheadAttention(d, heads, batch_first=True)

    def forward(self, features: Features) -> Features:
        y = self.fc(torch.where(features.mask[..., None], checked(features, self.fc.in_features), 0.0))
        z = self.norm(y)
        local = y + self.attention(z, z, z, key_padding_mask=~features.mask, need_weights=False)[0]
        return Features(local, features.mask, masked_mean(local, features.mask[..., None], dim=1))
