"""PCME++: normal distributions compared in closed form, and mixed samples. Mathematics: docs/methods/pcmepp.md."""

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Batch, Features, Pixels
from xmr_core.encoders.image import ResidualRegions
from xmr_core.encoders.pretrained import ClipImageBranches, ClipTextBranches
from xmr_core.heads.gpo import GaussianGPOHead
from xmr_core.losses.gaussian import mean_kl_to_normal, pseudo_positive_matching
from xmr_core.losses.objective import Objective
from xmr_core.methods.common import VSE_DROPS, MatchedOptions, gru, matched_encoders, matched_objective
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.similarities.gaussian import DistanceLogit


@dataclass(frozen=True)
class MixedSamples:
    """A batch in which some images are mixed with their partner, image B − 1 − i, by mixup or by CutMix.

        mixup    x_i ← λ x_i + (1 − λ) x_j
        CutMix   a rectangle of x_i, about 1 − λ of it, comes from x_j; λ becomes the share that was kept
        match    m_i ← λ m_i + (1 − λ) m_j   for all captions

    λ ~ Beta(c, c) for each image. Pixels and the cells of a square grid can be cut; other local features (regions) are
    mixed by mixup only. Captions stay as they are. All numbers come from torch's generator, as dropout's do, so a run
    that is continued draws what it would have drawn.
    Args: share: of the images that are mixed, in [0, 1]. concentration: c > 0. cut: share of the mixed images that
        CutMix makes, in [0, 1]. grid: False for regions, which are no grid even where their number is a square.
    Source: Chun, ICLR 2024 (PCME++), §3.4, with Zhang et al., ICLR 2018 (mixup) and Yun et al., ICCV 2019 (CutMix).

    >>> import numpy as np
    >>> rows = torch.arange(2)
    >>> batch = Batch(Pixels(torch.rand(2, 3, 8, 8)), None, torch.eye(2, dtype=torch.bool), rows, rows)
    >>> MixedSamples(share=1.0)(batch).match.sum(1)
    tensor([1., 1.])
    """

    share: float = 0.25
    concentration: float = 2.0
    cut: float = 0.5
    grid: bool = True

    def __call__(self, batch: Batch) -> Batch:
        if not self.share:
            return batch
        n, shape = len(batch.images), grid_shape(batch.images) if self.grid else None
        lam = torch.distributions.Beta(self.concentration, self.concentration).sample((n,))
        chance = torch.rand(n, 4)
        lam = torch.where(chance[:, 0] < self.share, lam, 1.0)
        boxes = drawn_boxes(lam, chance[:, 1], chance[:, 2], *shape) if shape else torch.zeros(n, 4, dtype=torch.long)
        cut = (chance[:, 3] < self.cut) & bool(shape)
        images, lam = mixed(batch.images, lam, cut, boxes)
        return replace(batch, images=images, match=mixed_degrees(batch.match, lam))


