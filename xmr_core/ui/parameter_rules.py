"""What the usual parameters of notebooks may be, checked all at once before a notebook runs.

The core's own configurations and registries say what their words and numbers may be; here stands what they cannot know.
A parameter that neither knows is checked by its type alone, and the cell that reads it checks the rest.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from xmr_core.base.checks import LARGEST, LARGEST_SEED, require_choice
from xmr_core.base.devices import resolve_device
from xmr_core.base.errors import BadInput
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import reader_of
from xmr_core.data.scenes.corpus import SIZES
from xmr_core.methods.common import OBJECTIVES
from xmr_core.methods.registry import method_spec
from xmr_core.study.presets import PRESETS

_NAMES = {  # parameter → what refuses a wrong word
    "dataset": lambda value: value == "scenes" or reader_of(value),
    "method": method_spec,
    "device": resolve_device,
    "preset": lambda value: require_choice("preset", value, PRESETS),
    "size": lambda value: require_choice("size", value, SIZES),
    "objective": lambda value: require_choice("objective", value, ("", *OBJECTIVES)),  # '': the method's own
}
_POSITIVE = ("alpha", "alphas", "temperature", "sharpness", "lse_scale", "others", "rate", "scale")
_FRACTIONS = ("compare", "share", "shares", "level", "word_drop")
_PLACES = {"results_file": Path.is_file, "data_root": Path.is_dir, "images": Path.is_dir}
_MAY_BE_EMPTY = ("ensembles",)  # what is added to a table, which is there without
_MAY_BE_ZERO = ("n_seeds", "seed", "world_seed")


def check_values(values: Mapping[str, object], defaults: Mapping[str, object] | None = None) -> None:
    """Check the values of a notebook's parameters together.

    defaults: what the notebook declares, where that is known: a list that is not empty by default needs an element, and
    a number of at least 1 by default stays at least 1. Raises: BadInput with all faults in one line.

    >>> check_values({"dataset": "scene", "seed": -1})
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: unknown dataset 'scene'. Did you mean 'scenes'? ... seed must be ...
    """
    faults = [fault for name, value in values.items() for fault in _faults(name, value, (defaults or {}).get(name))]
    own = {f.name: values[f.name] for f in fields(DataConfig) if isinstance(values.get(f.name), str | int | float)}
    checks = [lambda: DataConfig(**own), *(lambda n=n, c=c: c(values[n]) for n, c in _NAMES.items() if n in values)]
    for check in checks:
        try:
            check()
        except BadInput as e:
            faults.insert(0, str(e))
    if faults := list(dict.fromkeys([*faults, *_together(values)])):
        raise BadInput(" ".join(faults))


def _faults(name: str, value: object, default: object) -> Iterator[str]:
    if isinstance(value, list):
        if not value and default and name not in _MAY_BE_EMPTY:
            yield f"parameter {name} is an empty list; give at least one element."
        for element in value:
            yield from _faults(name, element, None)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high = (0.0, 1.0) if name in _FRACTIONS else (-LARGEST, LARGEST)
        if isinstance(value, int):
            at_least_one = isinstance(default, int) and default >= 1 and name not in _MAY_BE_ZERO
            low, high = int(at_least_one), LARGEST_SEED if name.endswith("seed") else 10**9
        if not low <= value <= high or not math.isfinite(value) or (name in _POSITIVE and value <= 0):
            bounds = "above 0" if name in _POSITIVE else f"from {low:g} to {high:g}"
            yield f"parameter {name} must be {bounds}, got {value!r:.40}."
    elif name in _PLACES and value and isinstance(value, str):
        try:
            there = _PLACES[name](Path(value).expanduser())
        except (OSError, RuntimeError, ValueError):
            there = False
        if not there:
            yield f"parameter {name}: {value!r:.100} is not here."


def _together(values: Mapping[str, object]) -> Iterator[str]:
    """Combinations that cannot go together."""
    if values.get("dataset", "scenes") != "scenes" and ":" not in values["dataset"] and values.get("data_root") == "":
        yield f"dataset {values['dataset']} needs data_root: the folder that holds its files."
    for formula in values.get("ensembles", ()):
        if missing := [part for part in str(formula).split(" + ") if part not in values.get("methods", ())]:
            yield f"ensembles names {missing[0]!r}, which is not among methods; change the one or the other."
