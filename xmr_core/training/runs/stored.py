"""Finished runs by their id."""

import warnings

from xmr_core.base import paths
from xmr_core.base.errors import DamagedFile, unknown
from xmr_core.data.prepare import DataConfig
from xmr_core.training import TrainConfig
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.fetch import Run, _load


def stored_ids() -> list[str]:
    """Of all finished runs in the folder `runs`, by name."""
    return sorted(record.parent.name for record in (paths.root() / "runs").glob("*/record.json"))


def stored_run(run_id: str) -> Run:
    """A finished run as it lies in the folder `runs`; nothing is trained. Warns when the code that makes its numbers has changed since.

    Raises: BadInput for an id that is not there or not finished; DamagedFile for one whose files were altered.
    """
    if run_id not in (known := stored_ids()):
        raise unknown("run", run_id, known or ["none finished in this folder of runs"])
    folder = paths.root() / "runs" / run_id
    told = paths.read_json(folder / "config.json")
    try:
        given = told["config"]
        config = RunConfig(**{**given, "data": DataConfig(**given["data"]), "train": TrainConfig(**given["train"])})
        numerics = told["identity"]["numerics"]
    except (KeyError, TypeError) as e:
        raise DamagedFile(f"{folder / 'config.json'} is not one that this version wrote ({e}). Train the run again.") from None
    if numerics != config.numerics():
        warnings.warn(f"run {run_id} was trained by other code than this (numerics {numerics}, now {config.numerics()})", stacklevel=2)
    run = _load(run_id, folder, config)
    if run is None:
        raise DamagedFile(f"run {run_id} is damaged; train it again.")
    return run