def mixed(
    images: Pixels | Features, lam: Float[Tensor, " n"], cut: Bool[Tensor, " n"], boxes: Int[Tensor, "n 4"] | None
) -> tuple[Pixels | Features, Float[Tensor, " n"]]:
    """(images mixed with their partners, the share that each kept). boxes: top, bottom, left, right of what CutMix
    takes from the partner, ends excluded; read where `cut`, and None where the images are no grid.

    Raises: BadInput for a cut through features that are no square grid.

    >>> images = Pixels(torch.tensor([0.0, 1.0])[:, None, None, None].expand(2, 3, 2, 2))
    >>> lam, cut = torch.tensor([0.6, 0.5]), torch.tensor([True, False])
    >>> out, shares = mixed(images, lam, cut, torch.tensor([[0, 1, 0, 2], [0, 0, 0, 0]]))
    >>> out.x[0, 0].tolist(), out.x[1, 0, 0].tolist(), shares.tolist()
    ([[1.0, 1.0], [0.0, 0.0]], [0.5, 0.5], [0.5, 0.5])
    """
    shape = grid_shape(images)
    if bool(cut.any()) and not shape:
        raise BadInput("CutMix needs pixels or a square grid of cells; set cut to 0 for regions.")
    if shape:
        height, width = shape
        rows, columns = torch.arange(height)[:, None], torch.arange(width)
        top, bottom, left, right = boxes.T[..., None, None]
        taken = cut[:, None, None] & (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
        lam = torch.where(cut, 1 - taken.float().mean((1, 2)), lam)
    # what a place keeps: all or nothing under CutMix, λ under mixup
    if isinstance(images, Pixels):
        keep = torch.where(cut[:, None, None], (~taken).float(), lam[:, None, None])[:, None]
        return Pixels(_blended(images.x, keep.to(images.x, non_blocking=True))), lam
    keep = lam[:, None].expand(-1, images.mask.shape[1])
    keep = torch.where(cut[:, None], (~taken).float().flatten(1), keep) if shape else keep
    keep = keep.to(images.mask.device, non_blocking=True)
    own, other = (keep > 0) & images.mask, (keep < 1) & images.mask.flip(0)
    keep = torch.where(own & other, keep.to(images.local_feats), own.to(images.local_feats))[..., None]
    local = torch.where(own[..., None], keep * images.local_feats, 0.0)
    local = local + torch.where(other[..., None], (1 - keep) * images.local_feats.flip(0), 0.0)
    g = images.global_feat
    pooled = None if g is None else _blended(g, lam.to(g, non_blocking=True)[:, None])
    return replace(images, local_feats=local, mask=own | other, global_feat=pooled), lam


def mixed_degrees(match: Tensor, lam: Float[Tensor, " n"]) -> Float[Tensor, "i t"]:
    """λ m_i + (1 − λ) m_j of every caption, j = B − 1 − i.

    >>> mixed_degrees(torch.eye(2, dtype=torch.bool), torch.tensor([0.75, 1.0])).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    match = match.float()
    return _blended(match, lam.to(match, non_blocking=True)[:, None])


def _blended(x: Tensor, share: Tensor) -> Tensor:
    return share * x + (1 - share) * x.flip(0)


def grid_shape(images: Pixels | Features) -> tuple[int, int] | None:
    """(height, width) of pixels or of a square grid of cells; None for other local features.

    >>> grid_shape(Features(torch.zeros(2, 9, 5), torch.ones(2, 9, dtype=torch.bool)))
    (3, 3)
    """
    if isinstance(images, Pixels):
        return tuple(images.x.shape[2:])
    side = math.isqrt(cells := images.mask.shape[1])
    return (side, side) if side * side == cells else None


def drawn_boxes(
    lam: Float[Tensor, " n"], down: Float[Tensor, " n"], across: Float[Tensor, " n"], height: int, width: int
) -> Int[Tensor, "n 4"]:
    """Rectangles of √(1 − λ) of either side around a centre, cut off at the edges: top, bottom, left, right.

    down, across: the centre as shares in [0, 1) of height and width.

    >>> drawn_boxes(torch.tensor([0.75]), torch.tensor([0.5]), torch.tensor([0.0]), 8, 8).tolist()
    [[2, 6, 0, 2]]
    """
    ratio = (1 - lam).sqrt()
    ends = []
    for centre, side in ((down, height), (across, width)):
        middle, half = (centre * side).long(), (ratio * side).long() // 2
        ends += [(middle - half).clamp(0, side), (middle + half).clamp(0, side)]
    return torch.stack(ends, 1)


_OBJECTIVES = ("matching", "infonce", "siglip")


@dataclass(frozen=True)
class PCMEPPOptions(MatchedOptions):
    """Options of PCME++. objective 'matching' is the paper's; the others take its place in the ablation of Table 1.
    From the released log_variance_start = 0 a run begins at logits near −10 d, on a pretrained CLIP. Untrained encoders
    learned nothing from −4 in eight epochs; the matched form begins at −10, the other start that the code advises."""

    distance: str = option("CSD", "closed-form distance of two distributions", choices=DistanceLogit.distances)
    objective: str = option("matching", "loss on the scores", choices=_OBJECTIVES, form="matched")
    margin: float = option(0.2, "margin of the hinge", above=0, form="matched")
    scale: float = option(5.0, "a of the match probability at the start", above=0)
    shift: float = option(5.0, "b of the match probability at the start")
    log_variance_start: float = option(-10.0, "log σ² at the start", least=-20, most=5)
    pseudo: float = option(0.1, "weight α of the pseudo-positives", least=0)
    smoothing: float = option(1e-4, "label smoothing ε", least=0, most=0.49)
    vib: float = option(1e-4, "weight β of the divergence from the standard normal", least=0)
    mix: float = option(0.25, "share of training images that are mixed with another", least=0, most=1)
    branch_blocks: int = option(1, "blocks of CLIP that σ has of its own", least=1, most=1000, form="published")


def _method(
    inputs: Inputs, o: PCMEPPOptions, image, text, widths: tuple[int, int], objective: str, most: float
) -> Method:
    heads = [GaussianGPOHead(width, o.d, o.log_variance_start) for width in widths]
    regularisers = {"vib": (o.vib, partial(mean_kl_to_normal, most=most))}
    if objective == "matching":
        loss = Objective(partial(pseudo_positive_matching, pseudo=o.pseudo, smoothing=o.smoothing), regularisers)
    else:
        loss = matched_objective(o, regularisers)
    mix = MixedSamples(o.mix, grid=inputs.ordered_cells) if o.mix else None
    return Method("pcme++", image, text, *heads, DistanceLogit(o.scale, o.shift, o.distance), loss, mix=mix)


def matched(inputs: Inputs, o: PCMEPPOptions) -> Method:
    """Both branches on the common encoders, with the paper's own loss, which asks every pair: that loss is what the
    paper is about."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local="states")
    return _method(inputs, o, image, text, (o.d, text.local_width), o.objective, float("inf"))


def published(inputs: Inputs, o: PCMEPPOptions) -> Method:
    """On a CLIP that is fine-tuned (image_network, text_network), as the author trained it. Where images are regions,
    or captions words, those go through VSE∞'s encoders, whose pooling it inherits; nothing was published on them."""
    if inputs.image_network:
        image = ClipImageBranches(inputs.image_network, o.branch_blocks)
        image_width = image.local_width
    else:
        image, image_width = ResidualRegions(inputs.image_width, o.d), o.d
    if inputs.text_network:
        text = ClipTextBranches(inputs.text_network, o.branch_blocks)
    else:
        text = gru(inputs, o.d, summary="average", local="states", dropout=0.0, init="uniform")
    return _method(inputs, o, image, text, (image_width, text.local_width), "matching", 1e4)


_SETTINGS = {
    "lr": 5e-4, "weight_decay": 1e-4, "epochs": 25, "decay_every": 15, "batch_images": 128, "positives": "annotated",
    **VSE_DROPS, "pretrained_lr": 0.01, "freeze_epochs": 2,
}  # fmt: skip
SPEC = MethodSpec(
    id="pcme++",
    label="PCME++",
    summary="A mean and a σ per dimension; the expected distance in closed form.",
    citation="Chun, ICLR 2024",
    options=PCMEPPOptions,
    matched=matched,
    published=published,
    published_options={"d": 1024, "log_variance_start": 0.0},
    settings={"coco": _SETTINGS},
)
