"""Options of methods: frozen, checked when they are made, each with its range and one line of help."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from inspect import get_annotations
from typing import get_args, get_type_hints

from xmr_core.base.errors import LARGEST, BadInput, unknown

FORMS = ("matched", "published")
LARGEST_COUNT = 1_000_000  # of a width or a count: more of anything is a slip of the keyboard, and fills the memory


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
    def defaults(cls, form: str = "") -> dict[str, object]:
        """Option → default of the matched form, for all options or for those that one form reads."""
        return {f.name: f.default for f in fields(cls) if f.name in cls.names(form)}

    @classmethod
    def make(cls, method: str, form: str, values: Mapping[str, object]) -> "Options":
        """The options of a method in a form. method: its id, for messages.

        Raises: BadInput for a name that is not an option, one that the form does not read, or a value out of range.
        """
        for name in values:
            if name not in cls.names():
                raise unknown(f"option of {method}", name, cls.names())
            if name not in cls.names(form):
                raise BadInput(f"option {name} of {method} is not read by its {form} form. Leave it out.")
        return cls(**values)


def require_options_class(kind: object) -> None:
    """Raise BadInput, saying what to write, unless `kind` is a class of options whose fields are made by `option`."""
    if not (isinstance(kind, type) and issubclass(kind, Options)):
        raise BadInput(f"options must be a class that inherits from Options, got {kind!r:.60}.")
    if get_annotations(kind) and "__dataclass_fields__" not in vars(kind):
        raise BadInput(f"write @dataclass(frozen=True) above class {kind.__name__}; without it no option is seen.")
    for f in fields(kind):
        if "choices" not in f.metadata:
            raise BadInput(f"option {f.name} of {kind.__name__} has a plain default; write option(…, 'what it is').")


def _checked(f: Field, type_: object, value: object) -> object:
    """A value of one field, converted to its type. Raises BadInput naming the option and what is allowed."""
    kind, *others = get_args(type_) or (type_,)
    if value is None and type(None) in others:
        return None
    if kind is float and type(value) is int:
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadInput(f"{f.name} must be of type {kind.__name__}, got {value!r:.60}. {f.metadata['help']}.")
    if (choices := f.metadata["choices"]) and value not in choices:
        raise unknown(f.name, value, choices)
    if kind in (int, float):
        least, above, most = (f.metadata[k] for k in ("least", "above", "most"))
        most, low = min(most, LARGEST_COUNT if kind is int else LARGEST), max(least, -LARGEST)
        if not (low <= value <= most and value > above):
            least_text = f"above {above:g}" if above > -math.inf else f"at least {low:g}"
            raise BadInput(f"{f.name} must be {least_text} and at most {most:g}, got {value!r:.60}.")
    return value
