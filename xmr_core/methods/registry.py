"""Every method by name: those of the package, installed ones, and any file's by its address.

A method of the package is one file here and one line in `MODULES`. A method from elsewhere is named by its
address, 'mypackage.mine:SPEC', which works in worker processes and notebooks too, or registered for this process by
`register`. An installed package may announce specs under the entry-point group 'xmr_core.methods'.
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

# Every method of the package, id → module, in the order of every table: the five papers and their forerunners, then the
# successors. A new method is one file here and one line in this list.
MODULES = {
    "vse++": "vsepp", "pvse": "pvse", "pcme": "pcme", "scan": "scan", "sgraf": "sgraf", "vse-infty": "vse_infty",
    "vse+2ad": "vse_2ad", "dive": "dive", "pcme++": "pcmepp", "maxsim": "maxsim", "chan": "chan",
}  # fmt: skip
_registered: dict[str, MethodSpec] = {}


@cache
def papers() -> dict[str, MethodSpec]:
    """The package's own methods: id → spec, in the order of every table.

    >>> list(papers())[:3]
    ['vse++', 'pvse', 'pcme']
    """
    return {name: _own(name) for name in MODULES}


def _own(name: str) -> MethodSpec:
    return import_module(f"xmr_core.methods.{MODULES[name]}").SPEC


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
        raise unknown("method", name, methods())
    if name in MODULES:  # without importing the others
        return _own(name)
    if ":" in name:
        return _from_address(name)
    if (spec := methods().get(name)) is None:
        raise BadInput(f"{unknown('method', name, methods())} One of your own is named 'module:SPEC', or registered.")
    return spec


def register(spec: MethodSpec) -> MethodSpec:
    """Make a spec known by its id in this process, and give it back. Other processes need its address instead.

    Raises: BadInput for an id that a paper has, or a label that another method has.

    >>> from dataclasses import replace
    >>> register(replace(method_spec("dive"), id="my-dive", label="My DivE", variants={})).label
    'My DivE'
    >>> "my-dive" in methods(), _registered.pop("my-dive").id
    (True, 'my-dive')
    """
    if spec.id in MODULES:
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


def _from_address(address: str) -> MethodSpec:
    module, _, attribute = address.partition(":")
    try:
        value = getattr(import_module(module), attribute or "SPEC")
    except XmrError as e:
        raise BadInput(f"method {address!r}: {e}") from e
    except Exception as e:  # whatever a file of someone else raises while it is imported
        last = traceback.extract_tb(e.__traceback__)[-1]
        file, line = (e.filename, e.lineno) if isinstance(e, SyntaxError) else (last.filename, last.lineno)
        place = "" if file.startswith("<") else f" ({file}, line {line})"
        raise BadInput(
            f"method {address!r} cannot be imported: {type(e).__name__}: {e}{place}. Give 'module:ATTRIBUTE' of a file "
            "on the Python path."
        ) from e
    if not isinstance(value, MethodSpec):
        raise BadInput(f"{address!r} is a {type(value).__name__}, not a MethodSpec.")
    if value.id in MODULES and value is not _own(value.id):
        raise BadInput(f"{address!r} has the id {value.id!r} of a method of the package; choose another.")
    _refuse_labels(value, papers().values())
    return value


def _refuse_labels(spec: MethodSpec, others: Iterable[MethodSpec]) -> None:
    """A label names one thing in every table: raise BadInput where another method has it."""
    for other in others:
        if other.id != spec.id and (common := spec.variants.keys() & other.variants.keys()):
            raise BadInput(f"the label {min(common)!r} of {spec.id} belongs to method {other.id}; choose another.")


@cache
def _installed() -> dict[str, MethodSpec]:
    specs: dict[str, MethodSpec] = {}
    for point in entry_points(group="xmr_core.methods"):
        try:
            spec = _from_address(point.value)
            _refuse_labels(spec, specs.values())
            specs[spec.id] = spec
        except BadInput as e:  # one broken package must not take all other methods away
            warnings.warn(f"the installed {e} It is left out.", stacklevel=2)
    return specs
