"""How uncertain a method is of an item, and whether that says anything about retrieval."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.evaluation.analysis.representations import circular_variance
from xmr_core.evaluation.stats import bootstrap_interval, image_draws
from xmr_core.features.words import tokenise

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
    raise BadInput(
        "this method has one vector per item and so no uncertainty; "
        "take pcme or pcme++ (σ), or dive or pvse (spread of a set)."
    )


def sorted_variances(items: Representation) -> Float[np.ndarray, " d"]:
    """The variance of each dimension, a mean over the items, largest first: mean_n σ²_nd. One σ gives equal numbers.

    Raises: BadInput for anything but distributions with a width.
    Source: Chun et al., CVPR 2021 (PCME), Figure D.1.

    >>> import torch
    >>> sorted_variances(GaussianEmbedding(torch.zeros(1, 2), torch.tensor([[0.0, 1.0]]))).round(2).tolist()
    [7.39, 1.0]
    """
    if not isinstance(items, GaussianEmbedding) or not bool(items.log_std.isfinite().all()):
        raise BadInput("only distributions with a σ have variances; take pcme or pcme++, and not its means alone.")
    return np.sort((2 * items.log_std.double()).exp().mean(0).numpy())[::-1]


def query_uncertainty(images: Representation, captions: Representation, own: Relevance) -> pd.DataFrame:
    """Columns direction, query, uncertainty: of the images as queries (i2t) and of the captions as queries (t2i).

    own: captions as queries, images as gallery; it gives the ids.
    """
    directions = (("i2t", own.gallery_ids, images), ("t2i", own.query_ids, captions))
    parts = [pd.DataFrame({"direction": d, "query": ids, "uncertainty": uncertainty(r)}) for d, ids, r in directions]
    return pd.concat(parts, ignore_index=True)


def uncertainty_rows(per_query: pd.DataFrame, uncertain: pd.DataFrame) -> pd.DataFrame:
    """Spearman's ρ of the queries' uncertainty with their results, one row per relevance, direction and metric.

    Metrics: 'spearman_uncertainty_r1' (with R@1, which is 0 or 1), and 'spearman_uncertainty_answers' (with the number
    of relevant items, where it differs between queries). low, high: 95 %. Rows fit Run.with_metrics.
    Args: per_query: of an evaluation or a run. uncertain: of query_uncertainty.
    """
    table = per_query.astype({"query": str}).merge(uncertain.astype({"query": str}), on=["direction", "query"])
    rows = []
    for (kind, direction), part in table.groupby(["relevance", "direction"], sort=False):
        results = {"spearman_uncertainty_r1": part["R@1"]}
        if part["n_relevant"].nunique() > 1:
            results["spearman_uncertainty_answers"] = part["n_relevant"]
        for metric, values in results.items():
            x, y, images = part["uncertainty"].to_numpy(), values.to_numpy(float), part["image"].to_numpy()
            value, *interval = rank_correlation(x, y, images)
            rows.append((kind, direction, metric, 0, value, len(part), *interval))
    return pd.DataFrame(rows, columns=["relevance", "direction", "metric", "k", "value", "n_queries", "low", "high"])


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
        raise BadInput(
            f"{bins} bins need as many values, each with an image; got {len(order)}, {len(values)} and {len(images)}."
        )
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


# Whether the uncertain end of a scale of uncertainty is the ambiguous one.


def end_rows(uncertain: Float[np.ndarray, " q"], share: float = 0.1) -> dict[str, Int[np.ndarray, " n"]]:
    """'certain' and 'uncertain' → positions of the most certain and of the most uncertain share of the queries, at
    least one of them; equal ones in file order.

    Raises: BadInput for no query, or a share outside (0, ½].

    >>> {end: rows.tolist() for end, rows in end_rows(np.array([0.3, 0.1, 0.2]), 0.4).items()}
    {'certain': [1], 'uncertain': [0]}
    """
    if not len(uncertain) or not 0 < share <= 0.5:
        raise BadInput(f"ends need queries and a share in (0, 0.5]; got {len(uncertain)} queries and {share}.")
    order, n = np.argsort(uncertain, kind="stable"), max(int(share * len(uncertain)), 1)
    return {"certain": order[:n], "uncertain": order[-n:]}


def ratio_of_ends(
    uncertain: Float[np.ndarray, " q"],
    right: Float[np.ndarray, " q"],
    images: Int[np.ndarray, " q"],
    share: float = 0.1,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """(ratio, low, high): how many times as many right answers the most uncertain queries have as the most certain
    ones, with its 95 % interval by resampling images. Which queries are at an end is not drawn anew.

    Args: right: right answers of each query, more than 0. images: position of the image of each.
    Raises: as end_rows.

    >>> ratio_of_ends(np.arange(20.0), np.r_[np.full(10, 4.0), np.ones(10)], np.arange(20))
    (0.25, 0.25, 0.25)
    """
    ids, draws = image_draws(np.asarray(images), resamples, seed)
    cluster, means, drawn = np.searchsorted(ids, images), {}, {}
    for end, rows in end_rows(uncertain, share).items():
        totals = np.bincount(cluster[rows], weights=right[rows], minlength=len(ids))
        counts = np.bincount(cluster[rows], minlength=len(ids))
        means[end] = float(np.mean(right[rows]))
        with np.errstate(invalid="ignore"):
            drawn[end] = (draws @ totals) / (draws @ counts)
    low, high = np.nanquantile(drawn["uncertain"] / drawn["certain"], [0.025, 0.975])
    return means["uncertain"] / means["certain"], float(low), float(high)


# Selective retrieval: a system that answers only where it is confident. How well does a measure of confidence
# choose the queries that it answers rightly?


TEMPERATURES = (1.0, 0.5, 0.25, 0.125, 0.0625)  # in standard deviations of all scores
BASELINES = ("margin", "entropy")


def selective_recall(right: Sequence[float], confidence: Sequence[float]) -> float:
    """The mean over n of the share of right answers among the n most confident queries: the area under the curve of R@1
    over coverage, from 0 to 1.

        A = 1/N Σ_n 1/n Σ_{m ≤ n} right_(m),   right_(1) belonging to the most confident query

    Equal confidence never helps: among equals the wrong answers come first. Source: the risk–coverage curve of
    selective classification (El-Yaniv and Wiener, JMLR 2010), with R@1 in the place of 1 − risk.
    Raises: BadInput for no query, or lengths that differ.

    >>> selective_recall([1, 1, 0, 0], [0.9, 0.8, 0.2, 0.1]) > selective_recall([1, 1, 0, 0], [0.1, 0.2, 0.8, 0.9])
    True
    """
    r, c = np.asarray(right, float), np.asarray(confidence, float)
    if not len(r) or r.shape != c.shape:
        raise BadInput(f"confidence needs one value for each query, got {c.size} for {r.size} queries.")
    ordered = r[np.lexsort((r, -c))]
    return float((ordered.cumsum() / np.arange(1, len(r) + 1)).mean())


def score_confidence(scores: Float[np.ndarray, "q g"], temperature: float = 1.0) -> dict[str, Float[np.ndarray, " q"]]:
    """Confidence of each query from its scores alone, larger where more certain: 'margin', the best score minus the
    second; 'entropy', minus the entropy of the softmax of s / (temperature · standard deviation of all scores) over the
    gallery.

    Raises: BadInput for a gallery of one item, scores that are not finite, or a temperature that is not positive.

    >>> sure = score_confidence(np.array([[1.0, 0.0, 0.0], [0.6, 0.5, 0.4]]))
    >>> bool(sure["margin"][0] > sure["margin"][1]), bool(sure["entropy"][0] > sure["entropy"][1])
    (True, True)
    """
    s = np.asarray(scores, float)
    if s.ndim != 2 or s.shape[1] < 2 or not temperature > 0:
        raise BadInput(f"a margin needs two items and a positive temperature, got {s.shape} and {temperature}.")
    if not np.isfinite(s).all():
        raise BadInput("confidence needs finite scores; leave out the items that a method cannot score.")
    two = np.partition(s, -2, axis=1)[:, -2:]
    z = (s - two[:, 1:]) / (temperature * max(s.std(), 1e-12))
    p = np.exp(z)
    total = p.sum(1)
    return {"margin": two[:, 1] - two[:, 0], "entropy": (p * z).sum(1) / total - np.log(total)}


def best_temperature(scores: Float[np.ndarray, "q g"], right: Sequence[float]) -> float:
    """The temperature of TEMPERATURES whose entropy selects best, on a split that was set aside for choices.

    >>> best_temperature(np.eye(3), [1, 1, 1])
    1.0
    """
    areas = [selective_recall(right, score_confidence(scores, t)["entropy"]) for t in TEMPERATURES]
    return TEMPERATURES[int(np.argmax(areas))]


def selective_table(right: Mapping[str, Sequence[float]], confidences: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Area of each confidence for each relevance set: columns relevance, confidence, area; 'none' is R@1 itself, what
    confidence without information gives on average.

    >>> selective_table({"annotated": [1, 0]}, {"margin": [0.4, 0.1]})["area"].tolist()
    [0.75, 0.5]
    """
    lines = []
    for kind, values in right.items():
        lines += [(kind, name, selective_recall(values, c)) for name, c in confidences.items()]
        lines.append((kind, "none", float(np.mean(values))))
    return pd.DataFrame(lines, columns=["relevance", "confidence", "area"])


