"""What a distribution knows: its width against recall and ambiguity, and what sampling gains over the means."""

import numpy as np
import pandas as pd

from xmr_core.base.types import GaussianEmbedding
from xmr_core.evaluation.analysis.both_directions import gain_errors, gain_rows, mean_rows, precision_of
from xmr_core.evaluation.analysis.corruption import corrupted_values
from xmr_core.evaluation.analysis.distances import distance_table, sampling_gain, with_samples
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.analysis.set_algebra import set_algebra, set_algebra_rows
from xmr_core.evaluation.analysis.uncertainty import query_uncertainty, uncertainty_rows
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.evaluation.stats import image_error
from xmr_core.methods.method import Method
from xmr_core.similarities.distances import DISTANCES
from xmr_core.training.runs import TrainedRun

SAMPLES, DRAWS = (1, 3, 5, 7, 10), 3
_IMAGES = 200  # of the corrupted ones
_DIVERGENCES = {  # metric → the divergence of the query from the item, in either direction
    "r_precision_gain_of_kl": {"i2t": DISTANCES["KL"], "t2i": DISTANCES["reverse KL"]},
    "r_precision_gain_of_kl_official": {
        "i2t": DISTANCES["KL (official)"],
        "t2i": DISTANCES["reverse KL (official)"],
    },
}


def uncertainty(run: TrainedRun) -> pd.DataFrame:
    """Spearman's ρ of the queries' uncertainty with R@1 and with the number of relevant items, with its errors."""
    split = run.prepared().splits["test"]
    widths = query_uncertainty(*encode_split(run.method(), split), split.relevance)
    return uncertainty_rows(run.per_query, widths, errors=True)


def sampling(run: TrainedRun) -> pd.DataFrame:
    """R-Precision of match probability minus that of the means alone, as a fraction, with its error."""
    method, images, captions = _encoded(run)
    value = sampling_gain(distance_table(method, run.prepared()), len(run.per_query))
    drawn, base = (
        precision_of(s, images, captions, run.prepared()) for s in (method.similarity, DISTANCES["mean only"])
    )
    error = gain_errors(drawn, base, "r_precision_gain_of_sampling")
    return pd.concat([value, error[error["relevance"] == "annotated"]], ignore_index=True)


def means(run: TrainedRun) -> pd.DataFrame:
    """R-Precision by the means alone, the mean of both directions."""
    _, images, captions = _encoded(run)
    table = precision_of(DISTANCES["mean only"], images, captions, run.prepared())
    return mean_rows(table, {"r_precision_of_means": "r_precision"})


def divergences(run: TrainedRun) -> pd.DataFrame:
    """R-Precision by two divergences, the true one and that of the authors' evaluator, minus that of the means."""
    _, images, captions = _encoded(run)
    base = precision_of(DISTANCES["mean only"], images, captions, run.prepared())
    parts = [
        gain_rows(precision_of(functions, images, captions, run.prepared()), base, metric)
        for metric, functions in _DIVERGENCES.items()
    ]
    return pd.concat(parts, ignore_index=True)


def drawn(run: TrainedRun) -> pd.DataFrame:
    """R-Precision of match probability with J ∈ SAMPLES samples at test (k is J), a mean over draws: its value, what it
    gains over the means, and the least gain among 3 samples and more (k = 3)."""
    method, images, captions = _encoded(run)
    base = precision_of(DISTANCES["mean only"], images, captions, run.prepared())
    parts, gains = [], {}
    for j in SAMPLES:
        draws = [(with_samples(images, j, 2 * n), with_samples(captions, j, 2 * n + 1)) for n in range(DRAWS)]
        tables = [precision_of(method.similarity, *pair, run.prepared()) for pair in draws]
        table = tables[0].assign(r_precision=sum(t["r_precision"] for t in tables) / DRAWS)
        gains[j] = gain_rows(table, base, "r_precision_gain_of_samples", j)
        parts += [mean_rows(table, {"r_precision_of_samples": "r_precision"}, j), gains[j]]
    return pd.concat([*parts, _least([gains[j] for j in SAMPLES if j >= 3])], ignore_index=True)


def widths(run: TrainedRun) -> pd.DataFrame:
    """Mean of log σ over items and dimensions, for images and captions, with its error."""
    _, *modalities = _encoded(run)
    split = run.prepared().splits["test"]
    owners = {"images": np.arange(len(split.image_rows)), "captions": split.owners}
    rows = []
    for name, items in zip(("images", "captions"), modalities, strict=True):
        own = items.log_std.double()
        error = image_error([(own.mean(1).numpy(), owners[name])])
        rows += [("", name, "mean_log_std", 0, float(own.mean()), len(items))]
        rows += [("", name, "mean_log_std_error", 0, error, len(items))]
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def corruption(run: TrainedRun) -> pd.DataFrame:
    """How much wider the distributions of the first 200 test images, and of their captions, are when nothing of them is
    left than when all is: the rise of mean log σ, with its error."""
    split = run.prepared().splits["test"].first(_IMAGES)
    owners = {"images": np.arange(len(split.image_rows)), "captions": split.relevance.indices}
    full, empty = corrupted_values(run.method(), run.prepared(), (0.0, 1.0), _IMAGES)
    rows = []
    for name in sorted(owners):
        rise = empty[name] - full[name]
        rows.append(("", name, "uncertainty_rise", 0, float(rise.mean()), _IMAGES))
        rows.append(("", name, "uncertainty_rise_error", 0, image_error([(rise, owners[name])]), _IMAGES))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def algebra(run: TrainedRun) -> pd.DataFrame:
    """What erasing and mixing do to distributions in the plane."""
    return set_algebra_rows(set_algebra(run.method(), run.prepared()))


def _least(gains: list[pd.DataFrame]) -> pd.DataFrame:
    """For every relevance set the rows, value and error, of the table with the smallest value."""
    out = []
    for kind in gains[0]["relevance"].unique():
        own = [table[table["relevance"] == kind] for table in gains]
        least = min(own, key=lambda t: t.loc[~t["metric"].str.endswith("_error"), "value"].iloc[0])
        out.append(least.assign(k=3, metric=least["metric"].str.replace("r_precision_gain", "least_gain")))
    return pd.concat(out, ignore_index=True)


def _encoded(run: TrainedRun) -> tuple[Method, GaussianEmbedding, GaussianEmbedding]:
    method = run.method()
    return method, *encode_split(method, run.prepared().splits["test"])
