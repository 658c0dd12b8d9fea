"""A claim, the rule that decides it, and how a table of results decides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from xmr_core.base.errors import BadInput, unknown
from xmr_core.evaluation.stats import decided, holm, seed_interval
from xmr_core.study.results import latest

LEAST_SEEDS = 3
RULES = ("each", "means")
COLUMNS = ["claim", "source", "sentence", "measure", "corpus", "seeds", "effect", "low", "high", "verdict", "p", "p Holm"]


@dataclass(frozen=True)
class Measure:
    """One number of a run in the rows of results: its columns, and a factor to show it with (100 for percent)."""

    name: str
    relevance: str
    direction: str
    metric: str
    k: int = 0
    factor: float = 1.0


RSUM = Measure("RSUM annotated", "annotated", "both", "rsum", factor=100)


@dataclass(frozen=True)
class Claim:
    """One sentence that a number can decide: the variants `above` have a larger measure than the variants `below`.

    rule 'each': every one of `above` against every one of `below`; held if every comparison is, contradicted if one is.
    rule 'means': the mean over `above` minus the mean over `below`, as one comparison.
    `below` empty: the measure of `above` itself is compared with 0. smaller: the claim says that `above` is smaller.

    A comparison pairs seeds and is held when the 95 % Student interval of the difference lies on the claimed side of 0, contradicted
    when it lies on the other, else undecided; fewer than 3 common seeds decide nothing.
    Raises: BadInput for another rule or no variant.
    """

    id: str
    source: str
    sentence: str
    above: tuple[str, ...]
    below: tuple[str, ...] = ()
    measure: Measure = RSUM
    rule: str = "each"
    smaller: bool = False

    def __post_init__(self):
        if self.rule not in RULES:
            raise unknown("rule of a claim", self.rule, RULES)
        if not self.above:
            raise BadInput(f"claim {self.id} is about no variant.")

    def rule_text(self) -> str:
        """The rule in words."""
        sides = " and ".join(self.above) if self.rule == "each" else f"the mean of {', '.join(self.above)}"
        others = (", ".join(self.below) if self.rule == "each" else f"the mean of {', '.join(self.below)}") if self.below else "0"
        return f"{self.measure.name}: {sides} {'below' if self.smaller else 'above'} {'each of ' * (len(self.below) > 1 and self.rule == 'each')}{others}"


def decide(claim: Claim, values: Mapping[str, pd.Series]) -> list[dict]:
    """The comparisons of a claim on one corpus: effect (in the claimed direction), low, high, p (two-sided, paired Student), seeds.

    values: variant → its measure by seed. Empty when a variant is missing, or no seed is common.
    """
    if any(variant not in values for variant in (*claim.above, *claim.below)):
        return []
    group = lambda names: pd.concat([values[n] for n in names], axis=1, join="inner").mean(axis=1)  # noqa: E731
    if claim.rule == "means":
        pairs = [(group(claim.above), group(claim.below) if claim.below else 0.0)]
    else:
        pairs = [(values[a], values[b]) for a in claim.above for b in claim.below] or [(values[a], 0.0) for a in claim.above]
    out = []
    for a, b in pairs:
        difference = ((a - b) * (-1 if claim.smaller else 1)).dropna()
        if not len(difference):
            return []
        mean, low, high = seed_interval(difference)
        p = float(scipy_stats.ttest_1samp(difference, 0.0).pvalue) if len(difference) > 1 and difference.std() > 0 else np.nan
        out.append({"effect": mean, "low": low, "high": high, "p": p, "seeds": len(difference)})
    return out


def ledger(rows: pd.DataFrame, claims: Iterable[Claim], ids: Sequence[str] = ()) -> pd.DataFrame:
    """Verdicts of claims from rows of results (results.read), one line per claim and corpus; COLUMNS.

    effect, low, high: of the weakest comparison, in the claimed direction (negative speaks against the claim). p Holm: corrected over
    all comparisons of the whole ledger on that corpus, the largest of the claim's; it is shown beside the verdict, which the
    claim's own rule decides. A claim without rows for any corpus has one line with the verdict 'not measured'.
    ids: only these claims are returned; the correction still counts all. Raises: BadInput for an id that no claim has.
    """
    claims = list(claims)
    for wanted in ids:
        if wanted not in {c.id for c in claims}:
            raise unknown("claim", wanted, [c.id for c in claims])
    lines, weights = [], []
    for claim in claims:
        found = [(corpus, decide(claim, values)) for corpus, values in _by_corpus(rows, claim.measure)]
        found = [(corpus, comparisons) for corpus, comparisons in found if comparisons] or [("–", [])]
        for corpus, comparisons in found:
            told = {"claim": claim.id, "source": claim.source, "sentence": claim.sentence, "measure": claim.rule_text(), "corpus": corpus}
            lines.append(told | _verdict(comparisons))
            weights.append([c["p"] for c in comparisons if c["seeds"] >= LEAST_SEEDS and c["p"] == c["p"]])
    table = pd.DataFrame(lines).reindex(columns=COLUMNS)
    table["p Holm"] = np.nan
    for corpus in table["corpus"].unique():
        at = [n for n in np.flatnonzero(table["corpus"] == corpus) if weights[n]]
        corrected = iter(holm([p for n in at for p in weights[n]]))
        for n in at:
            table.loc[n, "p Holm"] = max(next(corrected) for _ in weights[n])
    return table[table["claim"].isin(ids)].reset_index(drop=True) if len(ids) else table


def _verdict(comparisons: list[dict]) -> dict:
    if not comparisons:
        return {"seeds": 0, "verdict": "not measured"}
    words = [decided(c["low"], c["high"], c["seeds"], LEAST_SEEDS) for c in comparisons]
    weakest = min(comparisons, key=lambda c: c["effect"])
    word = "contradicted" if "contradicted" in words else "held" if set(words) == {"held"} else "undecided"
    return {**weakest, "seeds": min(c["seeds"] for c in comparisons), "p": max(c["p"] for c in comparisons), "verdict": word}


def _by_corpus(rows: pd.DataFrame, measure: Measure) -> list[tuple[str, dict[str, pd.Series]]]:
    """(corpus, variant → values by seed), corpora in order of appearance, called 'scenes (study)' and the like."""
    mine = rows[
        (rows["relevance"] == measure.relevance) & (rows["direction"] == measure.direction) & (rows["metric"] == measure.metric)
        & (rows["k"].astype(int) == measure.k) & (rows["origin"] == "ours")
    ]  # fmt: skip
    mine = latest(mine)
    corpus = mine["dataset"] + mine["size"].fillna("").map(lambda size: f" ({size})" if size else "")
    out = []
    for name in corpus.unique():
        part = mine[corpus == name]
        out.append((name, {v: measure.factor * g.set_index("seed")["value"].astype(float) for v, g in part.groupby("variant")}))
    return out


def in_words(table: pd.DataFrame) -> str:
    """The lines of a ledger as sentences: "Smooth-Chamfer beats MIL: undecided on scenes (study), 2.5 [-8.9, 13.9] with 5 seeds."."""
    out = []
    for line in table.itertuples():
        sentence = line.sentence.rstrip(".")
        if line.verdict == "not measured":
            out.append(f"“{sentence}”: not measured yet.")
        else:
            digits = 1 if abs(line.effect) >= 1 else 3
            interval = f" [{line.low:.{digits}f}, {line.high:.{digits}f}]" if line.low == line.low else ""
            out.append(f"“{sentence}”: {line.verdict} on {line.corpus}, {line.effect:+.{digits}f}{interval} with {line.seeds} seeds.")
    return " ".join(out)
