"""One run: loaded if it is finished, continued if it was interrupted, trained if it is new."""

import platform
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput
from xmr_core.base.machine import environment
from xmr_core.base.types import Relevance
from xmr_core.data.batches import ORACLES, UNKNOWN_ID, Augmentation, Batches, Split
from xmr_core.data.prepare import Prepared, prepare
from xmr_core.evaluation.analysis.representations import encode_split, evaluate_split, set_spread
from xmr_core.evaluation.evaluate import Provenance, evaluate
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build, full_options
from xmr_core.training.distributed import joined, started_ranks
from xmr_core.training.loop import OneRank, OwnState, train
from xmr_core.training.runs.config import RunConfig, code_of
from xmr_core.training.runs.folder import (
    CONFIG,
    MODEL,
    TEXT_IDS,
    TrainedRun,
    load_finished,
    resolve_run,
    warn_of_versions,
    write_record,
)
from xmr_core.training.runs.folder import load as load_run
from xmr_core.training.runs.mining import hard_images

STATE = "state.sealed"
Report = Callable[[dict], None]


def silent(event: dict) -> None:
    """The `report` that does nothing."""


def report_of(run_id: str, report: Report) -> Report:
    """A user's `report` for one run: it receives a copy of each event with the id under 'run'.

    >>> seen = []
    >>> report_of("dive-1", seen.append)({"loss": 0.5})
    >>> seen
    [{'run': 'dive-1', 'loss': 0.5}]
    """
    return report if report is silent else lambda event: report({"run": run_id, **event})


@dataclass(frozen=True)
class Plan:
    """A run that was asked for: its configuration, its identity, and the kinds of relevance its corpus has now."""

    config: RunConfig
    identity: dict[str, Any]
    relevances: frozenset[str]

    @cached_property
    def id(self) -> str:
        return self.config.run_id(self.identity)

    @property
    def folder(self) -> Path:
        return paths.root() / "runs" / self.id

    def finished(self) -> TrainedRun | None:
        """The run from its folder, or None. One that has not been evaluated by all kinds of relevance is so now."""
        run = load_finished(self.folder, self.config, self.identity)
        if run is not None and not self.relevances <= set(run.provenance.relevances):
            # a file of relevances was added after the training
            with files.locked(self.folder / "lock"), OwnState(self.config.train, self.config.device).inside():
                method = run.method().to(self.config.device)
                _evaluate(method, prepare(self.config.data), self.folder, run.provenance)
            run = load_finished(self.folder, self.config, self.identity)
        return run


def plan_run(config: RunConfig) -> Plan:
    """Check a configuration, read its data (features are extracted here, once) and name the run. Raises: BadInput."""
    full_options(config.method, config.form, config.options)
    if config.mined_by:  # a short name may mean another run tomorrow
        config = replace(config, mined_by=resolve_run(config.mined_by))
    prepared = prepare(config.data, device=config.device)
    return Plan(config, config.identity(prepared.identity), frozenset(prepared.corpus.relevance_sets))


def train_or_load(config: RunConfig, report: Report = silent) -> TrainedRun:
    """The run of a configuration: loaded, continued, or trained.

    When two processes ask for the same run, one trains it and the other waits and loads it. A damaged file of a
    finished run is noticed, said in one warning, and made again from the last checkpoint.

    Args: report: called after each step and each epoch of a training with a dict of numbers and the run's id; see
        training.train and docs/library.md#library-trackers. It cannot change the run; what it raises ends the training.
    Raises: BadInput before any work, when the method does not take the options; whatever train raises.

    >>> from xmr_core.training.runs.config import base_config
    >>> run = train_or_load(base_config("vse++", device="cpu", size="tiny", d=8, epochs=1))
    >>> len(run.history), run.provenance.best_epoch
    (1, 0)
    """
    plan = plan_run(config)
    together = config.processes > 1 and started_ranks() > 1  # then all ranks decide together whether it is finished
    if not together and (run := plan.finished()) is not None:
        warn_of_versions([run])
        return run
    return produce(plan, report_of(plan.id, report))


def produce(plan: Plan, report: Report = silent) -> TrainedRun:
    """Train or continue a planned run that is not finished. Another process that trains it is waited for."""
    config, identity = plan.config, plan.identity
    with joined(config.processes, config.device) if config.processes > 1 else nullcontext(OneRank()) as ranks:
        folder = files.make_folder(plan.folder)  # rank 0 locks it, and is the only one that writes
        with files.locked(folder / "lock") if ranks.first else nullcontext():
            run = ranks.from_first(lambda: load_finished(folder, config, identity, locked=True))
            if run is not None:  # another process finished it
                return run
            try:
                _train(plan, report if ranks.first else silent, ranks)
            except Exception:
                if ranks.first and not (folder / STATE).exists():  # it cannot be continued, so it is no run
                    (folder / CONFIG).unlink(missing_ok=True)
                raise
        ranks.from_first(bool)  # wait until it is evaluated
        return load_finished(folder, config, identity)


