"""Every method by name: those of the package, installed ones, and any file's by its address.

A method of the package is one file here and one line in `MODULES`. A method from elsewhere is named by its address,
'mypackage.mine:SPEC', which works in worker processes and notebooks too, or registered for this process by `register`.
An installed package may announce specs under the entry-point group 'xmr_core.methods'.
"""

import traceback
import warnings
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from xmr_core.base.errors import BadInput, XmrError, unknown
from xmr_core.methods.common import Inputs
from xmr_core.methods.method import Method
from xmr_core.methods.spec import MethodSpec

MODULES = (  # in the order of every table: the five papers and their forerunners, then the successors
    "vsepp", "pvse", "pcme", "scan", "sgraf", "vse_infty", "vse_2ad", "dive",
    "pcmepp", "maxsim", "chan",
)  # fmt: skip
_registered: dict[str, MethodSpec] = {}


@cache
def papers() -> dict[str, MethodSpec]:
    """The package's own methods: id → spec, in the order of every table.

    >>> list(papers())[:3]
    ['vse++', 'pvse', 'pcme']
    """
    specs = [import_module(f"xmr_core.methods.{name}").SPEC for name in MODULES]
    return {spec.id: spec for spec in specs}


def methods() -> dict[str, MethodSpec]:
    """All methods by id: the papers', those of installed packages, and those registered in this process.

    >>> methods()["dive"].label
    'DivE'
    """
    return {**papers(), **_installed(), **_registered}


def method_spec(name: str) -> MethodSpec:
    """The spec of a method by its id ('dive') or address ('mypackage.mine:SPEC').

    Raises: BadInput for an unknown id, a module that cannot be imported, or an attribute that is no MethodSpec.

    >>> method_spec("pcme").citation
    'Chun et al., CVPR 2021'
    """
    if not isinstance(name, str):
        raise BadInput(f"a method is named by a word such as 'dive', got {name!r}.")
    if ":" in name:
        return _from_address(name)
    if (spec := _own(name)) is not None:
        return spec
    specs = methods()
    if name not in specs:
        raise BadInput(f"{unknown('method', name, specs)} A method of your own is named 'module:SPEC', or registered.")
    return specs[name]


def register(spec: MethodSpec) -> MethodSpec:
    """Make a spec known by its id in this process, and give it back. Other processes need its address instead.

    Raises: BadInput for what is no spec, an id that a paper has, or a label that another method has.

    >>> from dataclasses import replace
    >>> register(replace(method_spec("dive"), id="my-dive", label="My DivE", variants={}, sweeps={})).label
    'My DivE'
    >>> "my-dive" in methods(), _registered.pop("my-dive").id
    (True, 'my-dive')
    """
    if not isinstance(spec, MethodSpec):
        raise BadInput(f"a MethodSpec can be registered, got {type(spec).__name__}.")
    if spec.id in papers():
        raise BadInput(f"the id {spec.id!r} belongs to a method of the package; choose another.")
    _refuse_labels(spec, methods().values())
    _registered[spec.id] = spec
    return spec


def registered() -> tuple[tuple[str, int], ...]:
    """What this process has registered, as a key of caches: what is derived from all methods changes with it.

    >>> registered()
    ()
    """
    return tuple((name, id(spec)) for name, spec in _registered.items())


def is_registered(method: str) -> bool:
    """Whether this process alone knows a method, by `register`.

    >>> is_registered("dive")
    False
    """
    return method in _registered


def build(method: str, inputs: Inputs, form: str = "matched", **options) -> Method:
    """The untrained method of a name.

    Raises: BadInput for an unknown method, form or option, or a value out of range.

    >>> from xmr_core.methods import Inputs
    >>> build("dive", Inputs(image_width=8, cells=4, vocabulary=20), d=16, slots=2).name
    'dive'
    """
    built = method_spec(method).build(inputs, form, **options)
    built.address = method
    return built


def full_options(method: str, form: str, options: dict) -> dict[str, object]:
    """The options that a form of a method reads, with every default filled in. Raises BadInput as `build` does."""
    return method_spec(method).full_options(form, options)


def _own(name: str) -> MethodSpec | None:
    """The package's own method whose module is named after its id ('vse++' in vsepp.py), without importing the
    others."""
    module = name.replace("++", "pp").replace("+", "_").replace("-", "_")
    spec = import_module(f"xmr_core.methods.{module}").SPEC if module in MODULES else None
    return spec if spec is not None and spec.id == name else None


def _from_address(address: str) -> MethodSpec:
    module, _, attribute = address.partition(":")
    try:
        value = getattr(import_module(module), attribute or "SPEC")
    except (ImportError, AttributeError) as e:
        raise BadInput(
            f"method {address!r} cannot be imported ({e}). Give 'module:ATTRIBUTE' of a file on the Python path."
        ) from None
    except XmrError as e:
        raise BadInput(f"method {address!r}: {e}") from e
    except Exception as e:  # whatever a file of someone else raises while it is imported
        raise BadInput(f"method {address!r} cannot be imported: {type(e).__name__}: {e} ({_line_of(e)}).") from e
    if not isinstance(value, MethodSpec):
        raise BadInput(f"{address!r} is a {type(value).__name__}, not a MethodSpec.")
    if value.id in papers() and papers()[value.id] is not value:
        raise BadInput(f"{address!r} has the id {value.id!r} of a method of the package; choose another.")
    _refuse_labels(value, papers().values())
    return value


def _line_of(error: Exception) -> str:
    """File and line at which an error arose."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}, line {last.lineno}"


def _refuse_labels(spec: MethodSpec, others: Iterable[MethodSpec]) -> None:
    """A label names one thing in every table: raise BadInput where another method has it for something else."""
    own = spec.labels()
    for other in others:
        theirs = other.labels() if other.id != spec.id else {}
        if common := [label for label in own.keys() & theirs.keys() if own[label] != theirs[label]]:
            raise BadInput(
                f"the label {min(common)!r} of {spec.id} belongs to method {other.id}; choose another, or tables would "
                "show one in place of the other."
            )


@cache
def _installed() -> dict[str, MethodSpec]:
    specs = []
    for point in entry_points(group="xmr_core.methods"):
        try:
            specs.append(_from_address(point.value))
        except BadInput as e:  # one broken package must not take all other methods away
            warnings.warn(f"the installed {e} It is left out.", stacklevel=2)
    for spec in specs:
        _refuse_labels(spec, specs)  # those of the papers were refused by the address
    return {spec.id: spec for spec in specs}
