"""One run: loaded if it is finished, continued if it was interrupted, trained if it is new."""

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import filelock
import pandas as pd
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from tqdm import tqdm

from xmr_core.base import paths
from xmr_core.base.errors import DamagedFile
from xmr_core.base.provenance import environment
from xmr_core.data.augment import UNKNOWN_ID, Augmentation
from xmr_core.data.batches import Batches
from xmr_core.data.prepare import Prepared, prepare
from xmr_core.evaluation.analysis.representations import encode_split, set_spread
from xmr_core.evaluation.engine import Scoring
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.methods.checkpoints import save_method
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build, check_options
from xmr_core.training import train
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.judging import judged


@dataclass(frozen=True)
class Run:
    """A finished run. metrics: tidy values (relevance, direction, metric, k, value). per_query: ranks of every test query."""

    id: str
    folder: Path
    config: RunConfig
    record: dict
    history: pd.DataFrame
    metrics: pd.DataFrame
    per_query: pd.DataFrame

    def method(self) -> Method:
        """The trained method, in eval mode, on the CPU. Raises DamagedFile when its weights file was altered."""
        prepared = prepare(self.config.data)
        method = build(self.config.method, prepared.inputs, self.config.form, **self.config.options)
        method.load_state_dict(load_tensors(paths.read_sealed(self.folder / "model.sealed")))
        return method.eval()

    def export(self, path: str | Path) -> Path:
        """Write the trained method as one safetensors file that needs neither this run nor its corpus (checkpoints.load_method)."""
        prepared, config = self.prepared(), self.config
        about = {name: getattr(config.data, name) for name in ("dataset", "image_model", "text_model")}
        about |= {"run": self.id, "record": {k: v for k, v in self.record.items() if k != "files"}}
        return save_method(
            path, self.method(), prepared.inputs, prepared.vocabulary or prepared.pieces, config.form, dict(config.options), about
        )

    def with_metrics(self, rows: pd.DataFrame) -> "Run":
        """The same run with more numbers (relevance, direction, metric, k, value, n_queries), for tables; nothing is kept on disk."""
        return replace(self, metrics=pd.concat([self.metrics, rows[list(self.metrics)]], ignore_index=True))

    def prepared(self) -> Prepared:
        """The corpus, features and words it was trained on."""
        return prepare(self.config.data)


def fetch(config: RunConfig, report: Callable[[dict], None] = lambda event: None) -> Run:
    """The run of a config. Two processes asking for the same run do not both train it: the second waits, then loads.

    report: receives training events (see train.train). A damaged record or checkpoint is rebuilt, and a warning says so.
    Raises: BadInput before any work when the recipe does not take the options; what train.train raises.
    """
    check_options(config.method, dict(config.options))
    prepared = prepare(config.data, device=config.device)
    run_id = config.run_id(prepared.identity)
    folder = paths.make_folder(paths.folder("runs") / run_id)
    if (run := _load(run_id, folder, config)) is not None:
        return _with_all_judges(run, prepared)
    with filelock.FileLock(folder / "lock"):
        if (run := _load(run_id, folder, config)) is not None:  # another process finished it while we waited
            return run
        for left_over in folder.glob(".*.tmp"):  # of a process that was killed while writing
            left_over.unlink(missing_ok=True)
        paths.write_json(folder / "config.json", {"config": asdict(config), "identity": config.identity(prepared.identity)})
        _train(config, prepared, folder, report)
    return _load(run_id, folder, config)


def _with_all_judges(run: Run, prepared: Prepared) -> Run:
    """The run, judged again if the corpus has a kind of relevance that it had not when it was trained (a file was added since)."""
    if set(prepared.corpus.judges) <= set(run.record.get("judges", prepared.corpus.judges)):
        return run
    with filelock.FileLock(run.folder / "lock"):
        _judge(run.method().to(run.config.device), prepared, run.folder, run.record)
    return _load(run.id, run.folder, run.config)


