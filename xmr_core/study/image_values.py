"""What each test image says of a metric: the error that its choice leaves, and values that are kept beside the rows, so
that two methods can be compared image by image."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.evaluation.results import METRIC_COLUMNS, Evaluated
from xmr_core.evaluation.standard_errors import mean_error
from xmr_core.evaluation.stats import Clustered, image_error, image_values
from xmr_core.study.claims_data.claim import Claim, Measure
from xmr_core.study.decision_rows import FOLDER

COLUMNS = ["run_id", "relevance", "direction", "metric", "k", "values"]
FILE = "images.csv"
_ALWAYS = [(kind, "both", "rsum", 0) for kind in ("annotated", "exhaustive")]  # what orders methods
_BOTH = {"mean_r1": "R@1", "mean_r_precision": "r_precision"}
Key = tuple[str, str, str, str, int]  # run, relevance, direction, metric, k


def image_errors(run: Evaluated) -> pd.DataFrame:
    """Rows for the metrics table: the standard error, for the choice of test images, of every mean over queries and of
    RSUM, as 'recall_error' … 'rsum_error' (fractions, as values are). Source: stats.image_error.
    """
    lines = []
    for kind, table in run.per_query.groupby("relevance", sort=False):
        recalls = []
        for direction, own in table.groupby("direction", sort=False):
            images = own["image"].to_numpy()
            columns = {("recall", k): own[f"R@{k}"].to_numpy() for k in (1, 5, 10)}
            columns |= {(name, 0): own[name].to_numpy() for name in ("r_precision", "map_at_r")}
            recalls += [(columns["recall", k], images) for k in (1, 5, 10)]
            for (metric, k), values in columns.items():
                lines.append((kind, direction, f"{metric}_error", k, image_error([(values, images)]), len(own)))
        lines.append((kind, "both", "rsum_error", 0, image_error(recalls), len(table)))
    return pd.DataFrame(lines, columns=METRIC_COLUMNS)


def image_lines(run: Evaluated, labels: Iterable[str], claims: Iterable[Claim]) -> pd.DataFrame:
    """Lines for the file of images (COLUMNS) of a run: RSUM, and the other means over queries that a claim about one of
    its labels reads. values: of stats.image_values, fractions with four digits, images in ascending order, as text.
    """
    names = {*labels}
    read = [c.measure for c in claims if not names.isdisjoint((*c.above, *c.below))]
    wanted = dict.fromkeys([*_ALWAYS, *((m.relevance, m.direction, m.metric, m.k) for m in read)])
    lines = []
    for relevance, direction, metric, k in wanted:
        if parts := _parts(run.per_query[run.per_query["relevance"] == relevance], direction, metric, k):
            text = " ".join(f"{v:.4g}" for v in image_values(parts))
            lines.append((run.id, relevance, direction, metric, k, text))
    return pd.DataFrame(lines, columns=COLUMNS)


def read_image_values(folder: Path = FOLDER) -> "ImageValues":
    """Those of the protocol's runs so far; none where there is no such file."""
    path = folder / FILE
    if not path.exists():
        return ImageValues({})
    table = pd.read_csv(path, dtype={"k": int, "values": str}, keep_default_na=False)
    return ImageValues({tuple(line): text for *line, text in table[COLUMNS].itertuples(index=False)})


class ImageValues(Mapping):
    """(run, relevance, direction, metric, k) → value of each test image, a fraction. A text becomes numbers when it is
    asked for.

    >>> ImageValues({("a", "annotated", "both", "rsum", 0): "5.8 6"})["a", "annotated", "both", "rsum", 0].tolist()
    [5.8, 6.0]
    """

    def __init__(self, texts: Mapping[Key, str]):
        self._texts = texts

    def __getitem__(self, key: Key) -> Float[np.ndarray, " g"]:
        return np.array(self._texts[key].split(), float)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def paired_error(self, measure: Measure, above: tuple[str, ...], below: tuple[str, ...]) -> float | None:
        """Standard error, for the choice of images, of the mean over the runs `above` minus that over the runs `below`
        (below may be empty), in the measure's unit:

            e = mean_error(v − w),   v_g = mean over the runs above of the value of image g, w_g likewise below

        None where a run has no such values, or not of the same images.
        """
        ids = [(run, measure.relevance, measure.direction, measure.metric, measure.k) for run in (*above, *below)]
        if any(key not in self._texts for key in ids):
            return None
        values = [self[key] for key in ids]
        if len({len(v) for v in values}) > 1:
            return None
        upper, lower = values[: len(above)], values[len(above) :]
        difference = np.mean(upper, axis=0) - (np.mean(lower, axis=0) if lower else 0.0)
        return measure.factor * mean_error(difference)


def _parts(own: pd.DataFrame, direction: str, metric: str, k: int) -> list[Clustered]:
    """The parts of stats.image_values whose sum of means is the metric; none for a metric that is no such sum."""
    halves = [part for _, part in own.groupby("direction", sort=False)]
    if direction in ("i2t", "t2i"):
        column = f"R@{k}" if metric == "recall" else metric
        own = own[own["direction"] == direction]
        if metric not in ("recall", "r_precision", "map_at_r") or column not in own or not len(own):
            return []
        return [(own[column].to_numpy(float), own["image"].to_numpy())]
    if metric == "rsum":
        return [(s[f"R@{n}"].to_numpy(float), s["image"].to_numpy()) for s in halves for n in (1, 5, 10)]
    if metric in _BOTH and len(halves) == 2:
        return [(s[_BOTH[metric]].to_numpy(float) / 2, s["image"].to_numpy()) for s in halves]
    return []
