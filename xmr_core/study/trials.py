"""The trials of tuning, and what of them a method takes."""

from collections.abc import Mapping

from xmr_core.base.errors import BadInput
from xmr_core.methods.spec import MethodSpec
from xmr_core.study.claims_data import TRIALS as OWN_TRIALS

TRIALS: tuple[Mapping[str, object], ...] = (
    {}, {"lr": 1e-3}, {"lr": 4e-3}, {"temperature": 0.1}, {"dropout": 0.1},
    {"objective": "siglip", "temperature": 0.1}, {"objective": "triplet", "margin": 0.2, "warmup_epochs": 8},
)  # fmt: skip
_OF_THE_OBJECTIVE = ("objective", "temperature", "margin", "warmup_epochs")


def changes_of(spec: MethodSpec, options: Mapping[str, object], number: int) -> dict[str, object]:
    """What a trial (from 1) changes in a variant: what its method says, else the common one. What the variant sets
    itself stays, and with an objective of its own everything of the trial's objective.

    options: of the variant.

    >>> from xmr_core.methods.registry import method_spec
    >>> changes_of(method_spec("dive"), {}, 4), changes_of(method_spec("pcme"), {}, 7)
    ({'temperature': 0.1}, {'objective': 'infonce'})
    """
    changes = OWN_TRIALS.get(spec.id, {}).get(number) or _accepted(spec, TRIALS[number - 1])
    own = "objective" in options
    return {name: v for name, v in changes.items() if name not in options and not (own and name in _OF_THE_OBJECTIVE)}


def _accepted(spec: MethodSpec, changes: Mapping[str, object]) -> dict[str, object]:
    """Of a common trial, what the options of a method take: one from outside may have an objective of its own alone."""
    of_method = {*_OF_THE_OBJECTIVE, "dropout"}
    taken = {n: v for n, v in changes.items() if n not in of_method or n in spec.options.names("matched")}
    try:
        spec.options.make(spec.id, "matched", {n: v for n, v in taken.items() if n in of_method})
    except BadInput:
        taken = {n: v for n, v in taken.items() if n not in _OF_THE_OBJECTIVE}
    return taken
