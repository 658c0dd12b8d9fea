"""What the usual parameters of notebooks may be, checked all at once before a notebook runs.

The core's own configurations and registries say what their words and numbers may be; here stands what they cannot know.
A parameter that neither knows is checked by its type alone, and the cell that reads it checks the rest.
"""

import ast
import io
import math
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from xmr_core.base import files
from xmr_core.base.errors import LARGEST, LARGEST_SEED, BadInput, DamagedFile, require_choice, unknown
from xmr_core.base.machine import resolve_device
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import reader_of
from xmr_core.data.scenes.corpus import SIZES
from xmr_core.methods.common import OBJECTIVES
from xmr_core.methods.registry import method_spec
from xmr_core.training.runs.config import PRESETS

_NAMES = {  # parameter → what refuses a wrong word
    "dataset": lambda value: value == "scenes" or reader_of(value),
    "method": method_spec,
    "device": resolve_device,
    "preset": lambda value: require_choice("preset", value, (TRAINED, *PRESETS)),
    "size": lambda value: require_choice("size", value, SIZES),
    "objective": lambda value: require_choice("objective", value, ("", *OBJECTIVES)),  # '': the method's own
}
TRAINED = "trained"  # a preset of notebooks: models that come along, and no training
_POSITIVE = ("alpha", "alphas", "temperature", "sharpness", "lse_scale", "others", "rate", "scale")
_FRACTIONS = ("compare", "share", "shares", "level", "word_drop")
_PLACES = {"results_file": Path.is_file, "data_root": Path.is_dir, "images": Path.is_dir}
_MAY_BE_EMPTY = ("ensembles",)  # what is added to a table, which is there without
_MAY_BE_ZERO = ("n_seeds", "seed", "world_seed")
COMMON = {  # what every notebook with runs takes, on the last two lines of its parameters → what it is
    "dataset": "scenes, or flickr8k, flickr30k, coco, cub, precomputed, folder (with data_root)",
    "data_root": "folder of the files of the data set; scenes needs none",
    "preset": "quick (a minute or two), study (larger, five seeds), published (the papers' scale), or trained (models "
    "that come along; with another data set, seed, number of epochs or network it is quick)",
    "seed": "first seed",
    "n_seeds": "seeds of everything that is compared; 0 keeps the number of the preset",
    "epochs": "0 keeps the number of the preset",
    "features": "image features: auto, or what docs/data.md lists",
    "image_model": "vision model of transformers (folder or hub name), empty: what is installed or the corpus's own",
    "text_model": "text model of transformers (folder or hub name), empty for word vectors and a GRU",
    "device": "auto, cpu or cuda",
}


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


# The parameters cell of a notebook: what it declares, and values that are checked against it.


_TYPES = {"int": int, "float": float, "str": str, "bool": bool, "list": list}
_WRITTEN = {float: "0.5 or 1.0e-4 (YAML wants the point)", list: "'[1, 2]'", bool: "True or False"}


@dataclass(frozen=True)
class Parameter:
    """What a parameters cell declares: `alpha: float = 16.0  # inverse temperature` (COMMON have their help there)."""

    name: str
    type: str
    default: object
    help: str


class Parameters(dict):
    """Checked parameters, as attributes too (`p.alpha`); attributes are read-only.

    >>> Parameters({"alpha": 16.0}).alpha
    16.0
    """

    def __getattr__(self, name: str) -> object:
        if name not in self:
            raise AttributeError(str(unknown("parameter", name, self)))
        return self[name]

    def __setattr__(self, name: str, value: object):
        raise BadInput(f"parameters are read-only: set {name} in the parameters cell and run the notebook from there.")

    def __repr__(self) -> str:
        return ", ".join(f"{name} = {value!r}" for name, value in self.items())


