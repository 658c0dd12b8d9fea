"""A trained run: what was evaluated, and the model; and its folder, in which each file is bound to that run: files of
another run and altered files are noticed."""

import platform
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import filelock
import pandas as pd
import torch
from safetensors.torch import load as load_tensors

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.fingerprint import bytes_hash, file_hash
from xmr_core.base.machine import Environment
from xmr_core.data.prepare import DataConfig, Prepared, prepare
from xmr_core.evaluation.evaluate import Evaluated, Provenance
from xmr_core.evaluation.metrics import random_rsum
from xmr_core.methods.method import Method
from xmr_core.methods.model_file import save_method
from xmr_core.methods.registry import build, method_spec
from xmr_core.training.loop import TrainConfig
from xmr_core.training.runs.config import RunConfig, component_versions
from xmr_core.training.runs.names import CONFIG, RECORD, resolve_run

MODEL, STATE = "model.safetensors", "state.sealed"
TABLES = ("history", "metrics", "per_query")
FILES = (CONFIG, MODEL, *(f"{name}.csv" for name in TABLES))


@dataclass(frozen=True)
class TrainedRun(Evaluated):
    """A finished run: what was evaluated, and the model.

    folder: where its files lie. history: one row per epoch, with the loss and its terms, the learning rate and the
    value on the validation split.

    >>> from xmr_core.training.runs.presets import base_config
    >>> from xmr_core.training.runs import train_or_load
    >>> run = train_or_load(base_config("vse++", device="cpu", size="tiny", d=8, epochs=1))
    >>> run.method().name, run.setting.dataset
    ('vse++', 'scenes')
    """

    folder: Path
    config: RunConfig
    history: pd.DataFrame

    def weights(self) -> dict:
        """The trained tensors by name, on the CPU. Raises: DamagedFile when their file was altered or is gone."""
        path = self.folder / MODEL
        content = path.read_bytes() if path.is_file() else b""
        if bytes_hash(content) != self.provenance.files[MODEL]:
            raise DamagedFile(f"{path} was altered since the run was trained. Train the run again.")
        return load_tensors(content)

    def method(self) -> Method:
        """The trained method, in eval mode, on the CPU. Raises: DamagedFile when its weights were altered."""
        method = build(self.config.method, self.prepared().inputs, self.config.form, **self.config.options)
        method.load_state_dict(self.weights())
        return method.eval()

    def prepared(self) -> Prepared:
        """The corpus, features and words that the run was trained on."""
        return prepare(self.config.data)

    def chance(self) -> tuple[float, float, float]:
        """(mean, low, high) of the annotated RSUM of random rankings of this test split, 95 % between low and high."""
        relevance = self.prepared().splits["test"].relevance
        galleries = {"i2t": len(relevance.query_ids), "t2i": len(relevance.gallery_ids)}
        return random_rsum(self.per_query[self.per_query["relevance"] == "annotated"], galleries)

    def export(self, path: str | Path) -> Path:
        """Write the method as one safetensors file that needs neither this run nor its corpus; xmr.load and
        checkpoints.load_method read it. A path that does not end in .safetensors gets that ending; returns the path.
        """
        path = Path(path)
        path = path if path.suffix == ".safetensors" else path.with_name(f"{path.name}.safetensors")
        prepared, config = self.prepared(), self.config
        about = {name: getattr(config.data, name) for name in ("dataset", "features", "image_model", "text_model")}
        record = {name: value for name, value in asdict(self.provenance).items() if name != "files"}
        about |= {"run": self.id, "record": record}
        words = prepared.vocabulary or prepared.pieces
        return save_method(path, self.method(), prepared.inputs, words, config.form, dict(config.options), about)


def write_record(folder: Path, provenance: Provenance) -> None:
    """Write where the numbers came from, with digests of all other files. Its presence says that the run is
    finished.
    """
    digests = {name: file_hash(folder / name) for name in FILES}
    files.write_record(folder / RECORD, {**asdict(provenance), "files": digests, "run": folder.name})


def read_run(folder: Path, config: RunConfig | None = None, identity: dict | None = None) -> TrainedRun:
    """The finished run in a folder.

    config, identity: what the run must be; without them, the configuration that lies in the folder and the identity it
    leads to. Raises: DamagedFile in one line for a file that is missing, altered, or belongs to another run.
    """
    provenance = _read_provenance(folder)
    for path in (folder / name for name in FILES):
        if not path.is_file() or file_hash(path) != provenance.files.get(path.name):
            raise DamagedFile(f"{path} is missing or altered.")
    own_config, own_identity = _read_config(folder / CONFIG)
    config, identity = config or own_config, identity or own_identity
    if files.as_json(identity) != own_identity or folder.name != config.run_id(identity):
        raise DamagedFile(f"{folder / CONFIG} is the configuration of another run or version of this package.")
    history, metrics, per_query = (pd.read_csv(folder / f"{name}.csv", keep_default_na=False) for name in TABLES)
    return TrainedRun(folder.name, config.setting, metrics, per_query, provenance, folder, config, history)


