"""Methods by name: what one is (`MethodSpec`), its options, and where it is found.

A method of the package is one file here and one line in `MODULES`. A method from elsewhere is named by its
address, 'mypackage.mine:SPEC', which works in worker processes and notebooks too, or registered for this process by
`register`. An installed package may announce specs under the entry-point group 'xmr_core.methods'.
"""

import math
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import get_annotations
from typing import get_args, get_type_hints

from xmr_core.base.errors import LARGEST, BadInput, require_choice, unknown
from xmr_core.base.machine import building
from xmr_core.base.types import Brief
from xmr_core.methods.method import Inputs, Method

FORMS = ("matched", "published")
_LARGEST_COUNT = 1_000_000  # of a width or a count: more of anything is a slip of the keyboard, and fills the memory


def option(
    default: object,
    help: str,
    *,
    choices: Iterable[str] = (),
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    form: str = "",
    added: bool = False,
):
    """A field of an `Options` class.

    Args: default: of the matched form; None means that the method chooses. help: one line. choices: the words that are
        allowed. least, above, most: the range of a number (≥ least, > above, ≤ most; numbers are always finite).
        form: the only form that reads the option, or '' for both. added: after runs had been stored; at its default it
        is then no part of a run's identity, so that those runs keep their names.

    >>> option(4, "embeddings per item, K", least=1).metadata["help"]
    'embeddings per item, K'
    """
    about = {"help": help, "choices": tuple(choices), "least": least, "above": above, "most": most, "form": form}
    return field(default=default, metadata={**about, "added": added})


@dataclass(frozen=True)
class Options:
    """Base of the options of a method. A subclass is a frozen dataclass whose fields are made by `option`.

    An integer given for a number becomes a float, so that 16 and 16.0 name the same run.
    Raises: BadInput for a value of another type, outside its range or not among its choices.

    >>> @dataclass(frozen=True)
    ... class Mine(Options):
    ...     alpha: float = option(16.0, "inverse temperature", above=0)
    >>> Mine(alpha=4)
    Mine(alpha=4.0)
    """

    def __post_init__(self):
        kinds = get_type_hints(type(self))
        for f in fields(self):
            object.__setattr__(self, f.name, _checked(f, kinds[f.name], getattr(self, f.name)))

    @classmethod
    def names(cls, form: str = "") -> tuple[str, ...]:
        """Names of all options, or of those that one form reads."""
        return tuple(f.name for f in fields(cls) if not form or f.metadata["form"] in ("", form))

    @classmethod
    def make(cls, method: str, form: str, values: Mapping[str, object]) -> "Options":
        """The options of a method in a form. method: its id, for messages.

        Raises: BadInput for a name that is not an option, one that the form does not read, or a value out of range.
        """
        for name in values:
            require_choice(f"option of {method}", name, cls.names())
            if name not in cls.names(form):
                raise BadInput(f"option {name} of {method} is not read by its {form} form. Leave it out.")
        return cls(**values)


def _checked(f: Field, type_: object, value: object) -> object:
    """A value of one field, converted to its type. Raises BadInput naming the option and what is allowed."""
    (kind, *others), about = get_args(type_) or (type_,), f.metadata
    if value is None and type(None) in others:
        return None
    if kind is float and type(value) is int:
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadInput(f"{f.name} must be of type {kind.__name__}, got {value!r:.60}. {about['help']}.")
    if about["choices"]:
        require_choice(f.name, value, about["choices"])
    if kind in (int, float):
        low, above = max(about["least"], -LARGEST), about["above"]
        high = min(about["most"], _LARGEST_COUNT if kind is int else LARGEST)
        if not (low <= value <= high and value > above):
            bound = f"above {above:g}" if above > -math.inf else f"at least {low:g}"
            raise BadInput(f"{f.name} must be {bound} and at most {high:g}, got {value!r:.60}.")
    return value


Builder = Callable[[Inputs, Options], Method]


