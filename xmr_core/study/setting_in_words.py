"""What all methods of the comparison share, and by which objective each was trained, in a sentence."""

from collections import Counter

import pandas as pd

from xmr_core.methods.registry import method_spec
from xmr_core.study.budgets import listed
from xmr_core.study.protocol import EPOCHS, in_common_form, trial
from xmr_core.study.trials import TRIALS

_LARGEST = max(changes.get("lr", 0.0) for changes in TRIALS)
_NAMES = {"infonce": "InfoNCE", "siglip": "SigLIP", "triplet": "the hinge"}


def objective_of(label: str, number: int) -> str:
    """The objective that a variant of the comparison is trained by after its trial of that number; 0: no trial.

    >>> objective_of("DivE", 1), objective_of("PCME", 3), objective_of("PCME++", 7)
    ('InfoNCE', '`soft_contrastive`', 'InfoNCE')
    """
    config = in_common_form(label)
    spec = method_spec(config.method)
    changes = config.options | (trial(label, number, EPOCHS) if number else {})
    options = spec.make_options("matched", {k: v for k, v in changes.items() if k in spec.options.names()})
    name = getattr(options, "objective", "own")  # a method of one's own may have one only
    return _NAMES.get(name, f"`{name}`")


def setting_sentence(table: pd.DataFrame) -> str:
    """On what the methods were compared, and by which objectives; '' for none. table: of method_results.

    >>> text = setting_sentence(pd.DataFrame({"label": ["DivE", "PVSE", "PCME"], "trial": 1}))
    >>> text.partition("rate), ")[2]
    '2 of 3 train by InfoNCE, whatever their papers took; PCME by `soft_contrastive`.'
    """
    if not len(table):
        return ""
    width = in_common_form(table["label"].iloc[0]).options["d"]
    chosen = {label: objective_of(label, int(n)) for label, n in zip(table["label"], table["trial"], strict=True)}
    ((most, count),) = Counter(chosen.values()).most_common(1)
    others = [f"{label} by {name}" for label, name in chosen.items() if name != most]
    rest = f"; {listed(others)}" if others else ""
    tuned = f"the best of {len(TRIALS)} trials each ({_at_largest_rate(table)} methods took the largest learning rate)"
    return (
        f"On `scenes` (drawn images), with small shared encoders (width {width}) and {tuned}, {count} of {len(table)} "
        f"train by {most}, whatever their papers took{rest}."
    )


def _at_largest_rate(table: pd.DataFrame) -> int:
    """How many methods took a trial with the largest learning rate that was tried: their best may lie beyond it."""
    pairs = zip(table["label"], table["trial"], strict=True)
    return sum(trial(label, int(n), EPOCHS).get("lr") == _LARGEST for label, n in pairs if n)
