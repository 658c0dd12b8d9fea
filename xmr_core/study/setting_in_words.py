"""What all methods of the comparison share, and by which objective each was trained, in a sentence."""

from collections import Counter

import pandas as pd

from xmr_core.methods.registry import method_spec
from xmr_core.study.budgets import listed
from xmr_core.study.protocol import EPOCHS, in_common_form, trial
from xmr_core.study.trials import TRIALS

_HIGHEST = max(changes.get("lr", 0.0) for changes in TRIALS)
_NAMES = {"infonce": "InfoNCE", "siglip": "SigLIP", "triplet": "the hinge"}


def objective_of(label: str, number: int) -> str:
    """The objective that a variant of the comparison is trained by after its trial of that number; 0: no trial.

    >>> objective_of("DivE", 1), objective_of("PCME", 3), objective_of("PCME++", 7)
    ('InfoNCE', '`soft_contrastive`', 'InfoNCE')
    """
    config = in_common_form(label)
    own = method_spec(config.method).options
    changes = config.options | (trial(label, number, EPOCHS) if number else {})
    name = own(**{k: v for k, v in changes.items() if k in own.names()}).objective
    return _NAMES.get(name, f"`{name}`")


def setting_sentence(table: pd.DataFrame) -> str:
    """On what the methods were compared, and by which objectives; '' for none. table: of method_results.

    >>> text = setting_sentence(pd.DataFrame({"label": ["DivE", "PVSE", "PCME"], "trial": 1}))
    >>> text.partition("rate), ")[2]
    '2 of 3 methods train by InfoNCE, whatever their papers took; PCME by `soft_contrastive`.'
    """
    if not len(table):
        return ""
    chosen = {label: objective_of(label, int(n)) for label, n in zip(table["label"], table["trial"], strict=True)}
    ((most, count),) = Counter(chosen.values()).most_common(1)
    others = [f"{label} by {name}" for label, name in chosen.items() if name != most]
    rest = f"; {listed(others)}" if others else ""
    return (
        f"On `scenes` (drawn images), with small shared encoders (width 64) and the best of {len(TRIALS)} "
        f"trials ({_fastest(table)} took the largest learning rate), {count} of {len(table)} methods train by {most}, "
        f"whatever their papers took{rest}."
    )


def _fastest(table: pd.DataFrame) -> int:
    """How many methods took a trial with the highest learning rate that was tried: their best may lie beyond it."""
    pairs = zip(table["label"], table["trial"], strict=True)
    return sum(trial(label, int(n), EPOCHS).get("lr") == _HIGHEST for label, n in pairs if n)