@dataclass(frozen=True)
class MethodSpec(Brief):
    """One method of the field, whole: how it is built, and what its paper set.

    Everything that lists methods derives from it: the README's table, labels, presets, choices of the command line,
    comparisons, contract tests and the version in the identity of a run.

    Args:
        id: the name in code, files and tables ('dive'). label: the name that is shown ('DivE').
        summary: what it is, in one sentence without its name. citation: authors, venue, year.
        options: a frozen class of `Options`. matched: builds it under the study's common protocol.
        published: builds what produced the paper's numbers, or None where nothing was published.
        published_options: option → value where the published form differs from the defaults of the matched one.
        settings: corpus → training, batches and options as the paper set them for it; empty when it was never published
            on photographs. special: (corpus, options, settings): what was set differently on that corpus ('' for each)
            for these values of options.
        variants: label → options, compared with every other method; the default is the method itself under its label.
        version: raised by one whenever a change of the code changes the method's numbers.
        untrained: parameters that the published form never trains.
        network: the setting that names a pretrained model without which the method is nothing ('dual_model'); '' for
            one that any features train, which is compared with all others.
    Raises: BadInput for an id that is no short name, no label, a class that is none of
        options, and options in published_options, special or variants that the class refuses. Names and values in
        settings are checked where a preset is made from them.

    >>> from xmr_core.methods import method_spec
    >>> method_spec("dive").make_options("published", {}).d
    1024
    """

    id: str
    label: str
    summary: str
    citation: str
    options: type[Options]
    matched: Builder
    published: Builder | None = None
    published_options: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    special: Sequence[tuple[str, Mapping[str, object], Mapping[str, object]]] = ()
    variants: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    version: int = 1
    untrained: tuple[str, ...] = ()
    network: str = ""

    def __post_init__(self):
        if not self.id.strip(".") or any(c in self.id for c in " :/") or not self.label.strip():
            needed = "an id, a short name without blank, colon or slash, and a label for tables"
            raise BadInput(f"a method needs {needed}; got {self.id!r} and {self.label!r}.")
        _require_options_class(self.options)
        if not self.variants:
            object.__setattr__(self, "variants", {self.label: {}})
        for values in self.variants.values():
            self.options.make(self.id, "matched", values)
        for when in ({}, *(when for _, when, _ in self.special)) if self.published else ():
            self.options.make(self.id, "published", {**self.published_options, **when})

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms that the method has: 'matched', and 'published' where there is a publication."""
        return FORMS if self.published else FORMS[:1]

    def make_options(self, form: str, values: Mapping[str, object]) -> Options:
        """The options of a form with every default filled in.

        Raises: BadInput for a form that the method does not have, an unknown option, or a value out of range.
        """
        require_choice(f"form of {self.label}", form, self.forms)
        preset = self.published_options if form == "published" else {}
        return self.options.make(self.id, form, {**preset, **values})

    def full_options(self, form: str, values: Mapping[str, object]) -> dict[str, object]:
        """The options that a form reads, defaults included: a default that is said and one that is left unsaid are the
        same run. An option that was `added` to the method later is left out while it has its default.
        """
        full = asdict(self.make_options(form, values))
        unsaid = {f.name for f in fields(self.options) if f.metadata["added"] and full[f.name] == f.default}
        return {name: full[name] for name in self.options.names(form) if name not in unsaid}

    def build(self, inputs: Inputs, form: str = "matched", **values) -> Method:
        """The untrained method, in float32. Raises: BadInput as make_options does, what the builder refuses, and where
        the builder returns no Method."""
        options = self.make_options(form, values)
        with building():
            built = (self.matched if form == "matched" else self.published)(inputs, options)
        if not isinstance(built, Method):
            raise BadInput(f"the {form} builder of {self.id} must return a Method, got {type(built).__name__}.")
        return built

    def published_settings(self, corpus: str = "", options: Mapping[str, object] | None = None) -> dict[str, object]:
        """Training, batches and options as the paper set them for a corpus. '' takes the first that the paper has.

        Raises: BadInput when the method has no published settings, or none for this corpus.
        """
        corpus = corpus or next(iter(self.settings), "")
        require_choice(f"corpus with published settings of {self.id}", corpus, self.settings)
        own = {**COMMON_SETTINGS, **self.settings[corpus]}
        for where, when, settings in self.special:
            if where in ("", corpus) and when.items() <= (options or {}).items():
                own |= settings
        return own


# What the papers share, over which each sets its own. Adam is AdamW without decay. Not taken over are stages that
# fine-tune a CNN, PVSE's plateau schedule (constant here; docs/differences.md#x-57), AdamP (PCME, PCME++), and the
# decay of VSE+2AD that compounds every epoch (once here; docs/differences.md#x-37).
COMMON_SETTINGS = {
    "weight_decay": 0.0, "clip": 2.0, "schedule": "step", "warmup_steps": 0, "batch_images": 128,
    "captions_per_image": 1, "unit": "captions", "positives": "diagonal", "word_dim": 300,
}  # fmt: skip


def _require_options_class(kind: object) -> None:
    """Raise BadInput, saying what to write, unless `kind` is a class of options whose fields are made by `option`."""
    made = isinstance(kind, type) and issubclass(kind, Options)
    made = made and ("__dataclass_fields__" in vars(kind) or not get_annotations(kind))
    if not made or any("choices" not in f.metadata for f in fields(kind)):
        needed = "inherits from Options, with option(…, 'what it is') in place of every plain default"
        raise BadInput(f"options must be a class under @dataclass(frozen=True) that {needed}, got {kind!r:.60}.")


# Every method of the package, id → module, in the order of every table: the five papers and their forerunners, then the
# successors. A new method is one file here and one line in this list.
MODULES = {
    "vse++": "vsepp", "pvse": "pvse", "pcme": "pcme", "scan": "scan", "sgraf": "sgraf", "vse-infty": "vse_infty",
    "vse+2ad": "vse_2ad", "dive": "dive", "pcme++": "pcmepp", "maxsim": "maxsim", "chan": "chan", "clip": "clip",
}  # fmt: skip
_registered: dict[str, MethodSpec] = {}


@cache
def papers() -> dict[str, MethodSpec]:
    """The package's own methods that any features train: id → spec, in the order of every table.

    >>> list(papers())[:3]
    ['vse++', 'pvse', 'pcme']
    """
    return {name: _own(name) for name in MODULES if not _own(name).network}


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
    if (name := str(name)) in MODULES:  # without importing the others
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
    _refuse_labels(spec, methods().values())
    _registered[spec.id] = spec
    return spec


def registered() -> tuple[tuple[str, int], ...]:
    """What this process has registered, as a key of caches: what is derived from all methods changes with it.

    >>> registered()
    ()
    """
    return tuple((name, id(spec)) for name, spec in _registered.items())


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
    except Exception as e:  # whatever a file of someone else raises while it is imported
        last = traceback.extract_tb(e.__traceback__)[-1]
        place = "" if last.filename.startswith("<") else f" ({last.filename}, line {last.lineno})"
        fault = f"method {address!r} cannot be imported: {type(e).__name__}: {e}{place}"
        raise BadInput(f"{fault}. Give 'module:ATTRIBUTE' of a file on the Python path.") from e
    if not isinstance(value, MethodSpec):
        raise BadInput(f"{address!r} is a {type(value).__name__}, not a MethodSpec.")
    _refuse_labels(value, papers().values())
    return value


def _refuse_labels(spec: MethodSpec, others: Iterable[MethodSpec]) -> None:
    """An id and a label name one thing in every table: raise BadInput where a method of the package has the id, or
    another method the label."""
    if spec.id in MODULES and spec is not _own(spec.id):
        raise BadInput(f"the id {spec.id!r} belongs to a method of the package; choose another.")
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
