"""Which verdicts rest on how they were counted: the same ledger by other seeds and by other degrees of freedom."""

from collections.abc import Mapping, Sequence

import pandas as pd

from xmr_core.study.claims import NONE_YET, NOT_MEASURED, has_verdict, ledger
from xmr_core.study.claims_data.claim import JOIN, Claim
from xmr_core.study.protocol import SEEDS, SEEN_EARLY, canonical

NEVER, ALWAYS = "9999", ""  # as the time from which comparisons have the later rule's degrees of freedom
READINGS = (
    "first seeds", "later seeds", "n − 1", "later rule", "second training", "third training", "72 epochs",
)  # fmt: skip


def sensitivity(
    rows: pd.DataFrame,
    claims: Sequence[Claim],
    others: Mapping[str, pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """One line per claim on scenes whose verdict another reading of the same rows would change: claim, sentence,
    verdict, and the verdict by each of READINGS ('' where that is not another reading).

    first seeds: by the first five seeds alone, of claims on methods that had more only after that verdict had been seen
    (docs/protocol.md#protocol-changes); later seeds: by the others alone. n − 1, later rule: with the degrees of
    freedom of either rule for all comparisons, whenever their runs began.
    others: other rows by the name of their reading: second training, third training (again.later_rows), of runs that
    other processors trained once more; 72 epochs (decision_rows.equally_long), where no method was run for longer than
    others. rows: of results.study_rows.

    >>> sensitivity(pd.DataFrame(columns=["dataset"]), []).empty
    True
    """
    own = rows[rows["dataset"] == "scenes"]
    if not len(own) or not len(claims):
        return pd.DataFrame(columns=["claim", "sentence", "verdict", *READINGS])
    seeds = own["seed"].astype(int)
    table = ledger(own, claims).set_index(["claim", "corpus"])
    table = table[has_verdict(table)]
    readings = {
        "first seeds": ledger(own[seeds < SEEDS], claims),
        "later seeds": ledger(own[seeds >= SEEDS], claims),
        "n − 1": ledger(own, claims, since=NEVER),
        "later rule": ledger(own, claims, since=ALWAYS),
    }
    readings |= {name: ledger(other[other["dataset"] == "scenes"], claims) for name, other in (others or {}).items()}
    again = {claim.id for claim in claims if _seen_early(claim)}
    lines = table[["sentence", "verdict"]].copy()
    for name, other in readings.items():
        lines[name] = other.set_index(["claim", "corpus"])["verdict"].reindex(lines.index)
        if name.endswith("seeds"):
            early = lines.index.get_level_values("claim").isin(again) & (table["seeds"] > SEEDS)
            lines[name] = lines[name].where(early, "")
    lines = lines.reindex(columns=["sentence", "verdict", *READINGS], fill_value="").fillna("")
    lines = lines.replace([NONE_YET, NOT_MEASURED], "")
    differs = lines[list(READINGS)].ne(lines["verdict"], axis=0) & lines[list(READINGS)].ne("")
    return lines[differs.any(axis=1)].reset_index().drop(columns="corpus")


def _seen_early(claim: Claim) -> bool:
    parts = {part for label in (*claim.above, *claim.below) for part in label.split(JOIN)}
    return not parts.isdisjoint(SEEN_EARLY) or any(canonical().get(part) in SEEN_EARLY for part in parts)
