"""Claims as data: a sentence of a paper, and which variants a number must put in which order."""

from dataclasses import dataclass

from xmr_core.base.errors import require_choice

RULES = ("each", "means")


@dataclass(frozen=True)
class Measure:
    """One number of a run in the rows of results: its columns, a factor to show it with (100 for percent), and whether
    it counts something, such as negatives.

    digits: after the decimal point, in every sentence: 1 for percent and counts, 3 for anything else.
    """

    name: str
    relevance: str
    direction: str
    metric: str
    k: int = 0
    factor: float = 1.0
    counts: bool = False

    @property
    def digits(self) -> int:
        return 1 if self.factor == 100 or self.counts else 3


RSUM = Measure("RSUM annotated", "annotated", "both", "rsum", factor=100)
TRUE_RSUM = Measure("RSUM, all true answers", "exhaustive", "both", "rsum", factor=100)
HUMAN_RSUM = Measure("RSUM, pairs that experts rated 3 or more", "human", "both", "rsum", factor=100)
VARIANCE = {m: Measure(f"log circular variance of {m}", "", m, "log_circular_variance") for m in ("images", "captions")}


def correlation(name: str, relevance: str, direction: str, metric: str) -> Measure:
    """Spearman's ρ over the queries of one direction."""
    return Measure(f"Spearman's ρ, {name}, {direction}", relevance, direction, metric)


@dataclass(frozen=True)
class Claim:
    """One sentence that a number can decide: the variants `above` have a larger measure than the variants `below`.

    rule 'each': every one of `above` against every one of `below`; held if every comparison is, contradicted if one is.
    rule 'means': the mean over `above` minus the mean over `below`, as one comparison.
    `below` empty: the measure of `above` itself is compared with 0. smaller: the claim says that `above` is smaller.
    bound: what every effect must exceed, in units of the measure: "clearly better" is more than a sign, and a negative
    bound says "not worse by more than".

    A comparison pairs seeds and is held when its interval lies on the claimed side of the bound, contradicted when it
    lies on the other; study.ledger.ledger says how it is made, and when it is equivalent or undecided.
    family: claims that are corrected together for being many. '' is the family of the paper that the source names.
    Raises: BadInput for another rule.

    >>> Claim("sets", "ours", "Sets beat one vector.", ("DivE",), ("VSE++",)).rule_text()
    'RSUM annotated: DivE above VSE++'
    """

    id: str
    source: str
    sentence: str
    above: tuple[str, ...]
    below: tuple[str, ...] = ()
    measure: Measure = RSUM
    rule: str = "each"
    smaller: bool = False
    family: str = ""
    bound: float = 0.0

    def __post_init__(self):
        require_choice("rule of a claim", self.rule, RULES)

    def rule_text(self) -> str:
        """The rule in words."""
        names, order = " and ".join(self.above), "below" if self.smaller else "above"
        if self.rule == "means":
            names = f"the mean of {', '.join(self.above)}"
        if not self.below:
            return f"{self.measure.name}: {names} {order} {(-self.bound if self.smaller else self.bound) + 0.0:g}"
        others = ", ".join(self.below)
        if self.rule == "means":
            others = f"the mean of {others}"
        elif len(self.below) > 1:
            others = f"each of {others}"
        margin = f" by more than {self.bound:g}" if self.bound > 0 else ""
        margin = f", or short of it by less than {-self.bound:g}" if self.bound < 0 else margin
        return f"{self.measure.name}: {names} {order} {others}{margin}"
