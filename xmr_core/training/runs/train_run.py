"""What a training says while it goes on: to a callable in this process, also from a training in another one."""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from tqdm import tqdm

from xmr_core.base import files, paths
from xmr_core.base.errors import require
from xmr_core.base.files import write_tensors
from xmr_core.base.machine import environment
from xmr_core.base.types import Corpus
from xmr_core.data.batches import UNKNOWN_ID, Augmentation, Batches
from xmr_core.data.prepare import Prepared, prepare
from xmr_core.evaluation.analysis.agreement import judgment_agreement
from xmr_core.evaluation.analysis.representations import encode_split, set_spread
from xmr_core.evaluation.evaluate import Evaluation, evaluate, evaluate_scores
from xmr_core.evaluation.results import Provenance
from xmr_core.evaluation.scoring import Scores, Scoring
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build, full_options
from xmr_core.training.distributed import OneRank, joined, started_ranks
from xmr_core.training.loop import OwnState, train
from xmr_core.training.runs.config import RunConfig, code_of, component_versions
from xmr_core.training.runs.folder import (
    MODEL,
    STATE,
    TrainedRun,
    begun,
    load_finished,
    warn_of_other_code,
    write_record,
)

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


class EventFile:
    """Events of a training in another process: lines of JSON in the folder of the run, which both processes see."""

    def __init__(self, folder: Path, ticket: str):
        self.ticket, self._path, self._position = ticket, folder / f"events-{ticket}.jsonl", 0

    def add(self, event: dict) -> None:
        """Append an event; the training process calls this."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def new(self) -> list[dict]:
        """The events since the last call, in order; the process that waits calls this."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._position)
                text = file.read()
        except OSError:  # none yet
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self._position += len(complete)
        return [json.loads(line) for line in complete.splitlines()]

    def remove(self) -> None:
        """Delete the file, when all events were read."""
        self._path.unlink(missing_ok=True)


# Experiment trackers, which follow a training by its events (`report=`).


_COUNTS = ("epoch", "epochs", "step", "steps", "seconds")


def scalars(event: dict) -> tuple[dict[str, float], int]:
    """The numbers of an event of training and the step that they belong to, as trackers take them.

    After a step that is the loss of its batch, 'loss'; after an epoch its means and the values on the validation split,
    as 'epoch/loss', 'epoch/value' and so on. The step counts from 1 over all epochs, and never falls within a run.

    >>> scalars({"run": "dive-1", "epoch": 1, "step": 3, "steps": 10, "epochs": 2, "loss": 0.5})
    ({'loss': 0.5}, 13)
    >>> scalars({"run": "dive-1", "epoch": 0, "steps": 10, "epochs": 2, "loss": 0.5, "value": 2.0, "epoch_done": True})
    ({'epoch/loss': 0.5, 'epoch/value': 2.0}, 10)
    """
    done = bool(event.get("epoch_done"))
    step = event["epoch"] * event["steps"] + (event["steps"] if done else event["step"])
    values = {name: v for name, v in event.items() if isinstance(v, float) and name not in _COUNTS}
    return {f"epoch/{name}" if done else name: float(v) for name, v in values.items()}, step


