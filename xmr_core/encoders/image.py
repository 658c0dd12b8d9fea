"""Image encoders that learn: projections of frozen local features and of detected regions, and a small CNN on
pixels."""

import itertools

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.tensors import masked_max, masked_mean, may_branch, require_elements, xavier
from xmr_core.base.types import Features, Pixels


class GridEncoder(nn.Module):
    """The study's own encoder, which all matched methods share: project, add the place, refine, pool.

        y = W x + b + p_l,   local = y + MLP(LayerNorm(y)),   global = mean over valid cells of local (+ U dropout(g) +
        c)

    p_l is a learned vector for each cell, because the features of a cell do not say where it is. MLP is d → d → d with
    GELU and dropout. g is a frozen global vector, if the features bring one. In training, columns of dropped cells are
    left out, on a CPU, as far as every image of the batch has them to spare: dropping half the cells halves the work.

    Args: d_in: width of the frozen features. d: joint width. cells: cells of an image, or 0 for unordered regions,
        which have no p_l. d_global: width of g, 0 for none.
    Shapes: local_feats "n l d_in", global_feat "n d_global" → Features(local_feats "n l d", global_feat "n d"), same
        mask (except for the columns left out).
    Raises: BadInput for another number of cells, features of other widths, an empty image or numbers that are not
    finite.

    >>> grid = Features(torch.zeros(2, 9, 5), torch.ones(2, 9, dtype=torch.bool))
    >>> GridEncoder(5, 8, cells=9)(grid).global_feat.shape
    torch.Size([2, 8])
    """

    def __init__(self, d_in: int, d: int, cells: int = 0, dropout: float = 0.1, d_global: int = 0):
        super().__init__()
        self.project = nn.Linear(d_in, d)
        self.place = nn.Parameter(0.02 * torch.randn(cells, d)) if cells else None
        self.refine = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Dropout(dropout), nn.Linear(d, d))
        self.project_global = nn.Sequential(nn.Dropout(dropout), nn.Linear(d_global, d)) if d_global else None

    def forward(self, features: Features) -> Features:
        added = self._projected_global(features)
        cells, place = features.local_feats.shape[1], self.place
        if place is not None and cells != len(place):
            raise BadInput(f"this encoder was made for {len(place)} cells an image, got {cells}.")
        # on a device, how many are left would have to be read
        if self.training and may_branch(features.mask) and (most := int(features.mask.sum(1).max())) < cells:
            columns = features.mask.byte().argsort(dim=1, descending=True, stable=True)[:, :most]  # n most
            features = Features(
                features.local_feats.gather(1, columns[..., None].expand(-1, -1, features.local_feats.shape[-1])),
                features.mask.gather(1, columns),
            )
            place = place if place is None else place[columns]
        y = self.project(checked(features, self.project.in_features))
        y = y if place is None else y + place
        local = y + self.refine(y)
        return Features(local, features.mask, masked_mean(local, features.mask[..., None], dim=1) + added)

    def _projected_global(self, features: Features) -> Tensor | float:
        """U dropout(g) + c, or 0 without g. Raises: BadInput unless g has the width that the encoder was made for."""
        g, width = features.global_feat, 0 if self.project_global is None else self.project_global[1].in_features
        if (given_width := 0 if g is None else g.shape[-1]) != width:
            raise BadInput(f"this image encoder reads a global vector of width {width}, got {given_width}.")
        return 0.0 if g is None else self.project_global(g.to(self.project.weight.dtype))


