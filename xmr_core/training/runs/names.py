"""Which runs there are, and the short names by which people call them."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput, DamagedFile, unknown
from xmr_core.data.config import FEATURES
from xmr_core.training.runs.config import id_word

CONFIG, RECORD = "config.json", "record.json"
COLUMNS = ["name", "method", "data", "features", "seed", "epochs", "rsum", "started", "state", "run"]
_SHOWN = 5  # candidates in a message


def stored_ids() -> list[str]:
    """Ids of all finished runs in the folder `runs`, in alphabetical order.

    >>> stored_ids()
    []
    """
    return sorted(record.parent.name for record in (paths.root() / "runs").glob(f"*/{RECORD}"))


def run_table() -> pd.DataFrame:
    """A row for every run in the folder `runs`, the oldest first.

    Columns: name (short: the method and a number, see `short_names`), method, data (with the size of scenes), features,
    seed, epochs, rsum (in [0, 600], on the annotated pairs of the test split; NaN where there is none), started (UTC),
    state ('finished', 'interrupted' or 'damaged') and run (the id). Nothing is loaded but small files.

    >>> run_table().empty
    True
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


def find_run(name: str) -> str | None:
    """The id of the finished run that a name means, or None: an id, a short name, or a beginning that one id has.

    Raises: BadInput for a beginning that several finished runs have, and for a run that is not finished.
    """
    ids, names = stored_ids(), short_names()
    run_id = names.get(name, name)
    if run_id in ids:
        return run_id
    if run_id in names.values():
        raise BadInput(f"the run {run_id} is not finished. Start the same training again: it continues where it was.")
    candidates = [i for i in ids if name and i.startswith(name)]
    if len(candidates) > 1:
        listed = ", ".join(candidates[:_SHOWN]) + ", …" * (len(candidates) > _SHOWN)
        raise BadInput(f"{name!r} may mean {len(candidates)} runs: {listed}. Write more of the id, or a short name.")
    return candidates[0] if candidates else None


def resolve_run(name: str) -> str:
    """As `find_run`, for a name that must mean a run. Raises: BadInput, with the nearest name, for any other.

    >>> resolve_run("dive-1")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: unknown run 'dive-1'. Known: none finished in this folder of runs.
    """
    if (run_id := find_run(name)) is not None:
        return run_id
    finished = stored_ids()
    names = [short for short, run_id in short_names().items() if run_id in finished]
    near = finished if "-s" in name else names  # an id with a fault in it, or a short name
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
    return facts | {
        "method": config["method"],
        "data": f"{data['dataset']} {data['size']}" if data["dataset"] == "scenes" else data["dataset"],
        "features": _features(data, str(stored["identity"]["data"]["features"])),
        "seed": config["train"]["seed"],
        "epochs": config["train"]["epochs"],
        "rsum": _rsum(folder) if finished else float("nan"),
        "state": "finished" if finished else "interrupted",
    }


def _features(data: dict, identity: str) -> str:
    """What was chosen; of 'auto', what it led to where the identity says it."""
    if data["features"] != "auto":
        return data["features"]
    if data["image_model"]:
        return Path(data["image_model"]).name
    return next((name for name in FEATURES if identity.startswith((f"{name}-", f"{name}_"))), identity.split("-")[0])


def _rsum(folder: Path) -> float:
    try:
        table = pd.read_csv(folder / "metrics.csv", keep_default_na=False)
    except (OSError, ValueError):
        return float("nan")
    own = table.loc[(table["metric"] == "rsum") & (table["relevance"] == "annotated"), "value"]
    return 100 * float(next(iter(own), "nan"))
