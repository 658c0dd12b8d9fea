"""Several finished runs that score together."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.evaluate import Evaluated, evaluate_corpus
from xmr_core.evaluation.ranks import MeanScores, Scoring, as_matrix
from xmr_core.training.runs.config import readable_id
from xmr_core.training.runs.folder import TrainedRun


def scoring_of(run: TrainedRun, split: str = "test") -> Scoring:
    """The scores of a finished run on a split, block by block."""
    method = run.method()
    return Scoring(method.similarity, *encode_split(method, run.prepared().splits[split]))


def scores_of(run: TrainedRun, split: str = "test") -> np.ndarray:
    """The score matrix "i t" of a finished run on a split.

    >>> from xmr_core.training.runs.config import base_config
    >>> from xmr_core.training.runs import train_or_load
    >>> scores_of(train_or_load(base_config("vse++", device="cpu", size="tiny", d=8, epochs=1)), "val").shape
    (32, 160)
    """
    return as_matrix(scoring_of(run, split))


def ensemble_of(runs: Sequence[TrainedRun]) -> Evaluated:
    """The runs as one: the plain mean of their scores, block by block, evaluated as a single run is.

    Scores are not brought to one scale first, as in the field: that is right for runs of one method or of one range of
    similarity, and gives a larger scale more weight otherwise. The result stands in tables under the first run's
    setting, with parameters and training seconds of all together; it has no model, no history and no value on the
    validation split. Raises: BadInput for no run, or runs on different data.

    >>> ensemble_of([])
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: the runs of an ensemble must share one corpus, got 0.
    """
    corpora = {run.prepared().identity["corpus"] for run in runs}
    if len(corpora) != 1:
        raise BadInput(f"the runs of an ensemble must share one corpus, got {len(corpora)}.")
    first, members = runs[0], tuple(run.id for run in runs)
    evaluation, metrics = evaluate_corpus(MeanScores([scoring_of(run) for run in runs]), first.prepared().corpus)
    sums = {name: sum(getattr(run.provenance, name) for run in runs) for name in ("train_seconds", "parameters")}
    unchosen = {"best_epoch": -1, "best_value": float("nan"), "files": {}}
    provenance = replace(first.provenance, members=members, **sums, **unchosen)
    name = readable_id("ensemble", first.setting.dataset, first.setting.seed, members)
    return Evaluated(name, first.setting, metrics, evaluation.per_query, provenance)