class RegionEncoder(nn.Module):
    """DivE's encoder of detected regions.

        y = W x + b,   local = dropout(MLP(y) + y),   global = max (or mean) over valid regions of local

    MLP is d → d/2, BatchNorm over all rows (padded rows included, as in the authors' code), ReLU, d/2 → d.

    Shapes: local_feats "n l d_in" → Features(local_feats "n l d", global_feat "n d"). Raises: BadInput for another
    pool.
    Source: Kim, Kim & Kwak, CVPR 2023 (DivE), "following VSE∞", but on the projected y, not on x
        (docs/differences.md#x-40). The authors run the encoder twice in each step, for local and for global, with
        independent dropout (docs/differences.md#x-41); here it runs once.

    >>> regions = Features(torch.zeros(2, 3, 5), torch.ones(2, 3, dtype=torch.bool))
    >>> RegionEncoder(5, 8, pool="mean")(regions).local_feats.shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, d_in: int, d: int, dropout: float = 0.1, pool: str = "max"):
        super().__init__()
        require_choice("pool", pool, ("max", "mean"))
        self.fc = nn.Linear(d_in, d)
        self.fc1, self.norm, self.fc2 = nn.Linear(d, d // 2), nn.BatchNorm1d(d // 2), nn.Linear(d // 2, d)
        self.dropout = nn.Dropout(dropout)
        self.pool = masked_max if pool == "max" else masked_mean

    def forward(self, features: Features) -> Features:
        y = self.fc(checked(features, self.fc.in_features))
        n, l, _ = y.shape
        hidden = self.norm(self.fc1(y).flatten(0, 1)).view(n, l, -1).relu()
        local = self.dropout(self.fc2(hidden) + y)
        return Features(local, features.mask, self.pool(local, features.mask[..., None], dim=1))


class PooledEncoder(nn.Module):
    """VSE++ and PVSE: the frozen cells as they are, and one projected vector for the image.

        local = x,   global = dropout(W mean_l(x) + b)

    normalise_input (VSE++): the mean is first divided by its L2 norm. init: 'xavier' (VSE++: uniform ±√(6/(in+out)),
    zero bias) or 'torch' (PVSE, whose Xavier routine is never called; docs/differences.md#x-56).
    Shapes: local_feats "n l d_in" → Features(local_feats "n l d_in", global_feat "n d"). Raises: BadInput for another
        init or width.
    Source: Faghri et al., BMVC 2018; Song & Soleymani, CVPR 2019.

    >>> cells = Features(torch.zeros(2, 9, 5), torch.ones(2, 9, dtype=torch.bool))
    >>> PooledEncoder(5, 8, init="xavier")(cells).global_feat.tolist() == [[0.0] * 8] * 2
    True
    """

    def __init__(self, d_in: int, d: int, normalise_input: bool = False, dropout: float = 0.0, init: str = "torch"):
        super().__init__()
        require_choice("init", init, ("xavier", "torch"))
        self.fc = xavier(nn.Linear(d_in, d)) if init == "xavier" else nn.Linear(d_in, d)
        self.normalise_input = normalise_input
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Features) -> Features:
        x = checked(features, self.fc.in_features)
        pooled = masked_mean(x, features.mask[..., None], dim=1)
        if self.normalise_input:
            pooled = nn.functional.normalize(pooled, dim=-1)
        return Features(x, features.mask, self.dropout(self.fc(pooled)))


class SmallCNN(nn.Module):
    """A CNN that learns from pixels: three strided 3 × 3 convolutions (GroupNorm, GELU), then a GridEncoder on the
    cells.

    Images of 64 pixels give 8 × 8 cells. It has about 0.3 M parameters at d = 128, and no pretrained weights.

    Shapes: Pixels x "n 3 h w" in [0, 1] → Features(local_feats "n l d", global_feat "n d") with l = (h/8)·(w/8).

    >>> SmallCNN(16, resolution=32)(Pixels(torch.zeros(2, 3, 32, 32))).local_feats.shape
    torch.Size([2, 16, 16])
    """

    def __init__(self, d: int, resolution: int = 64, channels: int = 32, dropout: float = 0.1):
        super().__init__()
        widths = [3, channels, 2 * channels, 4 * channels]
        blocks = []
        for c_in, c_out in itertools.pairwise(widths):
            blocks += [nn.Conv2d(c_in, c_out, 3, stride=2, padding=1), nn.GroupNorm(8, c_out), nn.GELU()]
        self.convolutions = nn.Sequential(*blocks)
        self.cells = GridEncoder(widths[-1], d, cells=(resolution // 8) ** 2, dropout=dropout)

    def forward(self, pixels: Pixels) -> Features:
        x = self.convolutions(2 * pixels.x - 1).flatten(2).transpose(1, 2)  # n l c
        return self.cells(Features(x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)))


def checked(features: Features, width: int) -> Float[Tensor, "n l e"]:
    """Local features in the parameters' precision.

    Raises: BadInput for another width, an empty image, or numbers that are not finite.
    """
    x = features.local_feats
    require_elements(x, features.mask, width, "image")
    return x.float() if x.dtype == torch.float16 else x


# Encoders of detected regions as SCAN, SGRAF, VSE∞ and CHAN have them.


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
    Shapes: as LinearRegions. Raises: BadInput for features of another width.
    Source: Chen et al., CVPR 2021 (VSE∞); their checkpoints hold a second BatchNorm, which is never applied.

    >>> regions = Features(torch.zeros(2, 3, 5), torch.ones(2, 3, dtype=torch.bool))
    >>> ResidualRegions(5, 8)(regions).global_feat.shape
    torch.Size([2, 8])
    """

    def __init__(self, d_in: int, d: int, mlp: bool = True):
        super().__init__()
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
    Shapes: as LinearRegions. Raises: BadInput for features of another width.
    Source: Pan et al., CVPR 2023 (CHAN), the bi-GRU models.

    >>> regions = Features(torch.zeros(2, 3, 5), torch.ones(2, 3, dtype=torch.bool))
    >>> SelfAttentionRegions(5, 8)(regions).local_feats.shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, d_in: int, d: int, heads: int = 8):
        super().__init__()
        self.fc, self.norm = xavier(nn.Linear(d_in, d)), nn.LayerNorm(d)
        self.attention = nn.MultiheadAttention(d, heads, batch_first=True)

    def forward(self, features: Features) -> Features:
        y = self.fc(torch.where(features.mask[..., None], checked(features, self.fc.in_features), 0.0))
        z = self.norm(y)
        local = y + self.attention(z, z, z, key_padding_mask=~features.mask, need_weights=False)[0]
        return Features(local, features.mask, masked_mean(local, features.mask[..., None], dim=1))
