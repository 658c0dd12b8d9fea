"""How uncertain a method is of an item, and whether that says anything about retrieval."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from xmr_core.base.errors import BadInput, require_number
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Relevance, Representation
from xmr_core.evaluation.analysis.representations import circular_variance
from xmr_core.evaluation.stats import bootstrap_interval, image_draws

_SMALLEST = 1e-12  # circular variance of a collapsed set


def uncertainty(items: Representation) -> Float[np.ndarray, " n"]:
    """One number per item, larger for a less certain one: a natural logarithm, so only order and differences have a
    meaning.

        Gaussian   mean_d log σ_d, the log of the geometric mean of σ                       (PCME)
        set        log(1 − ‖mean_k x_k‖), the log of the circular variance of its elements  (DivE, PVSE)

    Raises: BadInput for one vector per item, or a method of means only (σ = 0), which have no uncertainty.
    Source: Chun et al., CVPR 2021 (PCME), §4.4; for sets DivE's circular variance, read as a spread of meanings.

    >>> import torch
    >>> log_std = torch.tensor([[-1.0, -1.0], [-2.0, -2.0]])
    >>> uncertainty(GaussianEmbedding(torch.zeros(2, 2), log_std, torch.zeros(2, 1, 2))).tolist()
    [-1.0, -2.0]
    """
    if isinstance(items, GaussianEmbedding) and bool(items.log_std.isfinite().all()):
        return items.log_std.detach().cpu().double().mean(1).numpy()
    if isinstance(items, EmbeddingSet) and items.x.shape[1] > 1:
        return circular_variance(items).detach().cpu().double().clamp(min=_SMALLEST).log().numpy()
    raise BadInput("one vector per item and so no uncertainty; take pcme, pcme++ (σ), dive or pvse (spread of a set).")


def query_uncertainty(images: Representation, captions: Representation, own: Relevance) -> pd.DataFrame:
    """Columns direction, query, uncertainty: of the images as queries (i2t) and of the captions as queries (t2i).

    own: captions as queries, images as gallery; it gives the ids.
    """
    directions = (("i2t", own.gallery_ids, images), ("t2i", own.query_ids, captions))
    parts = [pd.DataFrame({"direction": d, "query": ids, "uncertainty": uncertainty(r)}) for d, ids, r in directions]
    return pd.concat(parts, ignore_index=True)


def in_bins(order: Sequence[float], values: Sequence[float], images: Sequence[int], bins: int = 10) -> pd.DataFrame:
    """Mean of `values` in bins of (almost) equal size along `order`; ties stay in file order.

    images: position of each query's image, which is resampled for the 95 % interval.
    Returns: columns bin (from 1), n, by (mean of `order`), value (mean), low, high.
    Raises: BadInput for fewer values than bins, or lengths that differ.

    >>> in_bins([3, 1, 4, 2], [1.0, 0.0, 1.0, 0.0], [0, 1, 2, 3], bins=2)["value"].tolist()
    [0.0, 1.0]
    """
    order, values, images = np.asarray(order, float), np.asarray(values, float), np.asarray(images)
    if not len(order) == len(values) == len(images) or not 1 <= bins <= len(order):
        raise BadInput(f"{bins} bins need as many values and images; got {len(order)}, {len(values)}, {len(images)}.")
    rows = []
    for number, members in enumerate(np.array_split(np.argsort(order, kind="stable"), bins), 1):
        interval = bootstrap_interval([(values[members], images[members])], resamples=1000)
        rows.append((number, len(members), order[members].mean(), *interval))
    return pd.DataFrame(rows, columns=["bin", "n", "by", "value", "low", "high"])


def rank_correlation(
    x: Float[np.ndarray, " q"],
    y: Float[np.ndarray, " q"],
    images: Int[np.ndarray, " q"],
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """(Spearman's ρ, low, high) with its 95 % interval by resampling images. Ranks are those among all queries; ties
    share their mean rank.

    NaN where x or y is constant. Raises: BadInput for lengths that differ or fewer than 3 queries.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 9.0]), np.array([0, 1, 2]))[0]
    1.0
    """
    if not len(x) == len(y) == len(images) or len(x) < 3:
        raise BadInput(f"x, y and images must have one length, at least 3; got {len(x)}, {len(y)} and {len(images)}.")
    sums = _rank_sums(x, y, images)
    _, draws = image_draws(np.asarray(images), resamples, seed)
    value, drawn = _correlation(sums.sum(0)[None])[0], _correlation(draws @ sums)
    low, high = np.nanquantile(drawn, [0.025, 0.975]) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return float(value), float(low), float(high)


def _rank_sums(x: np.ndarray, y: np.ndarray, images: np.ndarray) -> Float[np.ndarray, "i 6"]:
    """What each image adds to the sums of 1, a, b, a², b² and a b, with the centred ranks a of x and b of y."""
    from scipy.stats import rankdata  # takes as long to import as half of torch

    a, b = (rankdata(v) - (len(x) + 1) / 2 for v in (x, y))
    cluster = np.unique(images, return_inverse=True)[1]
    return np.stack([np.bincount(cluster, weights=w) for w in (np.ones(len(a)), a, b, a * a, b * b, a * b)], 1)


def _correlation(sums: Float[np.ndarray, "r 6"]) -> Float[np.ndarray, " r"]:
    n, a, b, aa, bb, ab = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        return (ab - a * b / n) / np.sqrt((aa - a * a / n) * (bb - b * b / n))


def selective_recall(right: Sequence[float], confidence: Sequence[float]) -> float:
    """The mean over n of the share of right answers among the n most confident queries: the area under the curve of R@1
    over coverage, from 0 to 1.

        A = 1/N Σ_n 1/n Σ_{m ≤ n} right_(m),   right_(1) belonging to the most confident query

    Equal confidence never helps: among equals the wrong answers come first. Source: the risk–coverage curve of
    selective classification (El-Yaniv and Wiener, JMLR 2010), with R@1 in the place of 1 − risk.

    >>> selective_recall([1, 1, 0, 0], [0.9, 0.8, 0.2, 0.1]) > selective_recall([1, 1, 0, 0], [0.1, 0.2, 0.8, 0.9])
    True
    """
    r, c = np.asarray(right, float), np.asarray(confidence, float)
    ordered = r[np.lexsort((r, -c))]
    return float((ordered.cumsum() / np.arange(1, len(r) + 1)).mean())


def score_confidence(scores: Float[np.ndarray, "q g"], temperature: float = 1.0) -> dict[str, Float[np.ndarray, " q"]]:
    """Confidence of each query from its scores alone, larger where more certain: 'margin', the best score minus the
    second; 'entropy', minus the entropy of the softmax of s / (temperature · standard deviation of all scores) over the
    gallery.

    Raises: BadInput for scores that are not finite or a temperature that is not positive.

    >>> sure = score_confidence(np.array([[1.0, 0.0, 0.0], [0.6, 0.5, 0.4]]))
    >>> bool(sure["margin"][0] > sure["margin"][1]), bool(sure["entropy"][0] > sure["entropy"][1])
    (True, True)
    """
    s = np.asarray(scores, float)
    require_number("temperature", temperature, above=0)
    if not np.isfinite(s).all():
        raise BadInput("confidence needs finite scores; leave out the items that a method cannot score.")
    two = np.partition(s, -2, axis=1)[:, -2:]
    z = (s - two[:, 1:]) / (temperature * max(s.std(), 1e-12))
    p = np.exp(z)
    total = p.sum(1)
    return {"margin": two[:, 1] - two[:, 0], "entropy": (p * z).sum(1) / total - np.log(total)}
