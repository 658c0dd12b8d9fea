"""One number for both directions, as the papers plot it, with what the choice of test images leaves open."""

from collections.abc import Callable, Mapping

import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.types import GaussianEmbedding
from xmr_core.data.prepare import Prepared
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.evaluation.stats import image_error


def mean_rows(per_query: pd.DataFrame, metrics: Mapping[str, str], k: int = 0) -> pd.DataFrame:
    """Rows for Run.with_metrics: the mean over both directions of the mean over queries, for every relevance set, and
    its standard error for the choice of images ('<metric>_error').

        value = ½ Σ_d mean_{q of d} v_q

    Args: per_query: of an evaluation or a run. metrics: name of the new metric → column of per_query. k: of the rows.
    Raises: BadInput where a relevance set has queries of one direction only.

    >>> table = pd.DataFrame({"relevance": "own", "direction": ["i2t", "i2t", "t2i", "t2i"], "image": [0, 1, 0, 1],
    ...                       "R@1": [1.0, 1.0, 1.0, 0.0]})
    >>> mean_rows(table, {"mean_r1": "R@1"})["value"].tolist()
    [0.75, 0.25]
    """
    rows = []
    for kind, own in per_query.groupby("relevance", sort=False):
        parts = [part for _, part in own.groupby("direction", sort=False)]
        if len(parts) != 2:
            raise BadInput(f"relevance {kind!r} has queries of {len(parts)} direction(s); both are needed.")
        for metric, column in metrics.items():
            halves = [(part[column].to_numpy(float) / 2, part["image"].to_numpy()) for part in parts]
            value = float(sum(values.mean() for values, _ in halves))
            rows.append((kind, "both", metric, k, value, len(own)))
            rows.append((kind, "both", f"{metric}_error", k, image_error(halves), len(own)))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def gain_rows(better: pd.DataFrame, than: pd.DataFrame, metric: str, k: int = 0) -> pd.DataFrame:
    """As mean_rows, of R-Precision in one table minus that in another, query by query: `better` − `than`."""
    index = ["relevance", "direction", "query"]
    paired = than.merge(better, on=index, suffixes=("", " of better"), validate="one_to_one")
    return mean_rows(paired.assign(gain=paired["r_precision of better"] - paired["r_precision"]), {metric: "gain"}, k)


def gain_errors(better: pd.DataFrame, than: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Rows for Run.with_metrics: the standard error, for the choice of images, of what R-Precision gains in each
    direction ('<metric>_error'), `better` − `than`, paired query by query."""
    index = ["relevance", "direction", "query"]
    paired = than.merge(better, on=index, suffixes=("", " of better"), validate="one_to_one")
    rows = []
    for (kind, direction), own in paired.groupby(["relevance", "direction"], sort=False):
        gain = (own["r_precision of better"] - own["r_precision"]).to_numpy(float)
        rows.append((kind, direction, f"{metric}_error", 0, image_error([(gain, own["image"].to_numpy())]), len(own)))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def precision_of(
    similarity: Callable | Mapping[str, Callable],
    images: GaussianEmbedding,
    captions: GaussianEmbedding,
    prepared: Prepared,
) -> pd.DataFrame:
    """R-Precision of every test query by another similarity: columns relevance, direction, query, image, r_precision.

    similarity: for both directions, or direction → similarity, for divergences that are not symmetric.
    """
    relevances = {kind: relevance("test") for kind, relevance in prepared.corpus.relevance_sets.items()}
    by_direction = similarity if isinstance(similarity, Mapping) else {"i2t": similarity, "t2i": similarity}
    tables: dict[int, pd.DataFrame] = {}
    for function in by_direction.values():
        if id(function) not in tables:
            tables[id(function)] = evaluate(function, images, captions, relevances).per_query
    parts = [tables[id(f)][lambda t, d=direction: t["direction"] == d] for direction, f in by_direction.items()]
    return pd.concat(parts, ignore_index=True)[["relevance", "direction", "query", "image", "r_precision"]]
