"""The folder of runs: a trained run and its files, each bound to that run, so that files of another run and altered
files are noticed; and which runs there are, with the short names by which people call them."""

import platform
import shutil
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import filelock
import pandas as pd
import torch
from safetensors.torch import load as load_tensors

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput, DamagedFile, unknown
from xmr_core.base.fingerprint import bytes_hash, file_hash
from xmr_core.base.machine import Environment
from xmr_core.base.types import Corpus
from xmr_core.data.config import FEATURES
from xmr_core.data.prepare import DataConfig, Prepared, prepare
from xmr_core.evaluation.evaluate import EvaluatedSplit, Provenance
from xmr_core.evaluation.metrics import expected_random_rsum
from xmr_core.methods.checkpoint import save_method
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build, method_spec
from xmr_core.training.loop import TrainConfig
from xmr_core.training.runs.config import RunConfig, component_versions, id_word

CONFIG, RECORD, MODEL = "config.json", "record.json", "model.safetensors"
TABLES = ("history", "metrics", "per_query")
TEXT_IDS = "query (text)"  # the column of per_query.csv where ids are no numbers: '0002' is another id than 2
FILES = (CONFIG, MODEL, *(f"{name}.csv" for name in TABLES))


@dataclass(frozen=True)
class TrainedRun(EvaluatedSplit):
    """A finished run: what was evaluated, and the model.

    folder: where its files lie. history: one row per epoch, with the loss and its terms, the learning rate and the
    value on the validation split.

    >>> from xmr_core.training.runs.config import base_config
    >>> from xmr_core.training.runs import train_or_load
    >>> run = train_or_load(base_config("vse++", device="cpu", size="tiny", d=8, epochs=1))
    >>> run.method().name, run.setting.dataset
    ('vse++', 'scenes')
    """

    folder: Path
    config: RunConfig
    history: pd.DataFrame
    split = "test"

    @property
    def corpus(self) -> Corpus:
        """The corpus that the run was trained on. Raises: as prepared."""
        return self.prepared().corpus

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
        """The corpus, features and words that the run was trained on. Raises: BadInput for what changed since."""
        data, now = self.config.data, prepare(self.config.data)
        before = now.identity
        if data.dataset != "scenes":
            before = files.read_record(self.folder / CONFIG)["identity"]["data"]
        names = {"corpus", "vocabulary", "words", "word_vectors"}
        names |= {"features"} if data.image_model or data.dual_model else set()
        names &= before.keys() | ({"words"} if not data.vocabulary else set())  # older runs do not name those of a file
        if changed := sorted(name for name in names if before.get(name) != now.identity.get(name)):
            fault = f"{self.id}: {', '.join(changed)} changed since it was trained"
            raise BadInput(f"{fault}, or the rule of words did. Restore the files, or train it again.")
        return now

    def export(self, path: str | Path) -> Path:
        """Write the method as one safetensors file that needs neither this run nor its corpus; xmr.load and
        checkpoint.load_method read it. A path that does not end in .safetensors gets that ending; returns the path.
        """
        path, prepared, config = Path(path), self.prepared(), self.config
        path = path if path.suffix == ".safetensors" else path.with_name(f"{path.name}.safetensors")
        names = ("dataset", "features", "image_model", "text_model", "dual_model")
        about = {name: getattr(config.data, name) for name in names}
        about |= {"run": self.id, "record": asdict(self.provenance)}
        del about["record"]["files"]
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
    texts = {TEXT_IDS: str}
    history, metrics, per_query = (
        pd.read_csv(folder / f"{name}.csv", keep_default_na=False, dtype=texts) for name in TABLES
    )
    per_query = per_query.rename(columns={TEXT_IDS: "query"})
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
            with files.locked(folder / "lock"):
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
    warn_of_versions([run])
    return run