def load_finished(folder: Path, config: RunConfig, identity: dict, locked: bool = False) -> TrainedRun | None:
    """The finished run in a folder, or None. A damaged one counts as unfinished, and a warning says so.

    locked: the caller holds the folder's lock. Else a run that looks damaged is read again under it, because another
    process may be writing the files anew.
    """
    if not (folder / RECORD).exists():
        return None
    try:
        run = read_run(folder, config, identity)
    except (BadInput, DamagedFile) as e:
        if not locked:
            with filelock.FileLock(folder / "lock"):
                return load_finished(folder, config, identity, locked=True)
        warnings.warn(f"run {folder.name} is damaged and is made again from its last checkpoint: {e}", stacklevel=2)
        (folder / RECORD).unlink(missing_ok=True)
        return None
    for message in run.provenance.messages:
        warnings.warn(f"run {run.id}: {message}", stacklevel=2)
    return run


def load(run_id: str) -> TrainedRun:
    """A finished run as it lies in the folder `runs`; nothing is trained. Warns when it was made by other versions
    of components, another torch or another processor.

    run_id: the id, a short name ('dive-1', as `python -m xmr_core runs` lists them) or a beginning that one id has.
    Raises: BadInput for a name that is not there, is not finished or means several, or a method that this process does
        not know; DamagedFile for a run whose files were altered.

    >>> load("dive-scenes-s0-1a2b3c4d5e")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: unknown run 'dive-scenes-s0-1a2b3c4d5e'...
    """
    run_id = resolve_run(run_id)
    try:
        run = read_run(paths.root() / "runs" / run_id)
    except DamagedFile as e:
        raise DamagedFile(f"run {run_id} is damaged: {e} Train it again.") from None
    except BadInput as e:
        about = "A method of your own must be on the Python path, or registered."
        raise BadInput(f"run {run_id} cannot be read here: {e} {about}") from None
    warn_of_other_versions([run])
    return run


def warn_of_other_versions(runs: Sequence[TrainedRun]) -> None:
    """One warning when runs were made by other versions of components, another torch or another processor."""
    reasons = {run.id: text for run in runs if (text := _difference(run))}
    if reasons:
        first, text = next(iter(reasons.items()))
        message = f"{len(reasons)} of {len(runs)} runs were made by other versions than these ({first}: {text})."
        warnings.warn(message, stacklevel=3)


def _difference(run: TrainedRun) -> str:
    made, now = run.provenance, component_versions(run.config.method, run.config.data.dataset)
    then = {**made.versions, "torch": made.environment.torch, "machine": made.environment.machine}
    now |= {"torch": str(torch.__version__), "machine": platform.machine()}
    return ", ".join(f"{name} {then.get(name)}, now {value}" for name, value in now.items() if then.get(name) != value)


def _read_provenance(folder: Path) -> Provenance:
    record = files.read_record(folder / RECORD)
    if record.pop("run", None) != folder.name:
        raise DamagedFile(f"{folder / RECORD} is the record of another run.")
    record.pop("ranks_changed", None)  # of runs that wrote it
    try:
        lists = {name: tuple(record[name]) for name in ("messages", "relevances", "members", "model")}
        return Provenance(**{**record, **lists, "environment": Environment(**record["environment"])})
    except (KeyError, TypeError) as e:
        raise DamagedFile(f"{folder / RECORD} is not one that this version wrote ({e}).") from None


def _read_config(path: Path) -> tuple[RunConfig, dict]:
    """(configuration, identity) of a run. Raises: DamagedFile when the one does not lead to the other."""
    stored = files.read_record(path)
    try:
        config, identity = stored["config"], stored["identity"]
        method_spec(config["method"])  # not known here is no fault of the file
        data = {name: value for name, value in config["data"].items() if name != "weights" or value}  # once a field
        config = RunConfig(**{**config, "data": DataConfig(**data), "train": TrainConfig(**config["train"])})
        expected = files.as_json({**config.identity(identity["data"]), "versions": identity["versions"]})
    except (KeyError, TypeError) as e:
        raise DamagedFile(f"{path} is not one that this version wrote ({e}).") from None
    if identity != expected:
        raise DamagedFile(f"{path} names another run than its configuration leads to, or is of another version.")
    return config, identity