def parse_parameters(source: str) -> dict[str, Parameter]:
    """The parameters of a parameters cell, by name.

    Raises: BadInput for a statement that is not `name: type = literal  # help`, or a type that cannot be checked.

    >>> parse_parameters("alpha: float = 16.0  # inverse temperature")["alpha"].help
    'inverse temperature'
    """
    try:
        body = ast.parse(source).body
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as e:
        raise BadInput(f"the parameters cell is not Python: {e}.") from None
    comments = {t.start[0]: t.string.lstrip("# ").strip() for t in tokens if t.type == tokenize.COMMENT}
    out = {}
    for node in body:
        try:
            kind, value = ast.unparse(node.annotation).strip("'\""), ast.literal_eval(node.value)
            out[node.target.id] = Parameter(
                node.target.id, kind, value, comments.get(node.end_lineno, COMMON.get(node.target.id, ""))
            )
        except (ValueError, TypeError, AttributeError, RecursionError, MemoryError):  # no annotation, value or literal
            raise BadInput(f"line {node.lineno} of the parameters cell is not 'name: type = value  # help'.") from None
    for parameter in out.values():
        _type_of(parameter)
    return out


def declared_parameters(path: Path | str) -> dict[str, Parameter]:
    """The parameters of a notebook file by name, without running it.

    Raises: BadInput for a missing file, a file that is not a notebook, or one without exactly one parameters cell.
    """
    path = files.existing_file(path, "notebook")
    try:
        notebook = files.read_json(path)  # and not by nbformat, which takes seconds to load
        cells, metadata = notebook["cells"], notebook.get("metadata", {})
        languages = metadata.get("kernelspec", {}).get("language"), metadata.get("language_info", {}).get("name")
        tagged = ["".join(c["source"]) for c in cells if "parameters" in c["metadata"].get("tags", [])]
    except (DamagedFile, KeyError, TypeError, ValueError, AttributeError):
        raise BadInput(f"{path} is not a notebook. Give an .ipynb file.") from None
    if other := {*languages} - {None, "", "python", "ipython", "python3"}:
        raise BadInput(f"{path} is written in {min(map(str, other))!r:.40}. Give a notebook in Python.")
    if len(tagged) != 1:
        raise BadInput(f"{path} has {len(tagged)} cells tagged 'parameters'; a notebook of this study has exactly one.")
    return parse_parameters(tagged[0])


def checked_value(parameter: Parameter, value: object) -> object:
    """The value as the declared type; an int is accepted for a float and converted.

    Raises: BadInput naming the parameter, its type, what was given and how to write it.

    >>> checked_value(Parameter("alpha", "float", 16.0, ""), 8)
    8.0
    """
    kind, inner = _type_of(parameter)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or value != value:  # not a number
        written = _WRITTEN.get(kind)
        hint = f" Write it as {written}." if written else ""
        raise BadInput(f"parameter {parameter.name} must be {parameter.type}, got {value!r}.{hint}")
    if inner:
        return [checked_value(Parameter(f"{parameter.name}[{i}]", inner, None, ""), v) for i, v in enumerate(value)]
    return value


def checked_values(declared: Mapping[str, Parameter], given: Mapping[str, object]) -> dict[str, object]:
    """Each given value as its declared type.

    Raises: BadInput with all unknown names and wrong types in one line.
    """
    values, faults = {}, []
    for name, value in given.items():
        try:
            require_choice("parameter", name, declared)
            values[name] = checked_value(declared[name], value)
        except BadInput as e:
            faults.append(str(e))
    if faults:
        raise BadInput(" ".join(faults))
    return values


def _type_of(parameter: Parameter) -> tuple[type, str]:
    """(type, type of the elements or '') of an annotation. Raises: BadInput for one that cannot be checked."""
    match = re.fullmatch(r"(int|float|str|bool|list)|list\[(int|float|str|bool)\]", parameter.type)
    if not match or hasattr(dict, parameter.name):
        raise BadInput(
            f"parameter {parameter.name}: {parameter.type} is not possible; use {', '.join(_TYPES)} or list[one], no "
            "name that every dict has."
        )
    return _TYPES[match[1] or "list"], match[2] or ""
