"""An explorer of an index, or of a folder of images, without a notebook's preparations."""

from collections.abc import Sequence
from pathlib import Path

from xmr_core.base.errors import BadInput
from xmr_core.search.folder_models import folder_models
from xmr_core.search.index import MANIFEST
from xmr_core.search.library import open_folder
from xmr_core.search.load import load
from xmr_core.search.opened import open_index
from xmr_core.ui.widgets.explorer import Explorer


def explore(place: Path | str, runs: Sequence[str] = (), k: int = 10, view: str = "") -> Explorer:
    """An explorer of the images in a folder, or of an index.

    place: a folder of images, or an index (`python -m xmr_core index`), which holds its model. runs: models that encode
    the folder: runs by id or short name, or anything that `load` reads; by default the newest finished run of each
    method. k, view: as of Explorer.
    Raises: BadInput for a place that does not exist, a name that is no run, and a folder where there is no run.

    >>> explore("no-such-place")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: no-such-place does not exist. Give a folder of images, or an index.
    """
    place = Path(place).expanduser()
    if not place.is_dir():
        raise BadInput(f"{place} does not exist. Give a folder of images, or an index.")
    if (place / MANIFEST).exists():
        index = open_index(place)
        return Explorer(lambda _: index, [index.label], k=k, view=view)
    runs = folder_models(runs)
    return Explorer(lambda name: open_folder(load(name), place, name), runs, k=k, view=view)