# Which words stand in certain and in uncertain captions.


def frequent_words(texts: Sequence[str], order: Sequence[float], bins: int = 10, top: int = 8) -> pd.DataFrame:
    """The words with the largest score in each bin of (almost) equal size along `order`; a column per bin, from 1.

        score of word i = (1 + ln n_i) · ln(N / n_i)

    N: captions in the bin; n_i: those of them that contain word i. Words of equal score stand in alphabetical order.
    Source: PCME, App. F.2 and Figure F.2.

    >>> frequent_words(["a cat", "a dog", "a dog sat", "two birds"], [1, 2, 3, 4], bins=2, top=1).loc[1].tolist()
    ['cat', 'a']
    """
    order = np.asarray(order, float)
    columns = {}
    for number, members in enumerate(np.array_split(np.argsort(order, kind="stable"), bins), 1):
        counts = Counter(word for m in members for word in set(tokenise(texts[m])))
        scores = {word: (1 + math.log(n)) * math.log(len(members) / n) for word, n in counts.items()}
        best = sorted(scores, key=lambda word: (-scores[word], word))[:top]
        columns[number] = pd.Series(best, index=range(1, len(best) + 1), dtype=object)
    return pd.DataFrame(columns).rename_axis("rank").fillna("")


def word_uncertainty(texts: Sequence[str], values: Sequence[float], least: int = 20) -> pd.DataFrame:
    """Mean of `values` over the captions that contain a word, largest first: columns word, captions, value.

    least: words in fewer captions are left out.

    >>> word_uncertainty(["red cat", "cat", "dog"], [3.0, 1.0, 0.0], least=1)["word"].tolist()
    ['red', 'cat', 'dog']
    """
    by_word: dict[str, list[float]] = {}
    for text, value in zip(texts, values, strict=True):
        for word in set(tokenise(text)):
            by_word.setdefault(word, []).append(float(value))
    rows = [(word, len(own), float(np.mean(own))) for word, own in by_word.items() if len(own) >= least]
    table = pd.DataFrame(rows, columns=["word", "captions", "value"])
    return table.sort_values(["value", "word"], ascending=[False, True], ignore_index=True)
