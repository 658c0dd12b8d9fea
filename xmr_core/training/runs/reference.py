"""A pretrained dual encoder as a row beside trained runs: what a user would pick today."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from xmr_core.base.devices import resolve_device
from xmr_core.base.provenance import environment
from xmr_core.data.corpora import corpus_of
from xmr_core.data.prepare import DataConfig
from xmr_core.evaluation.results import Evaluated, Provenance, Setting
from xmr_core.evaluation.zero_shot import ZeroShot, zero_shot_scores
from xmr_core.training.runs.config import readable_id
from xmr_core.training.runs.evaluate_corpus import evaluate_corpus
from xmr_core.training.runs.versions import STAGES


def zero_shot_reference(
    source: Path | str, data: DataConfig, device: str = "auto", progress: Callable | None = None
) -> Evaluated:
    """The test split ranked by a CLIP- or SigLIP-style model as it is; nothing is trained, and nothing chosen on
    validation.

    source: a local folder or a hub name of transformers. The id names corpus and model by content.
    Raises: what ZeroShot and zero_shot_scores raise.

    >>> zero_shot_reference("no/such/folder", DataConfig(size="tiny"), device="tpu")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: unknown device 'tpu'. ...
    """
    device = resolve_device(device)
    corpus = corpus_of(data)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    model = ZeroShot(source, device)
    evaluation, metrics = evaluate_corpus(zero_shot_scores(model, corpus, progress=progress), corpus)
    size = data.size if data.dataset == "scenes" else ""
    return Evaluated(
        id=readable_id("zero-shot", data.dataset, 0, [corpus.fingerprint, model.identity, STAGES["evaluation"]]),
        setting=Setting("zero-shot", "as it comes", data.dataset, size),
        metrics=metrics,
        per_query=evaluation.per_query,
        provenance=Provenance(
            started_utc=started,
            train_seconds=0.0,
            parameters=sum(p.numel() for p in model.parameters()),
            environment=environment(device),
            relevances=tuple(sorted(corpus.relevance_sets)),
            model=(str(source), model.identity),
        ),
    )
