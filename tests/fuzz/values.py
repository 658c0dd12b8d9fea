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

ROOT = Path(__file__).resolve().parents[2]
WRONG = {str: (-1, 1.5, None, [], {}, b"x", True), bool: ("banana", -1, 2, None, [], 1.0)}
NUMBERS = ("banana", math.nan, math.inf, -math.inf, [], {}, b"x", 2**70, 1e308, None)
SETS = torch.nn.functional.normalize(torch.ones(3, 2, 4), dim=-1)
SCORES, MATCH = torch.eye(3), torch.eye(3, dtype=torch.bool)


def refused(make: Callable[[], object], fault: object) -> str:
    made = make()
    return f"SILENT: {fault!r:.60} was accepted: {made!r:.80}"


def wrong_for(default: object) -> tuple:
    if isinstance(default, bool | str):
        return WRONG[type(default)]
    return (*NUMBERS, True) if isinstance(default, int | float) else ()


def option_cases() -> list[Case]:
    cases = []
    for name, spec in papers().items():
        for f in fields(spec.options):
            form = f.metadata["form"] or "matched"
            values = [v for v in wrong_for(f.default) if not (v is None and f.default is None)]
            values += [f.metadata["most"] + 1] * (f.metadata["most"] < math.inf)
            values += ["banana"] * bool(f.metadata["choices"])
            cases += [
                Case(
                    "options of methods",
                    f"{name} {f.name}={v!r:.30}",
                    lambda spec=spec, form=form, f=f, v=v: refused(lambda: spec.make_options(form, {f.name: v}), v),
                )
                for v in values
            ]
        cases.append(
            Case(
                "options of methods",
                f"{name} banana=1",
                lambda spec=spec: refused(lambda: spec.make_options("matched", {"banana": 1}), 1),
            )
        )
    return cases


def setting_cases() -> list[Case]:
    cases = []
    for kind in (TrainConfig, DataConfig, RunConfig):
        for f in fields(kind):
            if f.name in ("train", "data", "options") or f.default is None:
                continue
            cases += [
                Case(
                    "settings",
                    f"{kind.__name__} {f.name}={v!r:.30}",
                    lambda f=f, v=v: refused(lambda: RunConfig().replace(**{f.name: v}), v),
                )
                for v in (*wrong_for(f.default), *([-1] if type(f.default) in (int, float) else []))
            ]
    return cases


def part_cases() -> list[Case]:
    """Arguments of every loss and similarity that has defaults."""
    cases = []
    for module in (similarities, losses):
        for name in module.__all__:
            thing = getattr(module, name)
            if not callable(thing):
                continue
            parameters = [p for p in inspect.signature(thing).parameters.values() if p.kind is not p.VAR_KEYWORD]
            call = next((c for c in _calls(thing) if _works(c)), None)
            if call is None:
                continue
            for p in parameters:
                if p.default is p.empty or (p.default is None and not p.name.endswith("mask")):
                    continue
                values = ("banana", 3, [], torch.ones(2, 2)) if p.name.endswith("mask") else wrong_for(p.default)
                cases += [
                    Case(
                        "losses and similarities",
                        f"{name} {p.name}={v!r:.30}",
                        lambda call=call, p=p, v=v: refused(lambda: call(**{p.name: v}), v),
                    )
                    for v in values
                ]
    return cases


def _calls(thing: Callable) -> list[Callable]:
    """Ways to call it with nothing but what it needs."""
    if inspect.isclass(thing):
        return [thing]
    return [lambda **more: thing(SETS, SETS, **more), lambda **more: thing(SCORES, MATCH, **more)]


def _works(call: Callable) -> bool:
    try:
        call()
        return True
    except (XmrError, TypeError, KeyError, AttributeError, ValueError):
        return False


def notebook_cases() -> list[Case]:
    """Every parameter of every notebook."""
    cases = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        declared = declared_parameters(path)
        defaults = {name: p.default for name, p in declared.items()}
        for name, p in declared.items():
            kinds = {
                "int": (-1, 2**70, "x", 1.5, None, True),
                "float": (math.inf, math.nan, "x", None, []),
                "bool": ("x", 2, None),
                "str": (1, None, []),
            }
            values = kinds.get(p.type, ("x", 1, None, [None], *([[]] if p.default and name != "ensembles" else [])))
            cases += [
                Case(
                    "parameters of notebooks",
                    f"{path.stem} {name}={v!r:.30}",
                    lambda d=declared, p=p, n=name, v=v, all_=defaults: refused(
                        lambda: check_values({**all_, n: checked_value(p, v)}, all_), v
                    ),
                )
                for v in values
            ]
    names = {
        "dataset": "scene",
        "preset": "quik",
        "method": "dve",
        "features": "cels",
        "device": "cpu; rm",
        "size": "tinny",
        "objective": "hinge2",
        "fine_tune": "all",
        "data_root": "/nope",
        "results_file": "/nope",
        "images": "/nope",
    }
    together = (
        {"dataset": "coco", "data_root": ""},
        {"fine_tune": "image", "image_model": ""},
        {"methods": ["VSE++"], "ensembles": ["PVSE + DivE"]},
    )
    return cases + [
        Case("parameters of notebooks", str(v)[:60], lambda v=v: refused(lambda: check_values(v), v))
        for v in (*({n: v} for n, v in names.items()), *together)
    ]


def value_cases() -> list[Case]:
    return [*option_cases(), *setting_cases(), *part_cases(), *notebook_cases()]
