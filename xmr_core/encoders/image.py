"""Trainable image encoders on frozen local features: projections of grid cells or regions to the joint width."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.masked import masked_max, masked_mean, require_elements
from xmr_core.base.types import Features


class GridEncoder(nn.Module):
    """The study's own encoder, the same for every matched method: project, add place, refine, pool.

        y = W x + b + p_l,   local = y + MLP(LayerNorm(y)),   global = mean over valid cells of local (+ U dropout(g) + c)

    p_l is a learned vector per cell (a cell vector does not know where it is; relations need it). MLP is d → d → d with
    GELU and dropout. g is a frozen vector of the whole picture, where the features bring one.

    Args: d_in: width of the frozen features. d: joint width. cells: how many cells a picture has, or 0 for unordered
        regions, which then get no p_l. whole: width of g, 0 for none.
    Shapes: local_feats "n l d_in", global_feat "n whole" → Features(local_feats "n l d", global_feat "n d"), mask kept. In training, columns are
        left out as far as every picture of the batch has dropped cells to spare, because nothing right of here looks at
        them: dropping half the cells halves the work.
    """

    def __init__(self, d_in: int, d: int, cells: int = 0, dropout: float = 0.1, whole: int = 0):
        super().__init__()
        self.project = nn.Linear(d_in, d)
        self.place = nn.Parameter(0.02 * torch.randn(cells, d)) if cells else None
        self.refine = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Dropout(dropout), nn.Linear(d, d))
        self.whole = nn.Sequential(nn.Dropout(dropout), nn.Linear(whole, d)) if whole else None

    def forward(self, features: Features) -> Features:
        whole = self._whole(features)
        cells, place = features.local_feats.shape[1], self.place
        if place is not None and cells != len(place):
            raise BadInput(f"this encoder was made for {len(place)} cells a picture, got {cells}.")
        if self.training and (most := int(features.mask.sum(1).max())) < cells:
            kept = features.mask.byte().argsort(dim=1, descending=True, stable=True)[:, :most]  # n most
            features = Features(
                features.local_feats.gather(1, kept[..., None].expand(-1, -1, features.local_feats.shape[-1])),
                features.mask.gather(1, kept),
            )
            place = place if place is None else place[kept]
        y = self.project(checked(features, self.project.in_features))
        y = y if place is None else y + place
        local = y + self.refine(y)
        return Features(local, features.mask, masked_mean(local, features.mask[..., None], dim=1) + whole)

    def _whole(self, features: Features) -> Tensor | float:
        """U dropout(g) + c, or 0 without g. Raises BadInput unless the features bring what the encoder was made for."""
        g, width = features.global_feat, 0 if self.whole is None else self.whole[1].in_features
        given = 0 if g is None else g.shape[-1]
        if given != width:
            raise BadInput(
                f"this image encoder reads a vector of width {width} of the whole picture, got {given}. Use the features it was trained on."
            )
        return 0.0 if g is None else self.whole(g.to(self.project.weight.dtype))


class RegionEncoder(nn.Module):
    """DivE's encoder of detected regions.

        y = W x + b,   local = dropout(MLP(y) + y),   global = max (or mean) over valid regions of local

    MLP is d → d/2, BatchNorm over all rows (padded rows included, as the authors do), ReLU, d/2 → d.

    Source: Kim, Kim & Kwak, CVPR 2023 (DivE), "following VSE∞", but on the projected y, not on x (X-40). The authors run
    the encoder twice per step, once for local and once for global, with independent dropout (X-41); this runs it once.
    """

    def __init__(self, d_in: int, d: int, dropout: float = 0.1, pool: str = "max"):
        super().__init__()
        if pool not in ("max", "mean"):
            raise BadInput(f"pool must be 'max' or 'mean', got {pool!r}.")
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
    """VSE++ and PVSE: the frozen cells as they are, and one projected vector for the whole picture.

        local = x,   global = dropout(W mean_l(x) + b)

    normalise_input (VSE++): the mean is divided by its L2 norm first. init: 'xavier' (VSE++: uniform ±√(6/(in+out)), zero
    bias) or 'torch' (PVSE: an Xavier routine exists there but is never called, X-56).
    Source: Faghri et al., BMVC 2018; Song & Soleymani, CVPR 2019.
    """

    def __init__(self, d_in: int, d: int, normalise_input: bool = False, dropout: float = 0.0, init: str = "torch"):
        super().__init__()
        self.fc = nn.Linear(d_in, d)
        if init == "xavier":
            nn.init.xavier_uniform_(self.fc.weight)
            nn.init.zeros_(self.fc.bias)
        elif init != "torch":
            raise BadInput(f"init must be 'xavier' or 'torch', got {init!r}.")
        self.normalise_input = normalise_input
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Features) -> Features:
        x = checked(features, self.fc.in_features)
        pooled = masked_mean(x, features.mask[..., None], dim=1)
        if self.normalise_input:
            pooled = nn.functional.normalize(pooled, dim=-1)
        return Features(x, features.mask, self.dropout(self.fc(pooled)))


def checked(features: Features, width: int) -> Float[Tensor, "n l e"]:
    """Local features in the parameters' precision. Raises BadInput for another width, an empty picture or numbers that are not finite."""
    x = features.local_feats
    require_elements(x, features.mask, width, "picture")
    return x.float() if x.dtype == torch.float16 else x