def _train(config: RunConfig, prepared: Prepared, folder: Path, report: Callable) -> None:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    torch.manual_seed(config.train.seed)
    method = build(config.method, prepared.inputs, config.form, **config.options).to(config.device)
    prepared.load_pretrained(method)
    batches = Batches(
        prepared.splits["train"], config.batch_images, config.captions_per_image, config.train.seed, config.unit, config.positives,
        _augmentation(config, prepared),
    )  # fmt: skip
    readers = 1 if prepared.inputs.image_width else 2  # pixels are decoded anew for every batch
    validate = _validator(prepared, config.val_images)
    history = train(method, batches, validate, config.train, folder / "state.sealed", report, readers=readers)

    paths.write_sealed(folder / "model.sealed", save_tensors({k: v.contiguous().cpu() for k, v in method.state_dict().items()}))
    _write_table(folder / "history.csv", pd.DataFrame(history.epochs))
    record = {
        "started_utc": started,
        "train_seconds": history.seconds,
        "best_epoch": history.best_epoch,
        "best_val": history.best_value,
        "messages": history.messages,
        "parameters": method.n_parameters(),
        "word_vector_coverage": prepared.coverage,
        "environment": {**environment(config.device), "numerics": config.numerics()},
    }
    _judge(method, prepared, folder, record)


def _judge(method: Method, prepared: Prepared, folder: Path, record: dict) -> None:
    """Rank the test split for every judge of the corpus, and write the record."""
    clock = time.monotonic()
    images, captions = encode_split(method, prepared.splits["test"])
    pairs = len(images) * len(captions)
    with tqdm(total=pairs, desc="scoring", unit=" pairs", unit_scale=True, leave=False, delay=5, disable=None) as bar:
        scores = Scoring(method.similarity, images, captions, device=method.device)
        evaluation, metrics = judged(scores, prepared.corpus, progress=bar.update)
    _write_table(folder / "per_query.csv", evaluation.per_query)
    _write_table(folder / "metrics.csv", pd.concat([metrics, set_spread(images, captions)], ignore_index=True))
    files = {p: paths.file_hash(folder / p) for p in ("model.sealed", "per_query.csv", "metrics.csv", "history.csv")}
    changed = {" ".join(key): share for key, share in evaluation.changed.items()}
    spent = {"evaluate_seconds": time.monotonic() - clock, "ranks_changed_by_float32": changed, "judges": sorted(prepared.corpus.judges)}
    paths.write_json(folder / "record.json", {**record, **spent, "files": files})  # last: its presence says that all else is complete


def _augmentation(config: RunConfig, prepared: Prepared) -> Augmentation:
    asked = (config.cell_drop, config.cell_rule, config.word_drop, config.word_rule, config.erase)
    if prepared.pieces and not prepared.inputs.text_width:
        mask = prepared.pieces.mask
        return Augmentation(*asked, words=prepared.pieces.rows, special=prepared.pieces.special, unknown_id=mask, mask_id=mask)
    numbers = prepared.vocabulary.numbers if prepared.vocabulary else {}
    return Augmentation(*asked, words=len(numbers), mask_id=numbers.get("<mask>", UNKNOWN_ID))


def _validator(prepared: Prepared, n_images: int = 0) -> Callable[[Method], dict[str, float]]:
    """Selection value: RSUM on the annotated relevance of the validation split (its first n_images pictures), in [0, 6]; and how
    spread out the sets are there, which no epoch is chosen by."""
    side = prepared.splits["val"].first(n_images) if n_images else prepared.splits["val"]

    def validate(method: Method) -> dict[str, float]:
        images, captions = encode_split(method, side)
        summary = evaluate(method.similarity, images, captions, {"annotated": side.relevance}, device=method.device).summary()
        spread = {f"log variance {row.direction}": row.value for row in set_spread(images, captions).itertuples()}
        return {"value": float(summary.loc[summary["metric"] == "rsum", "value"].iloc[0]), **spread}

    return validate


def _load(run_id: str, folder: Path, config: RunConfig) -> Run | None:
    """The finished run in a folder, or None; a finished run with a damaged file counts as unfinished, and is said so."""
    record_file = folder / "record.json"
    if not record_file.exists():
        return None
    try:
        record = paths.read_json(record_file)
        for name, digest in record["files"].items():
            if not (folder / name).exists() or paths.file_hash(folder / name) != digest:
                raise DamagedFile(f"{folder / name} is missing or altered.")
        tables = {name: pd.read_csv(folder / f"{name}.csv", keep_default_na=False) for name in ("history", "metrics", "per_query")}
    except (DamagedFile, KeyError, ValueError) as e:
        warnings.warn(f"run {run_id} is damaged and is made again from its last checkpoint: {e}", stacklevel=2)
        record_file.unlink(missing_ok=True)
        return None
    for message in record["messages"]:
        warnings.warn(f"run {run_id}: {message}", stacklevel=2)
    return Run(run_id, folder, config, record, **tables)


def _write_table(path: Path, table: pd.DataFrame) -> None:
    paths.write_atomic(path, table.to_csv(index=False, float_format="%.17g"))  # 17 digits give every double back exactly