class TensorBoard:
    """A `report` that writes an event file for each run: folder/<run id>/events.out.tfevents.…

    `tensorboard --logdir folder` shows them. The numbers and steps are those of `scalars`.
    Raises: BadInput where the package tensorboard is not installed.

    Example: `train_or_load_all(configs, report=TensorBoard("logs"))`
    """

    def __init__(self, folder: Path | str):
        require("a log of TensorBoard", "tensorboard", "tensorboard")
        self.folder, self._writers = Path(folder).expanduser(), {}

    def __call__(self, event: dict) -> None:
        run = event.get("run", "run")
        if run not in self._writers:
            from torch.utils.tensorboard import SummaryWriter

            self._writers[run] = SummaryWriter(str(self.folder / run))
        values, step = scalars(event)
        for name, value in values.items():
            self._writers[run].add_scalar(name, value, step)
        if event.get("epoch_done"):
            self._writers[run].flush()

    def close(self) -> None:
        """Write what is still in memory and close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


# What a finished score matrix is worth: every kind of relevance, and agreement with graded judgments.


def evaluate_corpus(
    scores: Float[np.ndarray, "i t"] | Scores,
    corpus: Corpus,
    split: str = "test",
    done: Callable[[int], object] = lambda pairs: None,
) -> tuple[Evaluation, pd.DataFrame]:
    """(evaluation by all kinds of relevance of the corpus, its summary with a row of Kendall's τ_c for each kind of
    grade).

    scores: a matrix or Scores of the split's images and captions, in file order. A run, an ensemble and a pretrained
    dual encoder are all evaluated here. done: receives the number of pairs of each block that is done.
    """
    relevances = {kind: relevance_of(split) for kind, relevance_of in corpus.relevance_sets.items()}
    evaluation = evaluate_scores(scores, relevances, done=done)
    agreement = judgment_agreement(scores, relevances["annotated"], corpus.grades)
    return evaluation, pd.concat([evaluation.summary(), *([agreement] if len(agreement) else [])], ignore_index=True)


# One run: loaded if it is finished, continued if it was interrupted, trained if it is new.


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
        if run is None or self.relevances <= set(run.provenance.relevances):
            return run
        with filelock.FileLock(self.folder / "lock"):  # a file of relevances was added after the training
            run = load_finished(self.folder, self.config, self.identity, locked=True)
            if run is not None and not self.relevances <= set(run.provenance.relevances):
                with OwnState(self.config.train, self.config.device).inside():
                    method = run.method().to(self.config.device)
                    _evaluate(method, prepare(self.config.data), self.folder, run.provenance)
        return load_finished(self.folder, self.config, self.identity)


def plan_run(config: RunConfig) -> Plan:
    """Check a configuration, read its data (features are extracted here, once) and name the run. Raises: BadInput."""
    full_options(config.method, config.form, config.options)
    prepared = prepare(config.data, device=config.device)
    return Plan(config, config.identity(prepared.identity), frozenset(prepared.corpus.relevance_sets))


def train_or_load(config: RunConfig, report: Report = silent) -> TrainedRun:
    """The run of a configuration: loaded, continued, or trained.

    When two processes ask for the same run, one trains it and the other waits and loads it. A damaged file of a
    finished run is noticed, said in one warning, and made again from the last checkpoint.

    Args: report: called after each step and each epoch of a training with a dict of numbers and the run's id; see
        training.train and docs/library.md#library-trackers. It cannot change the run; what it raises ends the training.
    Raises: BadInput before any work, when the method does not take the options; whatever train raises.

    >>> from xmr_core.training.runs.presets import base_config
    >>> run = train_or_load(base_config("vse++", device="cpu", size="tiny", d=8, epochs=1))
    >>> len(run.history), run.provenance.best_epoch
    (1, 0)
    """
    plan = plan_run(config)
    together = config.processes > 1 and started_ranks() > 1  # then all ranks decide together whether it is finished
    if not together and (run := plan.finished()) is not None:
        warn_of_other_code([run])
        return run
    return produce(plan, report_of(plan.id, report))


def produce(plan: Plan, report: Report = silent) -> TrainedRun:
    """Train or continue a planned run that is not finished. Another process that trains it is waited for."""
    with joined(plan.config.processes, plan.config.device) as ranks:
        if not ranks.first:  # rank 0 locks the folder, and is the only one that writes
            if not ranks.from_first(bool):
                _train(plan, None, silent, ranks)
                ranks.from_first(bool)  # wait until it is evaluated
            return load_finished(plan.folder, plan.config, plan.identity)
        folder = files.make_folder(plan.folder)
        with filelock.FileLock(folder / "lock"):
            run = load_finished(folder, plan.config, plan.identity, locked=True)
            if ranks.from_first(lambda: run is not None):  # another process finished it
                return run
            for left_over in folder.glob(".*.tmp"):  # of a process that was killed while it wrote
                left_over.unlink(missing_ok=True)
            with begun(folder, plan.config, plan.identity):
                _train(plan, folder, report, ranks)
        ranks.from_first(lambda: True)
        return load_finished(folder, plan.config, plan.identity)


def _train(plan: Plan, folder: Path | None, report: Report, ranks: OneRank) -> None:
    """folder: None on a rank that does not write."""
    config, prepared = plan.config, prepare(plan.config.data, device=plan.config.device)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with (own := OwnState(config.train, config.device)).inside():
        code = code_of(config.method, config.data.dataset)  # now, because files may be edited during the training
        torch.manual_seed(config.train.seed)
        method = build(config.method, prepared.inputs, config.form, **config.options).to(config.device)
        prepared.load_pretrained(method)
    batches = Batches(
        prepared.splits["train"], config.batch_images, config.captions_per_image, config.train.seed, config.unit,
        config.positives, _augmentation(config, prepared),
    )  # fmt: skip
    readers = 1 if prepared.inputs.image_width else 2  # pixels are decoded anew for every batch
    # a state of another torch or architecture is not continued: the result would be that of neither; code is only told
    whose = {"owner": f"{plan.id} torch {torch.__version__} {platform.machine()}", "code": code, "own": own}
    validate, state = _validator(prepared, config.val_images), None if folder is None else folder / STATE
    history = train(method, batches, validate, config.train, state, report, readers=readers, ranks=ranks, **whose)
    if folder is None:
        return
    write_tensors(folder / MODEL, method.state_dict())
    files.write_table(folder / "history.csv", pd.DataFrame(history.epochs))
    provenance = Provenance(
        started_utc=started,
        train_seconds=history.seconds,
        parameters=method.n_parameters(),
        environment=environment(config.device),
        code=code,
        versions=component_versions(config.method, config.data.dataset),
        best_epoch=history.best_epoch,
        best_value=history.best_value,
        messages=tuple(history.messages),
        word_vector_coverage=prepared.coverage,
    )
    with own.inside():
        _evaluate(method, prepared, folder, provenance)


def _evaluate(method: Method, prepared: Prepared, folder: Path, provenance: Provenance) -> None:
    """Rank the test split by every kind of relevance of the corpus, and write the record, which completes the run."""
    clock = time.monotonic()
    images, captions = encode_split(method, prepared.splits["test"])
    pairs = len(images) * len(captions)
    with tqdm(total=pairs, desc="scoring", unit=" pairs", unit_scale=True, leave=False, delay=5, disable=None) as bar:
        scores = Scoring(method.similarity, images, captions, device=method.device)
        evaluation, metrics = evaluate_corpus(scores, prepared.corpus, done=bar.update)
    files.write_table(folder / "per_query.csv", evaluation.per_query)
    files.write_table(folder / "metrics.csv", pd.concat([metrics, set_spread(images, captions)], ignore_index=True))
    kinds, seconds = tuple(sorted(prepared.corpus.relevance_sets)), time.monotonic() - clock
    write_record(folder, replace(provenance, evaluate_seconds=seconds, relevances=kinds))


def _augmentation(config: RunConfig, prepared: Prepared) -> Augmentation:
    rules = (config.cell_drop, config.cell_rule, config.word_drop, config.word_rule, config.erase)
    if prepared.pieces and not prepared.inputs.text_width:
        mask = prepared.pieces.mask
        return Augmentation(
            *rules, words=prepared.pieces.rows, special=prepared.pieces.special, unknown_id=mask, mask_id=mask
        )
    numbers = prepared.vocabulary.numbers if prepared.vocabulary else {}
    return Augmentation(*rules, words=len(numbers), mask_id=numbers.get("<mask>", UNKNOWN_ID))


def _validator(prepared: Prepared, n_images: int = 0) -> Callable[[Method], dict[str, float]]:
    """The function that chooses the epoch.

    It gives RSUM by the annotated relevance of the validation split (of its first n_images images, 0 for all), in [0,
    6]; and, for the history alone, how spread out the sets are.
    """
    split = prepared.splits["val"].first(n_images) if n_images else prepared.splits["val"]

    def validate(method: Method) -> dict[str, float]:
        images, captions = encode_split(method, split)
        summary = evaluate(
            method.similarity, images, captions, {"annotated": split.relevance}, device=method.device
        ).summary()
        spread = {f"log variance {row.direction}": row.value for row in set_spread(images, captions).itertuples()}
        return {"value": float(summary.loc[summary["metric"] == "rsum", "value"].iloc[0]), **spread}

    return validate
