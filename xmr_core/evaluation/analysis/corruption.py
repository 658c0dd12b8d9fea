"""Inputs made less informative on purpose: pixels erased, words replaced; and what then becomes of distributions in the
plane."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from xmr_core.base.errors import BadInput, require_number
from xmr_core.base.types import GaussianEmbedding, Tokens
from xmr_core.data.batches import SPECIAL, UNKNOWN_ID
from xmr_core.data.prepare import Prepared
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.evaluation.stats import bootstrap_interval
from xmr_core.features.images import read_squares
from xmr_core.methods.method import Method

GREY = 128


def erase_pixels(images: UInt8[np.ndarray, "n h w 3"], share: float, seed: int = 0) -> UInt8[np.ndarray, "n h w 3"]:
    """A copy in which one rectangle of `share` of each image's area, at a random place, is grey.

    Places depend on the seed alone, so a larger share erases around the same relative place.
    Raises: BadInput for a share outside [0, 1].
    Source: PCME, Figure 7, erases one region of growing size; its shape and the grey are our choice.

    >>> erased = erase_pixels(np.zeros((1, 8, 8, 3), np.uint8), 0.25)
    >>> int((erased == GREY).all(-1).sum())
    16
    """
    require_number("share", share, low=0, most=1)
    out = images.copy()
    height, width = images.shape[1:3]
    h, w = round(height * share**0.5), round(width * share**0.5)
    for image, (down, across) in zip(out, np.random.default_rng(seed).random((len(out), 2)), strict=True):
        top, left = round(down * (height - h)), round(across * (width - w))
        image[top : top + h, left : left + w] = GREY
    return out


def blank_words(
    captions: Tokens, share: float, seed: int = 0, special: tuple[int, ...] = SPECIAL, unknown_id: int = UNKNOWN_ID
) -> Tokens:
    """A copy in which ⌊share · n + ½⌋ of the n words of each caption, drawn at random, are the unknown word.

    The seed gives one order of words per caption, so a larger share blanks the same words and more. special: numbers
    that are not words. Raises: BadInput for a share outside [0, 1]. Source: PCME, Figure 7.

    >>> blank_words(Tokens(torch.tensor([[1, 10, 11, 2]]), torch.ones(1, 4, dtype=torch.bool)), 1.0).ids.tolist()
    [[1, 3, 3, 2]]
    """
    require_number("share", share, low=0, most=1)
    ids = captions.ids.numpy()
    word = captions.mask.numpy() & ~np.isin(ids, special)
    order = np.where(word, np.random.default_rng(seed).random(ids.shape), 2.0)
    blank = word & (order.argsort(1).argsort(1) < np.floor(share * word.sum(1, keepdims=True) + 0.5))
    return Tokens(torch.from_numpy(np.where(blank, unknown_id, ids)), captions.mask)


def corrupted_uncertainty(
    method: Method, prepared: Prepared, shares: Sequence[float], images: int = 200, seed: int = 0
) -> pd.DataFrame:
    """Mean uncertainty of the first test images with a share of their pixels erased, and of their captions with a share
    of their words blanked.

    Args: images: how many images. The method should be in evaluation mode.
    Returns: columns side ('images', 'captions'), share, value, low, high (95 % over resampled images), and rise, rise
        low, rise high: the mean of what each item gained since the first share, with its interval.
    Raises: BadInput for captions that are not word numbers or a tokeniser without an unknown word, for images that
        cannot be encoded anew (region features), and as `uncertainty` does. Source: PCME, Figures 7 and F.1.
    """
    split, device = prepared.splits["test"].first(images), method.device
    texts, pieces = split.captions_at(np.arange(len(split.caption_rows))), prepared.pieces
    if not isinstance(texts, Tokens) or (pieces and pieces.mask < 0):
        raise BadInput("only captions as word numbers can be blanked: leave text_model empty, or fine-tune it.")
    words = {"special": pieces.special, "unknown_id": pieces.mask} if pieces else {}
    pixels = np.zeros((0, 0, 0, 3), np.uint8)
    if prepared.corpus.read_pixels is not None:
        pixels = read_squares(prepared.corpus, split.image_rows, prepared.inputs.resolution, fit=prepared.fit)
    owners = {"images": np.arange(len(split.image_rows)), "captions": split.relevance.indices}
    rows, first = [], {}
    for share in shares:
        erased = prepared.new_images(erase_pixels(pixels, share, seed))
        with torch.inference_mode():
            encoded = method.encode_images(erased.to(device)).to("cpu")
            captions = method.encode_captions(blank_words(texts, share, seed, **words).to(device)).to("cpu")
        for name, items in (("images", encoded), ("captions", captions)):
            values = uncertainty(items)
            pair = values, values - first.setdefault(name, values)
            level, rise = (bootstrap_interval([(v, owners[name])], resamples=1000) for v in pair)
            rows.append((name, share, *level, *rise))
    table = pd.DataFrame(rows, columns=["side", "share", "value", "low", "high", "rise", "rise low", "rise high"])
    return table.sort_values(["side", "share"], ascending=[False, True], ignore_index=True)


_GOLDEN = math.pi * (3 - math.sqrt(5))


def radius(level: float) -> float:
    """Radius of the region that holds `level` of a standard normal distribution in the plane: √(−2 ln(1 − level)).

    >>> round(radius(0.5), 4)
    1.1774
    """
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
