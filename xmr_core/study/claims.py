"""The claims ledger: sentences of the papers, the rules that decide them, and verdicts from rows of results."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial

import numpy as np
import pandas as pd

from xmr_core.base.errors import unknown
from xmr_core.study.claim_checks import require_decidable
from xmr_core.study.claims_data import CLAIMS
from xmr_core.study.claims_data.claim import RSUM, Claim
from xmr_core.study.comparisons import SINCE, Comparison, comparisons, equivalent, values_of
from xmr_core.study.families import bound, corrected, family, least_seeds, origin
from xmr_core.study.image_values import ImageValues, read_image_values
from xmr_core.study.rules import fixed, kind

NONE_YET, NOT_MEASURED = "no verdict yet", "not measured"  # too few seeds; no rows
DECIDED = ("held", "contradicted", "equivalent", "undecided")
VERDICTS = (*DECIDED, NONE_YET, NOT_MEASURED)
COLUMNS = [
    "claim", "source", "sentence", "measure", "corpus", "kind", "seeds", "needs", "worlds", "claimed", "bound",
    "effect", "low", "high", "verdict", "p", "p Holm",
]  # fmt: skip

_PAPERS = frozenset(CLAIMS)


def all_claims() -> tuple[Claim, ...]:
    """The claims that the study registers and decides."""
    return CLAIMS


def ledger(
    rows: pd.DataFrame,
    claims: Iterable[Claim],
    ids: Sequence[str] = (),
    images: ImageValues | None = None,
    since: str = SINCE,
) -> pd.DataFrame:
    """Verdicts of claims from rows of results (results.read), one line per claim and corpus; COLUMNS.

    effect: above − below, as the measure counts it (where `claimed` is 'below', a negative one is for the claim), of
    the comparison that decides the verdict: the one most against the claim. low, high: its interval, whose level is
    Holm's within the claims of one paper on that corpus; p: against the claim's bound, and p Holm: corrected, of that
    same comparison; NaN where all seeds are equal. verdict: 'held' where the interval of every comparison lies beyond
    the bound on the claimed side, 'contradicted' where one lies on the other side, 'equivalent' where none is
    contradicted and all that are not held lie within ±5 points of RSUM or ±1 point of another retrieval metric, else
    'undecided'; 'no verdict yet', without an interval, with fewer seeds than it needs (families.least_seeds), and
    'not measured', in one line, without rows for any corpus. kind: 'confirmatory' if the rule was registered before the
    rows and these come from worlds that no choice was made on, else 'exploratory'. needs: least seeds for a verdict.
    ids: only these claims are returned; the correction still counts all of their papers. images: of the runs' test
    images; None takes those of the protocol. since: of comparisons.degrees_of_freedom.
    Raises: BadInput for an id that no claim has or that two have, or a label that no method puts on runs.
    Source: docs/protocol.md#protocol-decision.

    >>> from xmr_core.study.results import study_rows
    >>> ledger(study_rows().iloc[:0], CLAIMS, ["dive-sets"])["verdict"].tolist()
    ['not measured']
    """
    claims = list(claims)
    require_decidable([c for c in claims if c not in _PAPERS], claims, rows)
    for wanted in ids:
        if wanted not in {c.id for c in claims}:
            raise unknown("claim", wanted, [c.id for c in claims])
    if len(ids):  # other families change no number of these
        families = {family(c) for c in claims if c.id in ids}
        claims = [c for c in claims if family(c) in families]
    images = read_image_values() if images is None else images
    by_measure = cache(partial(values_of, rows))  # many claims read the same measure
    lines = []
    for claim in claims:
        by_corpus = {
            corpus: comparisons(claim, values, images, since) for corpus, values in by_measure(claim.measure).items()
        }
        for corpus, decided in ({c: d for c, d in by_corpus.items() if d} or {"–": []}).items():
            lines.append((claim, corpus, decided))
    register = fixed()
    limits = corrected(lines, claims, register)
    table = pd.DataFrame(
        [
            {"claim": claim.id, "source": claim.source, "sentence": claim.sentence, "measure": claim.rule_text(),
             "corpus": corpus, "claimed": "below" if claim.smaller else "above", "bound": bound(claim),
             "kind": kind(claim, *origin(decided), register) if decided else "",
             "needs": least_seeds(corpus, claim),
             **_verdict(claim, decided, limits.get(n, []))}
            for n, (claim, corpus, decided) in enumerate(lines)
        ]
    ).reindex(columns=COLUMNS)  # fmt: skip
    return table[table["claim"].isin(ids)].reset_index(drop=True) if len(ids) else table


def _verdict(claim: Claim, decided: list[Comparison], limits: list[tuple[float, ...]]) -> dict:
    if not decided:
        return {"seeds": 0, "verdict": NOT_MEASURED}
    sign, most = -1 if claim.smaller else 1, equivalent(claim.measure)
    against = min(range(len(decided)), key=lambda n: sign * decided[n].effect)
    about = decided[against]
    line = {"effect": about.effect, "seeds": min(c.seeds for c in decided), "worlds": about.worlds}
    if not limits:
        return line | {"verdict": NONE_YET}
    words = []
    for low, high, _, _ in limits:
        beyond = (low - claim.bound, high - claim.bound) if sign > 0 else (-high - claim.bound, -low - claim.bound)
        same = max(abs(low), abs(high)) <= most
        words.append(
            "held" if beyond[0] > 0 else "contradicted" if beyond[1] < 0 else "equivalent" * same or "undecided"
        )
    order = ("contradicted", "undecided", "equivalent", "held")
    word = next(w for w in order if w in words)
    # of several comparisons with the verdict's word, the one most against the claim is shown
    against = min((n for n, w in enumerate(words) if w == word), key=lambda n: sign * decided[n].effect)
    low, high, p, p_holm = limits[against]
    varies = decided[against].error > 1e-9 * abs(decided[against].effect)  # else p is that of a rounding error
    return line | {
        "effect": decided[against].effect,
        "low": low,
        "high": high,
        "p": p if varies else np.nan,
        "p Holm": p_holm if varies else np.nan,
        "verdict": word,
    }


def has_verdict(table: pd.DataFrame) -> pd.Series:
    """Which lines of a ledger hold a verdict: those that were measured on enough seeds.

    >>> has_verdict(pd.DataFrame({"verdict": ["held", "no verdict yet", "undecided", "not measured"]})).tolist()
    [True, False, True, False]
    """
    return table["verdict"].isin(DECIDED)


def in_words(table: pd.DataFrame) -> str:
    """The lines of a ledger as a list in Markdown: an item for each sentence with its verdict on every corpus, such as
    "- “Smooth-Chamfer beats MIL”: **undecided** on scenes (study), +2.5 [-8.9, 13.9] (5 seeds, exploratory).", and one
    for the sentences without rows. Of a line without a verdict the seeds that it needs are said.

    >>> from xmr_core.study.results import study_rows
    >>> in_words(ledger(study_rows().iloc[:0], CLAIMS, ["dive-smooth-mil"]))
    '- Not measured yet: “Smooth-Chamfer beats MIL”.'
    """
    verdicts: dict[str, list[str]] = {}
    absent = []
    for line in table.itertuples():
        sentence = f"“{line.sentence.rstrip('.')}”"
        if line.verdict == NOT_MEASURED:
            absent.append(sentence)
            continue
        limit = f", against {line.bound:+g}" if line.bound else ""
        needed = f" of at least {line.needs}" if line.verdict == NONE_YET else ""
        seeds = f"{line.seeds}{needed} seeds"
        seeds += ", exploratory" * (line.kind == "exploratory")
        verdicts.setdefault(sentence, []).append(
            f"**{line.verdict}** on {line.corpus}, {effect_text(line)}{limit} ({seeds})"
        )
    out = [f"{sentence}: {'; '.join(said)}." for sentence, said in verdicts.items()]
    if absent:
        out.append(f"Not measured yet: {', '.join(absent)}.")
    return "\n".join(f"- {line}" for line in out)


def effect_text(line) -> str:
    """The effect of a line of a ledger with its interval, in the digits of the claim's measure: '+2.5 [-8.9, 13.9]'.

    line: as of `ledger(…).itertuples()`.

    >>> table = pd.DataFrame([{"claim": "dive-sets", "effect": 2.46, "low": -8.9, "high": 13.9}])
    >>> effect_text(next(table.itertuples()))
    '+2.5 [-8.9, 13.9]'
    """
    digits = _digits_of().get(line.claim, RSUM.digits)
    interval = f" [{line.low:.{digits}f}, {line.high:.{digits}f}]" if not np.isnan(line.low) else ""
    return f"{line.effect:+.{digits}f}{interval}"


def _digits_of() -> dict[str, int]:
    return {claim.id: claim.measure.digits for claim in all_claims()}


def counts(table: pd.DataFrame) -> Mapping[str, int]:
    """How many lines of a ledger have each verdict, in the order of VERDICTS.

    >>> dict(counts(pd.DataFrame({"verdict": ["held", "undecided", "held"]})))
    {'held': 2, 'undecided': 1}
    """
    n = table["verdict"].value_counts()
    return {word: int(n[word]) for word in VERDICTS if word in n}
