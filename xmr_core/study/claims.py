"""The claims ledger: sentences of the papers, the rules that decide them, and verdicts from rows of results."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd

from xmr_core.base.errors import unknown
from xmr_core.evaluation.stats import decided, holm, seed_interval
from xmr_core.methods.claim import Claim, Measure
from xmr_core.methods.registry import methods, papers
from xmr_core.study.results import latest

LEAST_SEEDS = 3
COLUMNS = [
    "claim",
    "source",
    "sentence",
    "measure",
    "corpus",
    "seeds",
    "effect",
    "low",
    "high",
    "verdict",
    "p",
    "p Holm",
]

# The papers' claims. Rules were fixed before the runs that decide them; do not edit one to fit a result.
CLAIMS: tuple[Claim, ...] = tuple(claim for spec in papers().values() for claim in spec.claims)


def all_claims() -> tuple[Claim, ...]:
    """The papers' claims, and those of methods from outside the package. The latter are families of their own: however
    many there are, they change no number of the papers' claims.

    >>> len(all_claims()) >= len(CLAIMS)
    True
    """
    others = [(name, spec) for name, spec in methods().items() if name not in papers()]
    return CLAIMS + tuple(replace(claim, family=claim.family or name) for name, spec in others for claim in spec.claims)


def decide(claim: Claim, values: Mapping[str, pd.Series]) -> list[dict]:
    """The comparisons of a claim on one corpus: effect (in the claimed direction), low, high, p (two-sided, paired
    Student), seeds.

    values: variant → its measure by seed. Empty when a variant is missing, or no seed is common.

    >>> values = {"DivE": pd.Series([3.0, 3.1]), "VSE++": pd.Series([2.0, 2.2])}
    >>> round(decide(Claim("c", "ours", "Sets win.", ("DivE",), ("VSE++",)), values)[0]["effect"], 2)
    0.95
    """
    if any(variant not in values for variant in (*claim.above, *claim.below)):
        return []
    group = lambda names: pd.concat([values[n] for n in names], axis=1, join="inner").mean(axis=1)  # noqa: E731
    if claim.rule == "means":
        pairs = [(group(claim.above), group(claim.below) if claim.below else 0.0)]
    else:
        pairs = [(values[a], values[b]) for a in claim.above for b in claim.below] or [
            (values[a], 0.0) for a in claim.above
        ]
    from scipy.stats import ttest_1samp  # takes as long to import as half of torch

    out = []
    for a, b in pairs:
        difference = ((a - b) * (-1 if claim.smaller else 1)).dropna()
        if not len(difference):
            return []
        mean, low, high = seed_interval(difference)
        p = float(ttest_1samp(difference, 0.0).pvalue) if len(difference) > 1 and difference.std() > 0 else np.nan
        out.append({"effect": mean, "low": low, "high": high, "p": p, "seeds": len(difference)})
    return out


def ledger(rows: pd.DataFrame, claims: Iterable[Claim], ids: Sequence[str] = ()) -> pd.DataFrame:
    """Verdicts of claims from rows of results (results.read), one line per claim and corpus; COLUMNS.

    effect, low, high: of the weakest comparison, in the claimed direction (negative speaks against the claim). p Holm:
    the largest of the claim's p, corrected over all comparisons of its family on that corpus; it is shown beside the
    verdict, which the claim's own rule decides. A claim without rows for any corpus has one line with the verdict 'not
    measured'.
    ids: only these claims are returned; the correction still counts all. Raises: BadInput for an id that no claim has.

    >>> from xmr_core.study.results import study_rows
    >>> ledger(study_rows().iloc[:0], CLAIMS, ["dive-sets"])["verdict"].tolist()
    ['not measured']
    """
    claims = list(claims)
    for wanted in ids:
        if wanted not in {c.id for c in claims}:
            raise unknown("claim", wanted, [c.id for c in claims])
    lines, weights, families = [], [], []
    by_corpus = cache(partial(_by_corpus, rows))  # many claims read the same measure
    for claim in claims:
        decisions = [(corpus, decide(claim, values)) for corpus, values in by_corpus(claim.measure)]
        decisions = [(corpus, comparisons) for corpus, comparisons in decisions if comparisons] or [("–", [])]
        for corpus, comparisons in decisions:
            line_start = {
                "claim": claim.id,
                "source": claim.source,
                "sentence": claim.sentence,
                "measure": claim.rule_text(),
                "corpus": corpus,
            }
            lines.append(line_start | _verdict(comparisons))
            weights.append([c["p"] for c in comparisons if c["seeds"] >= LEAST_SEEDS and not np.isnan(c["p"])])
            families.append(claim.family)
    table = pd.DataFrame(lines).reindex(columns=COLUMNS)
    table["p Holm"] = np.nan
    for _, group in table.groupby([table["corpus"], pd.Series(families, dtype=object)], sort=False):
        measured = [n for n in group.index if weights[n]]
        corrected = iter(holm([p for n in measured for p in weights[n]]))
        for n in measured:
            table.loc[n, "p Holm"] = max(next(corrected) for _ in weights[n])
    return table[table["claim"].isin(ids)].reset_index(drop=True) if len(ids) else table


def _verdict(comparisons: list[dict]) -> dict:
    if not comparisons:
        return {"seeds": 0, "verdict": "not measured"}
    words = [decided(c["low"], c["high"], c["seeds"], LEAST_SEEDS) for c in comparisons]
    weakest = min(comparisons, key=lambda c: c["effect"])
    word = "contradicted" if "contradicted" in words else "held" if set(words) == {"held"} else "undecided"
    return {
        **weakest,
        "seeds": min(c["seeds"] for c in comparisons),
        "p": max(c["p"] for c in comparisons),
        "verdict": word,
    }


def _by_corpus(rows: pd.DataFrame, measure: Measure) -> list[tuple[str, dict[str, pd.Series]]]:
    """(corpus, variant → values by seed), corpora in order of appearance, called 'scenes (study)' and the like."""
    selected = rows[
        (rows["relevance"] == measure.relevance) & (rows["direction"] == measure.direction)
        & (rows["metric"] == measure.metric) & (rows["k"].astype(int) == measure.k) & (rows["origin"] == "ours")
    ]  # fmt: skip
    selected = latest(selected)
    corpus = selected["dataset"] + selected["size"].fillna("").map(lambda size: f" ({size})" if size else "")
    out = []
    for name in corpus.unique():
        part = selected.loc[corpus == name, ["variant", "seed", "value"]]
        out.append(
            (name, {v: measure.factor * g.set_index("seed")["value"].astype(float) for v, g in part.groupby("variant")})
        )
    return out


def in_words(table: pd.DataFrame) -> str:
    """The lines of a ledger as sentences: "Smooth-Chamfer beats MIL: undecided on scenes (study), 2.5 [-8.9, 13.9] with
    5 seeds.".

    >>> from xmr_core.study.results import study_rows
    >>> in_words(ledger(study_rows().iloc[:0], CLAIMS, ["dive-smooth-mil"]))
    '“Smooth-Chamfer beats MIL”: not measured yet.'
    """
    out = []
    for line in table.itertuples():
        sentence = line.sentence.rstrip(".")
        if line.verdict == "not measured":
            out.append(f"“{sentence}”: not measured yet.")
        else:
            digits = 1 if abs(line.effect) >= 1 else 3
            interval = f" [{line.low:.{digits}f}, {line.high:.{digits}f}]" if not np.isnan(line.low) else ""
            out.append(
                f"“{sentence}”: {line.verdict} on {line.corpus}, {line.effect:+.{digits}f}{interval} "
                f"with {line.seeds} seeds."
            )
    return " ".join(out)
