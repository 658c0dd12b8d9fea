"""Whether claims can be decided at all: what a user's claim names must be there."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.study.claims_data.claim import JOIN, Claim
from xmr_core.study.variants import known_labels


def require_decidable(own: Iterable[Claim], every: Sequence[Claim], rows: pd.DataFrame) -> None:
    """Raise BadInput where two claims have one id, or one of `own` names a label that no method puts on runs and no row
    has: it would stand as "not measured" for ever.

    >>> require_decidable([], [Claim("a", "ours", "A is best.", ("DivE",))], pd.DataFrame({"variant": []}))
    """
    names = [claim.id for claim in every]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise BadInput(f"two claims have the id {twice[0]!r}; give each one of its own.")
    labels = known_labels() | set(rows["variant"])
    for claim in own:
        for label in (part for name in (*claim.above, *claim.below) for part in name.split(JOIN)):
            if label not in labels:
                near = get_close_matches(label, sorted(labels), 5, 0.3)
                hint = f"; near it are {', '.join(map(repr, near))}" if near else ""
                raise BadInput(f"claim {claim.id}: no method puts the label {label!r} on its runs{hint}.")
