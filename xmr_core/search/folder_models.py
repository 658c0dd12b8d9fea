"""Which models encode a folder of images: those that are named, or the newest run of each method."""

from collections.abc import Sequence
from pathlib import Path

from xmr_core.base.errors import BadInput
from xmr_core.training.runs import run_table
from xmr_core.training.runs.names import resolve_run


def folder_models(names: Sequence[str] = ()) -> list[str]:
    """What `load` is to read, checked before anything starts that takes its time.

    names: runs, folders, files or models on the hub; none takes the newest finished run of each method, the newest
    first. Only what cannot be a path or lie on the hub is looked up here; `load` says what is wrong with others.
    Raises: BadInput for a name that is no run, and where no run is finished.

    >>> folder_models(["google/siglip-base-patch16-224"])
    ['google/siglip-base-patch16-224']
    """
    for name in names:
        if "/" not in name and not Path(name).expanduser().exists():
            resolve_run(name)
    models = list(names) or _newest_runs()
    if not models:
        raise BadInput(
            "there is no finished run to encode these images with. Train one (`python -m xmr_core train dive`), or "
            "name a model: --run NAME."
        )
    return models


def _newest_runs() -> list[str]:
    """Short names of the newest finished run of each method, the newest first."""
    table = run_table()
    table = table[table["state"] == "finished"]
    return table.groupby("method", sort=False)["name"].last().tolist()[::-1]