def _train(plan: Plan, report: Report, ranks: OneRank) -> None:
    config, folder, prepared = plan.config, plan.folder, prepare(plan.config.data, device=plan.config.device)
    started, messages = datetime.now(UTC).isoformat(timespec="seconds"), prepared.unread()
    if ranks.first:
        for message in messages:
            warnings.warn(message, stacklevel=2)
        for left_over in folder.glob(".*.tmp"):  # of a process that was killed while it wrote
            left_over.unlink(missing_ok=True)
        lasting = replace(config, data=config.data.absolute())
        files.write_record(folder / CONFIG, {"config": asdict(lasting), "identity": plan.identity})
    with (own := OwnState(config.train, config.device)).inside():
        code = code_of(config.method, config.data.dataset)  # now, because files may be edited during the training
        torch.manual_seed(config.train.seed)
        method = build(config.method, prepared.inputs, config.form, **config.options).to(config.device)
        prepared.load_pretrained(method)
    truth = config.positives in ORACLES and prepared.corpus.relevance_sets.get("exhaustive")
    batches = Batches(
        prepared.splits["train"], config.batch_images, config.captions_per_image, config.train.seed, config.unit,
        config.positives, _augmentation(config, prepared), truth("train") if truth else None,
    )  # fmt: skip
    miner = partial(_mined, prepared=prepared, k=config.hard_negatives) if config.hard_negatives else None
    if miner and config.mined_by:
        first, miner = load_run(config.mined_by), None
        if first.prepared().corpus.fingerprint != prepared.corpus.fingerprint:
            raise BadInput(f"{config.mined_by} was trained on another corpus, whose captions it would mine.")
        batches.hard = _mined(first.method().to(config.device), first.prepared(), config.hard_negatives)
    readers = 1 if prepared.inputs.image_width else 2  # pixels are decoded anew for every batch
    # a state of another torch or architecture is not continued: the result would be that of neither; code is only told
    whose = {"owner": f"{plan.id} torch {torch.__version__} {platform.machine()}", "code": code, "own": own}
    validation = prepared.splits["val"].first(config.val_images) if config.val_images else prepared.splits["val"]
    relevances = {"annotated": validation.relevance} | ({"exhaustive": truth("val")} if truth else {})
    validate = partial(_validated, split=validation, relevances=relevances)
    state = folder / STATE if ranks.first else None
    whose |= {"readers": readers, "ranks": ranks, "miner": miner}
    history = train(method, batches, validate, config.train, state, report, **whose)
    if not ranks.first:
        return
    files.write_tensors(folder / MODEL, method.state_dict())
    files.write_table(folder / "history.csv", pd.DataFrame(history.epochs))
    provenance = Provenance(
        started_utc=started,
        train_seconds=history.seconds,
        parameters=method.n_parameters(),
        environment=environment(config.device),
        code=code,
        versions=plan.identity["versions"],
        best_epoch=history.best_epoch,
        best_value=history.best_value,
        messages=(*messages, *history.messages),
        word_vector_coverage=prepared.coverage,
    )
    with own.inside():
        _evaluate(method, prepared, folder, provenance)


def _validated(method: Method, split: Split, relevances: dict[str, Relevance]) -> dict[str, float]:
    """What chooses the epoch, RSUM in [0, 6] by the last kind of relevance; and, for the history alone, how spread out
    the sets are."""
    images, captions = encode_split(method, split)
    summary = evaluate(method.similarity, images, captions, relevances, device=method.device).summary()
    spread = {f"log variance {row.direction}": row.value for row in set_spread(images, captions).itertuples()}
    return {"value": float(summary.loc[summary["metric"] == "rsum", "value"].iloc[-1]), **spread}


def _mined(method: Method, prepared: Prepared, k: int) -> np.ndarray:
    """mining.hard_images of the training split, by all kinds of relevance that know something there. Plausible matches
    are none: those share objects, and many of them are wrong."""
    relevances = []
    for name, relevance in prepared.corpus.relevance_sets.items():
        with suppress(BadInput):  # judged on test images alone
            relevances += [] if name.startswith("plausible") else [relevance("train")]
    return hard_images(method, prepared.splits["train"], relevances, k)


def _evaluate(method: Method, prepared: Prepared, folder: Path, provenance: Provenance) -> None:
    """Rank the test split by every kind of relevance of the corpus, and write the record, which completes the run."""
    clock = time.monotonic()
    per_query, metrics = evaluate_split(method, prepared.splits["test"], prepared.corpus)
    named = {} if pd.api.types.is_numeric_dtype(per_query["query"]) else {"query": TEXT_IDS}
    files.write_table(folder / "per_query.csv", per_query.rename(columns=named))
    files.write_table(folder / "metrics.csv", metrics)
    kinds, seconds = tuple(sorted(prepared.corpus.relevance_sets)), time.monotonic() - clock
    write_record(folder, replace(provenance, evaluate_seconds=seconds, relevances=kinds))


def _augmentation(config: RunConfig, prepared: Prepared) -> Augmentation:
    rules = (config.cell_drop, config.cell_rule, config.word_drop, config.word_rule, config.erase)
    if (pieces := prepared.pieces) and not prepared.inputs.text_width:
        return Augmentation(*rules, pieces.rows, special=pieces.special, unknown_id=pieces.mask, mask_id=pieces.mask)
    numbers = prepared.vocabulary.numbers if prepared.vocabulary else {}
    return Augmentation(*rules, prepared.inputs.vocabulary, mask_id=numbers.get("<mask>", UNKNOWN_ID))
