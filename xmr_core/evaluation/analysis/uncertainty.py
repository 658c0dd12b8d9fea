"""How unsure a method is of an item, and whether that says anything about retrieval."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.stats import rankdata

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.evaluation.analysis.circular_variance import circular_variance
from xmr_core.evaluation.stats import bootstrap_interval

_SMALLEST = 1e-12  # circular variance of a collapsed set


def uncertainty(items: Representation) -> Float[np.ndarray, " n"]:
    """One number per item, larger for a less certain one; a natural logarithm, so only order and differences mean something.

        Gaussian   mean_d log σ_d, the log of the geometric mean of σ                       (PCME)
        set        log(1 − ‖mean_k x_k‖), the log of the circular variance of its elements  (DivE, PVSE)

    Raises: BadInput for one vector per item, or a method of means only (σ = 0), which have no uncertainty.
    Source: Chun et al., CVPR 2021 (PCME), §4.4; for sets DivE's circular variance, read as a spread of meanings.
    """
    if isinstance(items, GaussianEmbedding) and bool(items.log_std.isfinite().all()):
        return items.log_std.double().mean(1).numpy()
    if isinstance(items, EmbeddingSet) and items.x.shape[1] > 1:
        return circular_variance(items).double().clamp(min=_SMALLEST).log().numpy()
    raise BadInput("this method has one vector per item and so no uncertainty; take pcme (σ), or dive or pvse (spread of a set).")


def query_uncertainty(images: Representation, captions: Representation, own: Relevance) -> pd.DataFrame:
    """Columns direction, query, uncertainty: of the pictures as queries (i2t) and the captions (t2i). own: captions × images, by id."""
    sides = (("i2t", own.gallery_ids, images), ("t2i", own.query_ids, captions))
    return pd.concat(
        [pd.DataFrame({"direction": d, "query": ids, "uncertainty": uncertainty(r)}) for d, ids, r in sides], ignore_index=True
    )


def uncertainty_rows(per_query: pd.DataFrame, uncertain: pd.DataFrame) -> pd.DataFrame:
    """Spearman's ρ of the queries' uncertainty with what is known of them, a row per relevance, direction and metric; low, high: 95 %.

    metrics: 'spearman_uncertainty_r1' (with R@1, 0 or 1), and 'spearman_uncertainty_answers' (with the number of right answers, where
    that is not the same for all). per_query: of a run. uncertain: from query_uncertainty. Rows fit Run.with_metrics.
    """
    table = per_query.astype({"query": str}).merge(uncertain.astype({"query": str}), on=["direction", "query"])
    rows = []
    for (kind, direction), part in table.groupby(["relevance", "direction"], sort=False):
        asked = {"spearman_uncertainty_r1": part["R@1"]}
        if part["n_relevant"].nunique() > 1:
            asked["spearman_uncertainty_answers"] = part["n_relevant"]
        for metric, known in asked.items():
            value, low, high = rank_correlation(part["uncertainty"].to_numpy(), known.to_numpy(float), part["image"].to_numpy())
            rows.append((kind, direction, metric, 0, value, len(part), low, high))
    return pd.DataFrame(rows, columns=["relevance", "direction", "metric", "k", "value", "n_queries", "low", "high"])


def in_bins(by: Sequence[float], values: Sequence[float], images: Sequence[int], bins: int = 10) -> pd.DataFrame:
    """Mean of `values` in bins of `by` of (almost) equal size, ascending; ties stay in file order.

    images: the picture of each query, resampled for the 95 % interval. Columns bin (from 1), n, by (mean), value, low, high.
    Raises: BadInput for fewer values than bins, or lengths that differ.
    """
    by, values, images = np.asarray(by, float), np.asarray(values, float), np.asarray(images)
    if not len(by) == len(values) == len(images) or not 1 <= bins <= len(by):
        raise BadInput(f"{bins} bins need as many values, each with an image; got {len(by)}, {len(values)} and {len(images)}.")
    rows = []
    for number, at in enumerate(np.array_split(np.argsort(by, kind="stable"), bins), 1):
        mean, low, high = bootstrap_interval([(values[at], images[at])], resamples=1000)
        rows.append({"bin": number, "n": len(at), "by": by[at].mean(), "value": mean, "low": low, "high": high})
    return pd.DataFrame(rows)


def rank_correlation(
    x: Float[np.ndarray, " q"], y: Float[np.ndarray, " q"], images: Int[np.ndarray, " q"], resamples: int = 1000, seed: int = 0
) -> tuple[float, float, float]:
    """(Spearman's ρ, low, high) with its 95 % interval by resampling images; ranks are those among all queries, ties share theirs.

    NaN where x or y is constant. Raises: BadInput for lengths that differ or fewer than 3 queries.
    """
    if not len(x) == len(y) == len(images) or len(x) < 3:
        raise BadInput(f"x, y and images must have one length, at least 3; got {len(x)}, {len(y)} and {len(images)}.")
    a, b = (rankdata(v) - (len(x) + 1) / 2 for v in (x, y))
    names, at = np.unique(np.asarray(images), return_inverse=True)
    sums = np.stack([np.bincount(at, weights=w) for w in (np.ones(len(a)), a, b, a * a, b * b, a * b)], 1)  # images × 6
    draws = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    value, drawn = _correlation(sums.sum(0)[None])[0], _correlation(draws @ sums)
    low, high = np.nanquantile(drawn, [0.025, 0.975]) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return float(value), float(low), float(high)


def _correlation(sums: Float[np.ndarray, "r 6"]) -> Float[np.ndarray, " r"]:
    n, a, b, aa, bb, ab = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        return (ab - a * b / n) / np.sqrt((aa - a * a / n) * (bb - b * b / n))
