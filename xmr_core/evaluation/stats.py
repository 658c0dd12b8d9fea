"""Intervals, errors and tests; those of queries resample images, whose captions are not independent."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from xmr_core.base.errors import BadInput


def mean_error(values: Float[np.ndarray, " g"]) -> float:
    """Standard error of the mean of independent values: their standard deviation (n − 1) by √n. NaN for fewer
    than two.

    >>> round(mean_error(np.array([1.0, 0.0, 1.0, 0.0])), 4)
    0.2887
    """
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


Clustered = tuple[Float[np.ndarray, " q"], Int[np.ndarray, " q"]]  # one value per query, and the image it belongs to


def bootstrap_interval(
    parts: Sequence[Clustered], level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float, float]:
    """(estimate, low, high) of Σ over parts of the mean over a part's queries, by the percentile bootstrap over images.

    One part gives the interval of a mean, for example R@1 of t2i. The six recalls as six parts give the interval of
    RSUM: all parts use the same resampled images. An image that is drawn twice counts all its queries twice.

    Args: parts: (value of each query, position of its image); the parts share the images. level: in (0, 1).
    Raises: BadInput for no query, values and images of different length, a value that is NaN, or a query without
        exactly one image (position −1).

    >>> estimate, low, high = bootstrap_interval([(np.array([1.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 2]))])
    >>> estimate, bool(low < estimate < high)
    (0.75, True)
    """
    _check_parts(parts)
    images, weights = image_draws(np.concatenate([c for _, c in parts]), resamples, seed)
    drawn = np.zeros(resamples)
    for values, clusters in parts:
        cluster = np.searchsorted(images, clusters)
        totals = np.bincount(cluster, weights=values, minlength=len(images))
        counts = np.bincount(cluster, minlength=len(images))
        drawn += (weights @ totals) / np.maximum(weights @ counts, 1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(sum(np.mean(v) for v, _ in parts)), float(low), float(high)


def image_error(parts: Sequence[Clustered]) -> float:
    """Standard error of Σ over parts of the mean over a part's queries, for the choice of images:

    e² = G/(G − 1) Σ_g u_g²,   u_g = Σ_j Σ_{q of image g} (v_q − mean_j) / N_j

    with G images. It is what bootstrap_interval draws, linearised, so that errors of several runs can be added.
    Args: parts: as in bootstrap_interval. Raises: BadInput as there, or for a single image.

    >>> round(image_error([(np.array([1.0, 0.0, 1.0, 0.0]), np.array([0, 1, 2, 3]))]), 4)
    0.2887
    """
    _check_parts(parts)
    images = _distinct(np.concatenate([clusters for _, clusters in parts]))
    out = np.zeros(len(images))
    for values, clusters in parts:
        away = len(images) * (values - values.mean()) / len(values)
        out += np.bincount(np.searchsorted(images, clusters), weights=away, minlength=len(images))
    return mean_error(out)


def image_draws(
    images: Int[np.ndarray, " q"], resamples: int, seed: int
) -> tuple[Int[np.ndarray, " i"], Int[np.ndarray, "r i"]]:
    """(the different images, ascending; how often each is drawn in each resample of as many images with replacement).

    Raises: BadInput for an image −1, which says that a query belongs to no single image.

    >>> images, weights = image_draws(np.array([7, 3, 7]), resamples=10, seed=0)
    >>> images.tolist(), weights.shape, bool((weights.sum(1) == 2).all())
    ([3, 7], (10, 2), True)
    """
    images = _distinct(images)
    return images, _draws(len(images), resamples, seed)


def _distinct(images: Int[np.ndarray, " q"]) -> Int[np.ndarray, " i"]:
    images = np.unique(images)
    if (images < 0).any():
        raise BadInput("some queries belong to no single image (image −1), so images cannot be resampled or flipped.")
    return images


def _check_parts(parts: Sequence[Clustered]) -> None:
    if not parts or any(len(v) != len(c) or not len(v) or np.isnan(v).any() for v, c in parts):
        raise BadInput("every part needs values that are numbers, and one image for each value.")


@lru_cache(maxsize=2)
def _draws(n: int, resamples: int, seed: int) -> Int[np.ndarray, "r i"]:
    """How often each of n images is drawn; runs of one corpus share it, so nobody may change it."""
    weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples)
    weights.setflags(write=False)
    return weights


def seed_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """(mean, low, high) over seeds: mean ± t·sd/√n with Student's t. For a single seed low and high are NaN.

    >>> [round(v, 2) for v in seed_interval([3.0, 5.0, 4.0])]
    [4.0, 1.52, 6.48]
    """
    x = np.asarray(values, float)
    if len(x) == 1:
        return float(x[0]), float("nan"), float("nan")
    from scipy.special import stdtrit  # takes a tenth of the time of torch to import

    half = stdtrit(len(x) - 1, (1 + level) / 2) * x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean()), float(x.mean() - half), float(x.mean() + half)


def decided(low: float, high: float, seeds: int, least: int = 3) -> str:
    """Verdict on an interval of a difference: 'held' above 0, 'contradicted' below 0, else 'undecided'.

    With fewer than `least` seeds the verdict is always 'undecided'.

    >>> decided(0.2, 1.4, seeds=3), decided(-0.1, 1.4, seeds=3), decided(0.2, 1.4, seeds=1)
    ('held', 'undecided', 'undecided')
    """
    sure = seeds >= least and (low > 0 or high < 0)
    return "undecided" if not sure else "held" if low > 0 else "contradicted"


def paired_permutation(
    a: Float[np.ndarray, " q"],
    b: Float[np.ndarray, " q"],
    images: Int[np.ndarray, " q"],
    resamples: int = 9999,
    seed: int = 0,
) -> tuple[float, float]:
    """(mean of a − b, two-sided p) by flipping the sign of all queries of an image: p = (hits + 1)/(resamples + 1) > 0.

    a, b: one finite value per query, in one order. Raises: BadInput for other values, different lengths, no query, or
    an image −1.

    >>> paired_permutation(np.ones(8), np.zeros(8), np.arange(8), resamples=999)[1] < 0.05
    True
    """
    if not len(a) == len(b) == len(images) > 0 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise BadInput("a, b and images must have one length, at least one query, and finite values.")
    difference = np.asarray(a, float) - np.asarray(b, float)
    totals = np.bincount(np.searchsorted(_distinct(images), images), weights=difference)
    signs = np.random.default_rng(seed).integers(0, 2, (resamples, len(totals)), dtype=np.int8) * 2 - 1
    least = abs(totals.sum()) - 1e-9 * np.abs(totals).sum()  # the same sum in another order still counts as equal
    return float(difference.mean()), (int((np.abs(signs @ totals) >= least).sum()) + 1) / (resamples + 1)


def holm(p_values: Sequence[float]) -> Float[np.ndarray, " m"]:
    """Holm's step-down correction of several p values, in their order, each at most 1.

    Raises: BadInput for p outside [0, 1]. Source: Holm, Scandinavian Journal of Statistics, 1979.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, float)
    if not ((p >= 0) & (p <= 1)).all():
        raise BadInput(f"p values must lie in [0, 1], got {p.tolist()}.")
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    out = np.empty_like(p)
    out[order] = np.minimum(stepped, 1)
    return out
