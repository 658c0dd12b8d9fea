"""Values that no option, setting, loss, similarity or parameter of a notebook can have."""

import inspect
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import torch

import xmr_core.losses as losses
import xmr_core.similarities as similarities
from xmr_core.base.errors import XmrError
from xmr_core.data.config import DataConfig
from xmr_core.methods.registry import papers
from xmr_core.training.loop import TrainConfig
from xmr_core.training.runs.config import RunConfig
from xmr_study.parameters import check_values, checked_value, declared_parameters

from .outcomes import Case

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
WRONG = {str: (-1, 1.5, None, [], {}, b"x", True), bool: ("banana", -1, 2, None, [], 1.0)}
NUMBERS = ("banana", math.nan, math.inf, -math.inf, [], {}, b"x", 2**70, 1e308, None)
SETS = torch.nn.functional.normalize(torch.ones(3, 2, 4), dim=-1)
SCORES, MATCH = torch.eye(3), torch.eye(3, dtype=torch.bool)


def refused(face: str, name: str, value: object, make: Callable[[object], object]) -> Case:
    """A case in which make(value) has to raise."""

    def act() -> str:
        return f"SILENT: {value!r:.60} was accepted: {make(value)!r:.80}"

    return Case(face, f"{name}={value!r:.60}", act)


def wrong_for(default: object) -> tuple:
    if isinstance(default, bool | str):
        return WRONG[type(default)]
    return (*NUMBERS, True) if isinstance(default, int | float) else ()


def option_cases() -> list[Case]:
    cases = []
    for name, spec in papers().items():
        for f in fields(spec.options):
            values = [v for v in wrong_for(f.default) if not (v is None and f.default is None)]
            values += [f.metadata["most"] + 1] * (f.metadata["most"] < math.inf)
            values += ["banana"] * bool(f.metadata["choices"])
            make = lambda v, spec=spec, f=f: spec.make_options(f.metadata["form"] or "matched", {f.name: v})  # noqa: E731
            cases += [refused("options of methods", f"{name} {f.name}", v, make) for v in values]
    return cases


def setting_cases() -> list[Case]:
    cases = []
    for f in (f for kind in (TrainConfig, DataConfig, RunConfig) for f in fields(kind)):
        if f.name not in ("train", "data", "options") and f.default is not None:
            values = (*wrong_for(f.default), *([-1] if type(f.default) in (int, float) else []))
            make = lambda v, f=f: RunConfig().replace(**{f.name: v})  # noqa: E731
            cases += [refused("settings", f.name, v, make) for v in values]
    return cases


def part_cases() -> list[Case]:
    """Arguments of every loss and similarity that has defaults."""
    cases = []
    for name, thing in ((n, getattr(module, n)) for module in (similarities, losses) for n in module.__all__):
        call = next((c for c in _calls(thing) if _works(c)), None)
        if call is None:
            continue
        for p in inspect.signature(thing).parameters.values():
            mask = p.name.endswith("mask")
            if p.kind is not p.VAR_KEYWORD and p.default is not p.empty and (p.default is not None or mask):
                values = ("banana", 3, [], torch.ones(2, 2)) if mask else wrong_for(p.default)
                make = lambda v, call=call, p=p: call(**{p.name: v})  # noqa: E731
                cases += [refused("losses and similarities", f"{name} {p.name}", v, make) for v in values]
    return cases


def _calls(thing: object) -> list[Callable]:
    """Ways to call it with nothing but what it needs."""
    if inspect.isclass(thing) or not callable(thing):
        return [thing] if callable(thing) else []
    return [lambda **more: thing(SETS, SETS, **more), lambda **more: thing(SCORES, MATCH, **more)]


def _works(call: Callable) -> bool:
    try:
        call()
        return True
    except (XmrError, TypeError, KeyError, AttributeError, ValueError):
        return False


KINDS = {
    "int": (-1, 2**70, "x", 1.5, None, True),
    "float": (math.inf, math.nan, "x", None, []),
    "bool": ("x", 2, None),
    "str": (1, None, []),
}
TOGETHER = (
    {"dataset": "scene"}, {"preset": "quik"}, {"method": "dve"}, {"features": "cels"}, {"device": "cpu; rm"},
    {"size": "tinny"}, {"objective": "hinge2"}, {"fine_tune": "all"}, {"data_root": "/nope"},
    {"results_file": "/nope"}, {"images": "/nope"}, {"dataset": "coco", "data_root": ""},
    {"fine_tune": "image", "image_model": ""}, {"methods": ["VSE++"], "ensembles": ["PVSE + DivE"]},
)  # fmt: skip


def notebook_cases() -> list[Case]:
    """Every parameter of every notebook, and values that are wrong by what they say."""
    face = "parameters of notebooks"
    cases = [refused(face, "together", v, check_values) for v in TOGETHER]
    for path in NOTEBOOKS:
        declared = declared_parameters(path)
        defaults = {name: p.default for name, p in declared.items()}
        for name, p in declared.items():
            empty = [[]] if p.default and name != "ensembles" else []
            make = lambda v, p=p, all_=defaults: check_values({**all_, p.name: checked_value(p, v)}, all_)  # noqa: E731
            cases += [
                refused(face, f"{path.stem} {name}", v, make) for v in KINDS.get(p.type, ("x", 1, None, [None], *empty))
            ]
    return cases


def value_cases() -> list[Case]:
    return [*option_cases(), *setting_cases(), *part_cases(), *notebook_cases()]
