"""The protocol of the study (docs/protocol.md): trials of tuning, what every method has in common, and what was
chosen."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import pandas as pd

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.machine import only_shapes
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import MethodSpec, method_spec, registered
from xmr_core.training.runs.config import RunConfig, base_config
from xmr_study.claims import TRIALS as OWN_TRIALS
from xmr_study.claims import Variant
from xmr_study.variants import comparison, labelled

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


# The protocol of the study (docs/protocol.md): what every method has in common, and what is tried for each.


EPOCHS, LONGER, SHORTER, TUNING_EPOCHS = 72, 144, (8, 24), 24
FLICKR_EPOCHS, FLICKR_LONGER = 20, 40  # on Flickr8k
SEEDS, MORE_SEEDS, SHORT = 5, 10, 120.0  # more for what compares no pairs, and where a run takes so few seconds
COMMON = {"text_local": "states", "iterations": 4}  # where a method has the option
WORLD, DECIDING = 0, (1, 2)
FIELDS = {"PCME with word drop": {"word_drop": 0.1}}  # labels that stand for more than options of their method


@dataclass(frozen=True)
class Job:
    """A run of the protocol. part: of `study.jobs.PARTS`. variant: the label of `labels` whose trial it takes. label:
    what its rows are called."""

    part: str
    variant: str
    label: str
    config: RunConfig


def variants() -> dict[str, Variant]:
    """Every label that a comparison, an ablation or a sweep puts on runs: label → (method, options).

    >>> variants()["α=16"]
    ('dive', {'alpha': 16})
    """
    return _variants(registered())


@cache
def _variants(key: tuple) -> dict[str, Variant]:
    return labelled()


def in_common_form(label: str, **changes) -> RunConfig:
    """The run of a label as the protocol has it: every method reads the states of the GRU, slots take four rounds, and
    a hinge has the warm-up of `warm_up` where the label says nothing else.

    Raises: BadInput for a label that no method has.

    >>> in_common_form("DivE").options["text_local"]
    'states'
    >>> in_common_form("SCAN i-t, hinge", epochs=72).options["warmup_epochs"]
    24
    """
    require_choice("label", label, variants())
    method, options = variants()[label]
    names = method_spec(method).options.names("matched")
    common = {name: value for name, value in COMMON.items() if name in names}
    config = base_config(method, device="cpu", **{**common, **FIELDS.get(label, {}), **options, **changes})
    unsaid = "warmup_epochs" in names and "warmup_epochs" not in config.options
    hinge = config.options.get("objective") == "triplet"
    return config.replace(warmup_epochs=warm_up(config.train.epochs)) if hinge and unsaid else config


def canonical() -> dict[str, str]:
    """Label → the first label of the same run in the common form: one control stands under one label. Two labels mean
    the same run if they do so at every trial of tuning, whichever is chosen.

    >>> canonical()["α=16"], canonical()["DivE on GRU states"], canonical()["K=2"]
    ('DivE', 'DivE', 'DivE, K=2')
    """
    return _canonical(registered())


@cache
def _canonical(key: tuple) -> dict[str, str]:
    out: dict[str, str] = {}
    first: list[tuple[list[RunConfig], str]] = []
    for label in variants():
        configs = [_complete(in_common_form(label, **trial(label, n))) for n in range(1, len(TRIALS) + 1)]
        out[label] = next((other for held, other in first if held == configs), label)
        if out[label] == label:
            first.append((configs, label))
    return out


def _complete(config: RunConfig) -> RunConfig:
    """With every option said, for a default that is said and one that is not are the same run."""
    return replace(config, options=method_spec(config.method).full_options("matched", config.options))


def budget_label(label: str, epochs: int) -> str:
    """The label of a run of another number of epochs than EPOCHS: 'DivE, 8 epochs'."""
    return f"{label}, {epochs} epochs"


def run_label(label: str) -> str:
    """The label without the ending of a run that was made longer because the first was not converged.

    >>> run_label("DivE, 144 epochs"), run_label("DivE, 40 epochs"), run_label("DivE, 8 epochs")
    ('DivE', 'DivE', 'DivE, 8 epochs')
    """
    for epochs in (LONGER, FLICKR_LONGER):
        label = label.removesuffix(budget_label("", epochs))
    return label


def labels() -> list[str]:
    """The variants that are compared with each other and are different runs in the common form.

    >>> "DivE" in labels() and "DivE on GRU states" not in labels()
    True
    """
    same = canonical()
    return [label for label in comparison() if same[label] == label]


def compares_pairs(label: str) -> bool:
    """Whether the method of a label computes something for every pair, and is dear for it.

    >>> compares_pairs("SAF"), compares_pairs("DivE")
    (True, False)
    """
    return _compares_pairs(variants()[label][0], registered())


@cache
def _compares_pairs(method: str, key: tuple) -> bool:
    with only_shapes():
        built = method_spec(method).build(Inputs(image_width=8, cells=4, vocabulary=9))
    return built.similarity.compares in ("tokens", "graphs")


def base_of(label: str) -> str:
    """The compared variant whose chosen trial a label takes: of the same method, with most of its options; for a method
    that is compared under no label of its own, the label itself.

    >>> base_of("K=2"), base_of("SAF"), base_of("single vector")
    ('DivE', 'SAF', 'VSE++')
    """
    method, options = variants()[label]
    same = {c: variants()[c][1] for c in labels() if variants()[c][0] == method}
    inside = [c for c, own in same.items() if own.items() <= options.items()] or list(same) or [label]
    return max(inside, key=lambda c: len(same.get(c, {})))


def warm_up(epochs: int) -> int:
    """How many epochs of a run the hinge sees all negatives, before the hardest alone: a third."""
    return epochs // 3


def trial(label: str, number: int, epochs: int = TUNING_EPOCHS) -> dict[str, object]:
    """What a tuning trial (from 1) changes for a label in a run of so many epochs: what its method says, else the
    common one. A label that sets an objective itself takes nothing of the trial's objective.

    >>> trial("DivE", 4), trial("PCME", 7), trial("DivE", 7, 72)["warmup_epochs"]
    ({'temperature': 0.1}, {'objective': 'infonce'}, 24)
    """
    method, options = variants()[label]
    changes = changes_of(method_spec(method), options, number)
    return changes | ({"warmup_epochs": warm_up(epochs)} if "warmup_epochs" in changes else {})


def tuned_label(label: str, number: int) -> str:
    """The label of a tuning run: 'DivE, tuning 2'."""
    return f"{label}, tuning {number}"


# What tuning chose: the trial that each variant keeps, and the one that its ablations take.


def chosen_trials(rows: pd.DataFrame) -> dict[str, int]:
    """Variant → its trial of the highest annotated RSUM on the validation split; the earlier one of equals. Only
    variants whose trials all have rows.

    rows: of results.read.

    >>> chosen_trials(pd.DataFrame(columns=["variant", "metric", "value"]))
    {}
    """
    tried = {label: _validated(label, rows) for label in labels()}
    return {label: max(values, key=values.__getitem__) for label, values in tried.items() if len(values) == len(TRIALS)}


def ablation_trial(label: str, rows: pd.DataFrame, chosen: Mapping[str, int]) -> int | None:
    """The trial that an ablation takes: the one that was chosen for what it varies.

    Some methods try another loss in place of their own. If that was chosen, what varies the loss cannot take it: a
    label that says its objective takes the best of the trials that keep the loss (the first, without rows), and one
    that does not say it takes none. None also where nothing was chosen yet.

    >>> ablation_trial("α=1", pd.DataFrame(columns=["variant", "metric", "value"]), {"DivE": 2})
    2
    """
    base, (method, options) = base_of(label), variants()[label]
    other_loss = [n for n, changes in OWN_TRIALS.get(method, {}).items() if "objective" in changes]
    if chosen.get(base) not in other_loss:
        return chosen.get(base)
    if "objective" not in options:
        return None
    values = {n: value for n, value in _validated(base, rows).items() if n not in other_loss}
    return max(values, key=values.__getitem__, default=1)


def _validated(label: str, rows: pd.DataFrame) -> dict[int, float]:
    """Trial → its RSUM on the validation split, of those that have rows, in their order."""
    best = rows[rows["metric"] == "val_rsum"].groupby("variant")["value"].last().astype(float)
    names = {n: tuned_label(label, n) for n in range(1, len(TRIALS) + 1)}
    return {n: float(best[name]) for n, name in names.items() if name in best}
