"""What happens to a distribution in the plane when its image is erased or mixed with another."""

import math

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.fit import read_squares
from xmr_core.base.types import GaussianEmbedding
from xmr_core.data.prepare import Prepared
from xmr_core.evaluation.analysis.corruption import erase_pixels
from xmr_core.evaluation.standard_errors import mean_error
from xmr_core.methods.method import Method

_GOLDEN = math.pi * (3 - math.sqrt(5))


def radius(level: float) -> float:
    """Radius of the region that holds `level` of a standard normal distribution in the plane: √(−2 ln(1 − level)).

    Raises: BadInput for a level outside (0, 1).

    >>> round(radius(0.5), 4)
    1.1774
    """
    if not 0 < level < 1:
        raise BadInput(f"the level of a region must lie between 0 and 1, got {level}.")
    return math.sqrt(-2 * math.log(1 - level))


def region_points(items: GaussianEmbedding, level: float = 0.5, points: int = 500) -> Float[Tensor, "n p 2"]:
    """Points spread evenly over the region of each item that holds `level` of its probability, an ellipse:

        z = μ + σ ⊙ radius · √((k + ½)/p) · (cos kφ, sin kφ),   φ the golden angle

    Raises: BadInput for distributions that are not in the plane.

    >>> item = GaussianEmbedding(torch.zeros(1, 2), torch.zeros(1, 2))
    >>> region_points(item, 0.5, points=50).norm(dim=-1).max() < radius(0.5)
    tensor(True)
    """
    if items.mean.shape[1] != 2:
        raise BadInput(f"regions are drawn in the plane; these distributions have width {items.mean.shape[1]}.")
    k = torch.arange(points, dtype=torch.float64)
    disc = ((k + 0.5) / points).sqrt()[:, None] * torch.stack([(k * _GOLDEN).cos(), (k * _GOLDEN).sin()], 1)
    return items.mean.double()[:, None] + radius(level) * items.log_std.double().exp()[:, None] * disc


def inside(points: Float[Tensor, "n p 2"], items: GaussianEmbedding, level: float = 0.5) -> Bool[Tensor, "n p"]:
    """Which points of row n lie in the region of item n: Σ ((z − μ)/σ)² ≤ radius²."""
    away = (points - items.mean.double()[:, None]) / items.log_std.double().exp()[:, None]
    return away.square().sum(-1) <= radius(level) ** 2


def share_inside(items: GaussianEmbedding, others: GaussianEmbedding, level: float = 0.5) -> Float[Tensor, " n"]:
    """Share of the region of each item that lies in the region of the other of its row: 1 for an inclusion.

    >>> small, large = (GaussianEmbedding(torch.zeros(1, 2), torch.full((1, 2), s)) for s in (-1.0, 0.0))
    >>> share_inside(small, large).item()
    1.0
    """
    return inside(region_points(items, level), others, level).double().mean(1)


def share_of_common(
    first: GaussianEmbedding, second: GaussianEmbedding, mixed: GaussianEmbedding, level: float = 0.5
) -> Float[Tensor, " n"]:
    """Share of the region that first and second have in common that lies in the region of `mixed`; NaN where they have
    nothing in common."""
    points = region_points(first, level)
    common = inside(points, second, level)
    return (common & inside(points, mixed, level)).sum(1) / common.sum(1)


def mix_halves(images: UInt8[np.ndarray, "n h w 3"]) -> UInt8[np.ndarray, "n h w 3"]:
    """Image n with its right half taken from image n + 1 (from the first for the last): CutMix with one half.

    >>> mix_halves(np.stack([np.zeros((1, 2, 3), np.uint8), np.ones((1, 2, 3), np.uint8)]))[:, 0, :, 0].tolist()
    [[0, 1], [1, 0]]
    """
    out = images.copy()
    half = images.shape[2] // 2
    out[:, :, half:] = np.roll(images, -1, axis=0)[:, :, half:]
    return out


def set_algebra(
    method: Method, prepared: Prepared, share: float = 0.25, images: int = 200, level: float = 0.5, seed: int = 0
) -> pd.DataFrame:
    """Inclusion by erasing and intersection by mixing, for the first test images: a row per image n.

    Columns: in_erased, share of the image's region in that of the image with `share` of its pixels erased; erased_in,
    the converse; in_mixed, share of what images n and n + 1 have in common in the region of their mixture
    (`mix_halves`); in_other, the same in the region of another pair's mixture; first_in_mixed and second_in_mixed,
    share of the entire region of image n, and of image n + 1, in that of their mixture, which is near 1 where the
    mixture is taken for that image. These four are NaN where the two images have nothing in common.
    Raises: BadInput for a corpus without pixels, or distributions that are not in the plane.
    Source: PCME, Figure 8; the rectangle, the halves and the level are our choice.
    """
    rows = prepared.splits["test"].first(images).image_rows
    if prepared.corpus.read_pixels is None:
        raise BadInput(f"{prepared.corpus.name} brings features and no images to be erased or mixed.")
    pixels = read_squares(prepared.corpus, rows, prepared.inputs.resolution, fit=prepared.fit)

    def encode(changed: np.ndarray) -> GaussianEmbedding:
        with torch.inference_mode():
            return method.encode_images(prepared.new_images(changed).to(method.device)).to("cpu")

    own, erased, mixed = encode(pixels), encode(erase_pixels(pixels, share, seed)), encode(mix_halves(pixels))
    order = torch.arange(len(rows))
    following, elsewhere = own[order.roll(-1)], mixed[order.roll(-(len(rows) // 2))]
    columns = {
        "in_erased": share_inside(own, erased, level),
        "erased_in": share_inside(erased, own, level),
        "in_mixed": share_of_common(own, following, mixed, level),
        "in_other": share_of_common(own, following, elsewhere, level),
        "first_in_mixed": share_inside(own, mixed, level),
        "second_in_mixed": share_inside(following, mixed, level),
    }
    table = pd.DataFrame({name: values.numpy() for name, values in columns.items()})
    common = table["in_mixed"].notna()
    return table.assign(**{name: table[name].where(common) for name in ("first_in_mixed", "second_in_mixed")})


def set_algebra_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Rows for Run.with_metrics: 'inclusion_by_erasing', mean of in_erased − erased_in, and 'intersection_by_mixing',
    mean of in_mixed − in_other (0 where no two images have anything in common), with standard errors.

    >>> table = pd.DataFrame({"in_erased": [1.0, 0.8], "erased_in": 0.5, "in_mixed": [0.5, np.nan], "in_other": 0.25})
    >>> set_algebra_rows(table)["value"].round(2).tolist()
    [0.4, 0.1, 0.25, 0.0]
    """
    rows = []
    for metric, this, that in (
        ("inclusion_by_erasing", "in_erased", "erased_in"),
        ("intersection_by_mixing", "in_mixed", "in_other"),
    ):
        gain = (table[this] - table[that]).dropna()
        error = mean_error(gain.to_numpy()) if len(gain) > 1 else 0.0
        rows += [(metric, float(gain.mean()) if len(gain) else 0.0, len(gain)), (f"{metric}_error", error, len(gain))]
    out = pd.DataFrame(rows, columns=["metric", "value", "n_queries"])
    return out.assign(relevance="", direction="images", k=0)
