"""Claims as data: a sentence of a paper, and which variants a number must put in which order. study.claims decides
them.
"""

from dataclasses import dataclass

from xmr_core.base.errors import BadInput, unknown

RULES = ("each", "means")


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

    A comparison pairs seeds and is held when the 95 % Student interval of the difference lies on the claimed side of 0,
    contradicted when it lies on the other, else undecided; fewer than 3 common seeds decide nothing.
    family: claims that are corrected together for being many. '' is the family of the package's own papers.
    Raises: BadInput for another rule or no variant.

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

    def __post_init__(self):
        if self.rule not in RULES:
            raise unknown("rule of a claim", self.rule, RULES)
        if not self.above:
            raise BadInput(f"claim {self.id} is about no variant.")

    def rule_text(self) -> str:
        """The rule in words."""
        join = (lambda names: names[0]) if self.rule == "each" else (lambda names: f"the mean of {names[0]}")
        above = " and ".join(self.above) if self.rule == "each" else join([", ".join(self.above)])
        below = join([", ".join(self.below)]) if self.below else "0"
        each = "each of " * (len(self.below) > 1 and self.rule == "each")
        return f"{self.measure.name}: {above} {'below' if self.smaller else 'above'} {each}{below}"
