"""A pretrained dual encoder as a row beside trained runs: what a user would pick today."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from xmr_core.base import paths
from xmr_core.base.numerics import numerics_version
from xmr_core.base.provenance import environment
from xmr_core.data.corpora import corpus_of
from xmr_core.data.prepare import DataConfig
from xmr_core.evaluation.zero_shot import ZeroShot, zero_shot_scores
from xmr_core.training.runs.config import RunConfig, resolve_device
from xmr_core.training.runs.fetch import Run
from xmr_core.training.runs.judging import judged


def reference_run(source: Path | str, data: DataConfig, device: str = "auto", progress: Callable | None = None) -> Run:
    """The test split ranked by a CLIP- or SigLIP-style model as it comes; nothing is trained, and nothing chosen on validation.

    source: a local folder or a hub name of transformers. The result is a Run without a history, weights or a folder of its own;
    its id names corpus and model by content. Raises: what ZeroShot and zero_shot_scores raise.
    """
    where = resolve_device(device)
    corpus = corpus_of(data)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    model = ZeroShot(source, where)
    evaluation, metrics = judged(zero_shot_scores(model, corpus, progress=progress), corpus)
    numerics = numerics_version(zero_shot_scores, data.dataset)
    record = {
        "started_utc": started, "train_seconds": 0.0, "best_epoch": -1, "best_val": float("nan"), "messages": [],
        "parameters": sum(p.numel() for p in model.parameters()), "model": str(source), "model_identity": model.identity,
        "environment": {**environment(where), "numerics": numerics},
    }  # fmt: skip
    return Run(
        id="zero-shot-" + paths.content_hash([corpus.fingerprint, model.identity, numerics]),
        folder=paths.root(),
        config=RunConfig(data=data, method="zero-shot", form="as it comes", device=where),
        record=record,
        history=pd.DataFrame(),
        metrics=metrics,
        per_query=evaluation.per_query,
    )