def warn_of_versions(runs: Sequence[TrainedRun]) -> None:
    """One warning when runs were made by other versions of components, another torch or another processor."""
    if reasons := [f"{run.id}: {text}" for run in runs if (text := _difference(run))]:
        message = f"{len(reasons)} of {len(runs)} runs were made by other versions than these ({reasons[0]})."
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
        config = _as_config(config)
        expected = files.as_json({**config.identity(identity["data"]), "versions": identity["versions"]})
    except (KeyError, TypeError) as e:
        raise DamagedFile(f"{path} is not one that this version wrote ({e}).") from None
    if identity != expected:
        raise DamagedFile(f"{path} names another run than its configuration leads to, or is of another version.")
    return config, identity


def _as_config(stored: Mapping) -> RunConfig:
    data = {name: value for name, value in stored["data"].items() if name != "weights" or value}  # once a field
    return RunConfig(**{**stored, "data": DataConfig(**data), "train": TrainConfig(**stored["train"])})


def stored_config(file: Path | str) -> RunConfig:
    """The configuration in a config.json of a run, also in a changed copy of it. Raises: BadInput for another file."""
    try:
        return _as_config(files.read_json(files.existing_file(file, "configuration"))["config"])
    except (KeyError, TypeError, AttributeError) as e:
        raise BadInput(f"{file} is no config.json of a run ({type(e).__name__}: {e}).") from None


def remove_run(name: str) -> int:
    """Delete the folder of one run, finished or not, and say how many bytes that frees. Cached features stay: other
    runs read them.

    name: as `load` takes it, also of an interrupted or damaged run. Raises: BadInput for another name, a folder that is
    a link, or a run that is being trained; CannotWrite.
    """
    folder = paths.root() / "runs" / resolve_run(name, finished=False)
    if folder.is_symlink():
        raise BadInput(f"{folder} is a link to another place. Remove it by hand.")
    size = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
    try:
        with filelock.FileLock(folder / "lock", timeout=0):
            (folder / RECORD).unlink(missing_ok=True)  # first, so that what is left after a kill counts as unfinished
            shutil.rmtree(folder)
    except filelock.Timeout:
        raise BadInput(f"the run {folder.name} is being trained by another process. Stop that first.") from None
    except OSError as e:
        raise files.cannot_write(folder, e) from None
    return size


COLUMNS = ["name", "method", "data", "features", "seed", "epochs", "rsum", "chance", "started", "state", "run"]


def stored_ids() -> list[str]:
    """Ids of all finished runs in the folder `runs`, in alphabetical order.

    >>> "dive-scenes-s0-0123456789" in stored_ids()
    False
    """
    return sorted(record.parent.name for record in (paths.root() / "runs").glob(f"*/{RECORD}"))


def run_table() -> pd.DataFrame:
    """A row for every run in the folder `runs`, the oldest first.

    Columns: name (short: the method and a number, see `short_names`), method, data (with the size of scenes), features,
    seed, epochs, rsum (in [0, 600], on the annotated pairs of the test split; NaN where there is none), chance (the
    RSUM of a random ranking there, as `expected_random_rsum`), started (UTC), state ('finished', 'interrupted' or
    'damaged') and run (the id).
    Nothing is loaded but small files.

    >>> run_table().columns[0]
    'name'
    """
    rows = [{"name": name, **_facts(paths.root() / "runs" / run), "run": run} for name, run in short_names().items()]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"seed": "Int64", "epochs": "Int64"})  # a damaged run has none


def short_names() -> dict[str, str]:
    """Short name → id, of finished and interrupted runs, the oldest first: 'dive-1' is the first run of dive.

    Runs of one method are numbered by the time at which they were started; a name may change when a run is deleted, or
    when an interrupted one is continued. The id never changes.
    """
    folders = [config.parent for config in (paths.root() / "runs").glob(f"*/{CONFIG}")]
    counts, out = Counter(), {}
    for folder in sorted(folders, key=lambda folder: (_started(folder), folder.name)):
        named = folder.name.rsplit("-", 2)[0]  # method and data set; the configuration tells where the one ends
        config = _read(folder / CONFIG).get("config")
        method = named.removesuffix(f"-{id_word(config['data']['dataset'])}") if config else named.partition("-")[0]
        counts[method] += 1
        out[f"{method}-{counts[method]}"] = folder.name
    return out


