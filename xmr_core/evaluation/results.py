"""What was evaluated: numbers, ranks of every query, and where they came from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import pandas as pd

from xmr_core.base.machine import Environment
from xmr_core.evaluation.metrics import KS
from xmr_core.evaluation.stats import bootstrap_interval

# columns of a table of metrics: `value` of a metric at k, in one direction, by one kind of relevance, over n_queries
METRIC_COLUMNS = ["relevance", "direction", "metric", "k", "value", "n_queries"]


@dataclass(frozen=True)
class Setting:
    """What stands in a table beside a number. size: of the scenes ('quick'), '' for other corpora. epochs: 0 if
    untrained. world: seed of the scenes' world; 0 for other corpora.
    """

    method: str
    form: str
    dataset: str
    size: str = ""
    seed: int = 0
    epochs: int = 0
    world: int = 0


@dataclass(frozen=True)
class Provenance:
    """Where the numbers came from.

    Attributes:
        started_utc: ISO time. train_seconds: of a core, all threads together, on a CPU; wall clock on another device
            and for runs before 2026-11-23. evaluate_seconds: wall clock.
        parameters: how many numbers can be trained.
        environment: packages and machine.
        code: hash of the code that was run, '' where none was computed. versions: of the components that were run.
        best_epoch: 0-based, −1 where none was chosen. best_value: its RSUM on the validation split in [0, 6], or NaN.
        messages: warnings of the training. relevances: kinds of relevance that were evaluated.
        word_vector_coverage: share of the training captions' words with a vector from a file; None without a file.
        members: ids of the runs of an ensemble. model: source and identity of a model that was used as it is.
        files: digests of the files of a stored run, by name.
    """

    started_utc: str
    train_seconds: float
    parameters: int
    environment: Environment
    code: str = ""
    versions: Mapping[str, int | str] = field(default_factory=dict)
    best_epoch: int = -1
    best_value: float = math.nan
    evaluate_seconds: float = 0.0
    messages: tuple[str, ...] = ()
    relevances: tuple[str, ...] = ()
    word_vector_coverage: float | None = None
    members: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluated:
    """A method, an ensemble or a model from elsewhere, evaluated on the test split of a corpus.

    id: names it in tables and files. metrics: tidy values; columns relevance, direction, metric, k, value, n_queries.
    per_query: one row per relevance, direction and query; see Evaluation.per_query.

    >>> from xmr_core.base.machine import environment
    >>> provenance = Provenance("2026-11-22T09:00:00+00:00", 0.0, 10, environment("cpu"))
    >>> empty = pd.DataFrame(columns=METRIC_COLUMNS)
    >>> setting = Setting("zero-shot", "as it is", "coco")
    >>> Evaluated("zero-shot-coco-s0-1", setting, empty, pd.DataFrame(), provenance).setting.method
    'zero-shot'
    """

    id: str
    setting: Setting
    metrics: pd.DataFrame
    per_query: pd.DataFrame
    provenance: Provenance

    def with_metrics(self, rows: pd.DataFrame) -> Self:
        """The same with more rows of metrics, for tables; nothing on the disk changes."""
        return replace(self, metrics=pd.concat([self.metrics, rows[list(self.metrics)]], ignore_index=True))


def rsum_interval(per_query: pd.DataFrame, relevance: str, level: float = 0.95) -> tuple[float, float, float]:
    """(RSUM, low, high) in percent of one run, by resampling images."""
    own = per_query[per_query["relevance"] == relevance]
    parts = [
        (100 * table[f"R@{k}"].to_numpy(), table["image"].to_numpy())
        for _, table in own.groupby("direction")
        for k in KS
    ]
    return bootstrap_interval(parts, level)
