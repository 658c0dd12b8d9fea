"""What the usual parameters of notebooks may be. Checked all at once before a notebook runs, without loading torch.

A parameter with a name that is not listed here is checked by its type alone; the cell that reads it checks the rest.
"""

import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from xmr_core.base.checks import LARGEST, LARGEST_SEED
from xmr_core.base.errors import BadInput, unknown

DATASETS = ("scenes", "flickr8k", "flickr30k", "coco", "cub", "precomputed", "folder")
METHODS = (
    "vse++", "pvse", "pcme", "scan", "sgraf", "vse-infty", "vse+2ad", "dive", "pcme++", "maxsim", "chan",
)  # fmt: skip
FEATURES = (
    "auto", "cells", "pixels", "efficientnet_lite0", "efficientnet_lite2", "pretrained", "regions",
)  # fmt: skip
CHOICES = {
    "dataset": DATASETS, "method": METHODS, "features": FEATURES, "preset": ("quick", "study", "published"),
    "fine_tune": ("", "image", "text", "both"), "objective": ("", "infonce", "siglip", "triplet"),
    "size": ("tiny", "quick", "study", "large"),
}  # fmt: skip
POSITIVE = ("alpha", "alphas", "temperature", "sharpness", "lse_scale", "others", "rate", "scale")
FRACTIONS = ("ambiguity", "compare", "share", "shares", "level", "word_drop")
FILES = ("results_file",)
FOLDERS = ("data_root", "images")
LARGEST_COUNT = 10**9
_DEVICE = re.compile(r"auto|[a-z]+(:\d+)?")


def check_values(values: Mapping[str, object], defaults: Mapping[str, object] | None = None) -> None:
    """Check the values of a notebook's parameters together.

    defaults: what the notebook declares, where that is known: a list that is not empty by default needs an element, and
    a number of at least 1 by default stays at least 1. Raises: BadInput with all faults in one line.

    >>> check_values({"dataset": "scene", "seed": -1})
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: parameter dataset: unknown name 'scene'. Did you mean 'scenes'? ... seed must be ...
    """
    faults = [f for name, value in values.items() for f in _faults(name, value, (defaults or {}).get(name))]
    faults += _together(values)
    if faults:
        raise BadInput(" ".join(faults))


def refuse_early(**names: str) -> None:
    """Refuse names that no data set, method or preset of this package has, before torch is loaded to find that out.

    Where the package is loaded already, it may know more names, and what reads them checks them.
    Raises: BadInput, as check_values.

    >>> refuse_early(dataset="scenes", preset="quick")
    """
    if "xmr_core.data.corpora" not in sys.modules:
        for name, value in names.items():
            if value not in CHOICES[name] and ":" not in value and not _installed(name, value):
                raise unknown(name, value, CHOICES[name])


def _faults(name: str, value: object, default: object) -> Iterator[str]:
    if isinstance(value, list):
        if not value and default and name not in MAY_BE_EMPTY:
            yield f"parameter {name} is an empty list; give at least one element."
        kinds = {type(v) for v in value}
        for v in value if kinds <= {int, float, str} else ():
            yield from _faults(name, v, None)
    elif isinstance(value, str):
        yield from _of_text(name, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high = _limits(name, value, default)
        if not low <= value <= high or not math.isfinite(value):
            above = "above 0" if low == _TINY else f"from {low:g}"
            yield f"parameter {name} must be {above} to {high:g}, got {value!r:.40}."


MAY_BE_EMPTY = ("ensembles",)  # what is added to a table, which is there without
_TINY = 5e-324  # the least number above 0


def _limits(name: str, value: int | float, default: object) -> tuple[float, float]:
    if name in ("seed", "world_seed"):
        return 0, LARGEST_SEED
    if name in FRACTIONS:
        return 0, 1
    if isinstance(value, int):
        return (1 if isinstance(default, int) and default >= 1 and name != "n_seeds" else 0), LARGEST_COUNT
    return (_TINY if name in POSITIVE else -LARGEST), LARGEST


def _of_text(name: str, value: str) -> Iterator[str]:
    choices = CHOICES.get(name, ())
    address = ":" in value and name in ("dataset", "method", "features")
    if choices and value not in choices and not address and not _installed(name, value):
        yield f"parameter {name}: {unknown('name', value, choices)}"
    if name == "device" and not _DEVICE.fullmatch(value):
        yield f"parameter device is auto, cpu, cuda, cuda:1 and so on, got {value!r:.60}."
    if value and name in (*FILES, *FOLDERS):
        try:
            path = Path(value).expanduser()
            fits = path.is_file() if name in FILES else path.is_dir()
        except (OSError, RuntimeError, ValueError):
            fits = False
        if not fits:
            yield f"parameter {name}: {value!r:.100} is no {'file' if name in FILES else 'folder'} here."


def _together(values: Mapping[str, object]) -> Iterator[str]:
    """Combinations that cannot go together."""
    dataset, root = values.get("dataset"), values.get("data_root")
    if dataset in DATASETS[1:] and root == "":
        yield f"dataset {dataset} needs data_root: the folder that holds its files."
    for kind in ("image", "text"):
        if values.get("fine_tune") in (kind, "both") and values.get(f"{kind}_model") == "":
            yield f"fine_tune={values['fine_tune']!r} needs {kind}_model: a folder or hub name of a {kind} model."
    methods = values.get("methods")
    if isinstance(methods, list) and isinstance(values.get("ensembles"), list):
        for formula in map(str, values["ensembles"]):
            if missing := [part for part in formula.split(" + ") if part not in methods]:
                yield f"ensembles names {missing[0]!r}, which is not among methods; change the one or the other."


def _installed(name: str, value: str) -> bool:
    """Whether an installed package brings a method of this name."""
    if name != "method":
        return False
    from importlib.metadata import entry_points

    return any(point.name == value for point in entry_points(group="xmr_core.methods"))
