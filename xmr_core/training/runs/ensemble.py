"""Several finished runs answering together."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from xmr_core.base import paths
from xmr_core.base.errors import BadInput
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.engine import MeanScores, Scoring, as_matrix
from xmr_core.training.runs.fetch import Run
from xmr_core.training.runs.judging import judged


def scoring_of(run: Run, split: str = "test") -> Scoring:
    """The scores of a finished run on a split, to be had block by block."""
    method = run.method()
    return Scoring(method.similarity, *encode_split(method, run.prepared().splits[split]))


def scores_of(run: Run, split: str = "test") -> np.ndarray:
    """The score matrix "i t" of a finished run on a split."""
    return as_matrix(scoring_of(run, split))


def ensemble_of(runs: Sequence[Run]) -> Run:
    """The runs as one: the plain mean of their scores, block by block, evaluated as a single run is.

    Scores are not brought to one scale first, as in the field (METHODS §1.6): that is right for runs of one method or of one
    similarity's range, and lets the larger scale speak louder otherwise. The result has the configuration of the first run,
    parameters and training seconds of all together, no history, no value on the validation split, and no folder of its own.
    Raises: BadInput for no run, or runs on different data.
    """
    if not runs:
        raise BadInput("an ensemble needs at least one run.")
    names = [run.prepared().identity["corpus"] for run in runs]
    if len(set(names)) > 1:
        raise BadInput(f"the runs of an ensemble must share one corpus, got {len(set(names))} different ones.")
    corpus = runs[0].prepared().corpus
    evaluation, metrics = judged(MeanScores([scoring_of(run) for run in runs]), corpus)
    record = {key: sum(run.record[key] for run in runs) for key in ("train_seconds", "parameters")}
    return Run(
        id="ensemble-" + paths.content_hash([run.id for run in runs]),
        folder=runs[0].folder,
        config=runs[0].config,
        record={**runs[0].record, **record, "members": [run.id for run in runs], "best_epoch": -1, "best_val": float("nan")},
        history=pd.DataFrame(),
        metrics=metrics,
        per_query=evaluation.per_query,
    )