def _read(file: Path) -> dict:
    """A record, {} where it is missing or damaged."""
    try:
        return files.read_record(file)
    except (DamagedFile, OSError):
        return {}


def find_run(name: str, finished: bool = True) -> str | None:
    """The id of the finished run that a name means, or None: an id, a short name, or a beginning that one id has.

    finished: False for any run. Raises: BadInput for a beginning that several runs have, and for a run that is not
    finished.
    """
    names = short_names()
    ids = stored_ids() if finished else [*names.values()]
    run_id = names.get(name, name)
    if run_id in ids:
        return run_id
    if run_id in names.values():
        raise BadInput(f"the run {run_id} is not finished. Start the same training again: it continues where it was.")
    candidates = [i for i in ids if name and i.startswith(name)]
    if len(candidates) > 1:
        listed = ", ".join(candidates[:5])
        raise BadInput(f"{name!r} may mean {len(candidates)} runs: {listed}. Write more of the id, or a short name.")
    return candidates[0] if candidates else None


def resolve_run(name: str, finished: bool = True) -> str:
    """As `find_run`, for a name that must mean a run. Raises: BadInput, with the nearest name, for any other.

    >>> resolve_run("no-such-run")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: unknown run 'no-such-run'. ...
    """
    if (run_id := find_run(name, finished)) is not None:
        return run_id
    ids = stored_ids()
    names = [short for short, run_id in short_names().items() if run_id in ids or not finished]
    near = ids if "-s" in name else names  # an id with a fault in it, or a short name
    raise unknown("run", name, near or ["none finished in this folder of runs"])


def _started(folder: Path) -> str:
    """ISO time in UTC at which a run was started, as far as its files say."""
    written = datetime.fromtimestamp((folder / CONFIG).stat().st_mtime, UTC)
    return str(_read(folder / RECORD).get("started_utc", written.isoformat(timespec="seconds")))


def _facts(folder: Path) -> dict[str, object]:
    """A row of the table without the names."""
    stored, finished = _read(folder / CONFIG), (folder / RECORD).exists()
    facts = {"started": _started(folder)[:16].replace("T", " "), "state": "damaged"}
    if not stored or (finished and not _read(folder / RECORD)):
        return facts
    config, data = stored["config"], stored["config"]["data"]
    facts |= {name: config["train"][name] for name in ("seed", "epochs")} | {"method": config["method"]}
    facts["data"] = f"{data['dataset']} {data['size']}" if data["dataset"] == "scenes" else data["dataset"]
    facts["features"] = _features(data, str(stored["identity"]["data"]["features"]))
    return facts | (_rsum(folder) | {"state": "finished"} if finished else {"state": "interrupted"})


def _features(data: dict, identity: str) -> str:
    """What was chosen; of 'auto', what it led to where the identity says it."""
    if data["features"] != "auto":
        return data["features"]
    if network := data["image_model"] or data.get("dual_model"):
        return Path(network).name
    return next((name for name in FEATURES if identity.startswith((f"{name}-", f"{name}_"))), identity.split("-")[0])


def _rsum(folder: Path) -> dict[str, float]:
    """RSUM, and that of a random ranking; {} where there is none."""
    try:
        table = pd.read_csv(folder / "metrics.csv", keep_default_na=False)
    except (OSError, ValueError):
        return {}
    own = table[table["relevance"] == "annotated"]
    rsum = own.loc[own["metric"] == "rsum", "value"]
    out = {} if rsum.empty else {"rsum": 100 * float(rsum.iloc[0])}
    counts = {} if "n_queries" not in own else dict(own.groupby("direction")["n_queries"].max())
    if out and {"i2t", "t2i"} <= counts.keys():
        out["chance"] = expected_random_rsum(int(counts["i2t"]), int(counts["t2i"]))
    return out
