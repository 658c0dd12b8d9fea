"""The register of rules: which claim was fixed in which form, and when. A claim is confirmatory only if its rule stood
there before the rows that decide it were made."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import filelock
import pandas as pd

from xmr_core.base import files, fingerprint
from xmr_core.study.claims_data.claim import Claim

REGISTER = Path(__file__).resolve().parents[2] / "reports" / "protocol" / "rules.csv"
_COLUMNS = ["claim", "rule", "text", "fixed_utc"]


def rule_hash(claim: Claim) -> str:
    """16 hex digits of everything that decides a claim; its sentence and source may be reworded.

    >>> a, b = (Claim("c", "ours", text, ("DivE",), ("VSE++",)) for text in ("Sets win.", "Sets are better."))
    >>> rule_hash(a) == rule_hash(b)
    True
    """
    m = claim.measure
    what = [m.relevance, m.direction, m.metric, m.k, m.factor]
    return fingerprint.content_hash([claim.id, claim.above, claim.below, what, claim.rule, claim.smaller, claim.bound])


def register(claims: Iterable[Claim], path: Path = REGISTER) -> int:
    """Write the rules that the register does not hold yet, with the time of now; returns how many. Lines are only
    added: a rule that was changed is another one, fixed later. Raises: CannotWrite."""
    files.make_folder(path.parent)
    with filelock.FileLock(path.with_name("." + path.name + ".lock")):
        held = fixed(path)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        new = [[c.id, h, c.rule_text(), now] for c in claims if (c.id, h := rule_hash(c)) not in held]
        if new:
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            text = pd.DataFrame(new, columns=_COLUMNS).to_csv(index=False, header=not before)
            files.write_atomic(path, before + text)
    return len(new)


def fixed(path: Path = REGISTER) -> dict[tuple[str, str], str]:
    """(claim, its rule_hash) → UTC time at which it was registered; empty without a register."""
    if not path.exists():
        return {}
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return {(claim, rule): when for claim, rule, when in table[["claim", "rule", "fixed_utc"]].itertuples(index=False)}


def kind(claim: Claim, began: str, deciding: bool, register: dict[tuple[str, str], str]) -> str:
    """'confirmatory' if the rule was registered before `began` (UTC, when its first run started) and the rows are
    `deciding`, that is from worlds or corpora on which nothing was chosen; else 'exploratory'.

    >>> claim = Claim("c", "ours", "Sets win.", ("DivE",), ("VSE++",))
    >>> kind(claim, "2026-11-23T10:00:00+00:00", True, {("c", rule_hash(claim)): "2026-11-22T10:00:00+00:00"})
    'confirmatory'
    """
    when = register.get((claim.id, rule_hash(claim)), "")
    return "confirmatory" if deciding and when and began and when < began else "exploratory"
