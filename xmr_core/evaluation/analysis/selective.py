"""Selective retrieval: a system that answers only where it is confident. How well does a measure of confidence choose
the queries that it answers rightly?"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.base.errors import BadInput

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
