"""One function per paper: the four choices that make a method. Signatures list what the paper varies.

Every recipe has two forms. 'published': what produced the paper's numbers, official quirks included. 'matched': the
study's common protocol, same encoders, width and correct masks for all, and one objective except where the paper is
about its own (PCME, VSE+2AD), so that only what the paper is about differs. METHODS names the switches X-nn. A new method is one file here and one line in RECIPES.
"""

import inspect
from collections.abc import Callable

from xmr_core.base.errors import BadInput, unknown
from xmr_core.methods.common import Inputs
from xmr_core.methods.dive import dive
from xmr_core.methods.method import Method
from xmr_core.methods.pcme import pcme
from xmr_core.methods.pvse import pvse
from xmr_core.methods.scan import scan
from xmr_core.methods.sgraf import sgraf
from xmr_core.methods.vse_2ad import vse_2ad
from xmr_core.methods.vse_infty import vse_infty
from xmr_core.methods.vsepp import vsepp

FORMS = ("matched", "published")

RECIPES: dict[str, Callable[..., Method]] = {
    "vse++": vsepp,
    "pvse": pvse,
    "pcme": pcme,
    "scan": scan,
    "sgraf": sgraf,
    "vse-infty": vse_infty,
    "vse+2ad": vse_2ad,
    "dive": dive,
}

# What the papers set differently from the matched defaults above (METHODS (b) of each method).
PUBLISHED = {
    "vse++": {"d": 1024},
    "pvse": {"d": 1024, "slots": 2},
    "pcme": {"d": 1024, "scale": 15.0, "shift": 15.0, "log_std_start": 0.0},
    "scan": {"d": 1024},
    "sgraf": {"d": 1024, "m": 256},
    "vse-infty": {"d": 1024},
    "vse+2ad": {"d": 1024},
    "dive": {"d": 1024},
}


def version_of(method: str) -> int:
    """The version of a method's own numbers, which its file raises when they change. Raises BadInput for an unknown method."""
    options_of(method)
    return getattr(RECIPES[method], "version", 1)


def builder_of(method: str) -> Callable[..., Method]:
    """The function whose file is the method's. Raises BadInput for an unknown method."""
    options_of(method)
    return RECIPES[method]


def build(method: str, inputs: Inputs, form: str = "matched", **options) -> Method:
    """The Method of a recipe by name.

    Raises: BadInput for an unknown method, form or option, or an option out of range.
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    check_options(method, options)
    return RECIPES[method](inputs, form, **options_in_full(method, form, options))


# options that one form reads and the other does not
_ONE_FORM = {"objective": "matched", "warmup_epochs": "matched", "slot_lr": "published"}


def options_of(method: str, form: str = "") -> tuple[str, ...]:
    """Names of the options a recipe has, or of those that one form reads. Raises BadInput for an unknown method."""
    if method not in RECIPES:
        raise unknown("method", method, RECIPES)
    names = [name for name in inspect.signature(RECIPES[method]).parameters if name not in ("inputs", "form")]
    return tuple(n for n in names if not form or _ONE_FORM.get(n, form) == form)


def options_in_full(method: str, form: str, options: dict) -> dict:
    """The options with every default filled in, so that a default said aloud and one left unsaid are the same run."""
    defaults = {n: p.default for n, p in inspect.signature(RECIPES[method]).parameters.items() if n in options_of(method)}
    return {**defaults, **(PUBLISHED[method] if form == "published" else {}), **options}


def check_options(method: str, options: dict) -> None:
    """Raise BadInput, naming the nearest known option, unless every option is one that the recipe has, in range."""
    known = options_of(method)
    for name in options:
        if name not in known:
            raise unknown(f"option of {method}", name, known)
    for name in ("alpha",):
        if name in options and not 0 < options[name] < float("inf"):
            raise BadInput(f"alpha must be a positive, finite number, got {options[name]}. DivE uses 16; 1 to 64 is the usual range.")
    for name in ("slots", "iterations", "d"):
        if name in options and options[name] < 1:
            raise BadInput(f"{name} must be at least 1, got {options[name]}.")
