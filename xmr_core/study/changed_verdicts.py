"""Which verdicts of the first ledger changed: the same rules on the rows from before the protocol and on its own."""

from collections.abc import Sequence
from math import hypot

import pandas as pd

from xmr_core.study.claims import has_verdict, ledger
from xmr_core.study.claims_data.claim import Claim

COLUMNS = ["claim", "sentence", "corpus", "before", "effect before", "low before", "high before", "epochs before",
           "after", "effect after", "low", "high", "epochs after", "kind", "changed", "moved"]  # fmt: skip


def changed_verdicts(rows: pd.DataFrame, claims: Sequence[Claim]) -> pd.DataFrame:
    """One line per claim that has a verdict both from a corpus of choices and from worlds that decide: claim, sentence,
    corpus (before), before and after (verdicts), the effects, their intervals and the epochs of the runs on either
    occasion, kind (of the later), changed, and moved: the effects differ by more than both intervals together,
    √(½ width² + ½ width²), so more runs alone do not explain a change (False where either had no
    interval). Between the two stand epochs, tuning, the common form and the worlds.

    rows: of results.study_rows. A claim of several earlier corpora has a line for each.

    >>> changed_verdicts(pd.DataFrame(columns=["variant"]), []).empty
    True
    """
    table = ledger(rows, claims) if len(claims) and len(rows) else pd.DataFrame(columns=["corpus", "verdict"])
    table = table[has_verdict(table)]
    later = table["corpus"].astype(str).str.contains(", worlds", regex=False)
    earlier = table[table["corpus"].astype(str).str.startswith("scenes") & ~later]
    by_id = {claim.id: claim for claim in claims}
    lines = []
    for after in table[later].itertuples():
        for before in earlier[earlier["claim"] == after.claim].itertuples():
            claim = by_id[after.claim]
            lines.append(
                (after.claim, after.sentence, before.corpus, before.verdict, before.effect, before.low, before.high,
                 _epochs(rows, claim, deciding=False), after.verdict, after.effect, after.low, after.high,
                 _epochs(rows, claim, deciding=True), after.kind, before.verdict != after.verdict,
                 abs(after.effect - before.effect) > 0.5 * hypot(before.high - before.low, after.high - after.low))
            )  # fmt: skip
    return pd.DataFrame(lines, columns=COLUMNS)


def _epochs(rows: pd.DataFrame, claim: Claim, deciding: bool) -> str:
    """The epochs of a claim's runs on worlds that decide, or on the others: '8', or '8 to 48'."""
    own = rows[rows["variant"].isin((*claim.above, *claim.below)) & (rows["dataset"] == "scenes")]
    own = own[(own["world"].astype(int) > 0) == deciding]
    least, most = int(own["epochs"].astype(int).min()), int(own["epochs"].astype(int).max())
    return f"{least}" if least == most else f"{least} to {most}"
