"""Families of claims: which comparisons are corrected together for being many, and how many those are."""

from collections.abc import Mapping, Sequence

from xmr_core.evaluation.simultaneous import holm_intervals
from xmr_core.study.claims_data.claim import JOIN, Claim
from xmr_core.study.comparisons import Comparison, groups
from xmr_core.study.photograph_jobs import LIGHT_SEEDS
from xmr_core.study.photograph_jobs import SEEDS as PAIR_SEEDS
from xmr_core.study.protocol import SEEDS, SEEN_EARLY, canonical, compares_pairs, labels, variants
from xmr_core.study.rules import kind

LEAST_SEEDS = 3  # fewer decide nothing; of what the protocol plans, it is the planned number
Line = tuple[Claim, str, list[Comparison]]  # a claim, a corpus, and its comparisons there
Limits = dict[int, list[tuple[float, ...]]]


def family(claim: Claim) -> str:
    """What the correction counts together: the claims of one paper, unless the claim says otherwise.

    >>> family(Claim("c", "DivE, Table 1", "Sets win.", ("DivE",), ("VSE++",)))
    'DivE'
    """
    return claim.family or claim.source.replace(",", " ").split()[0]


def least_seeds(corpus: str, claim: Claim) -> int:
    """How many seeds a verdict on a corpus needs: the fewest that the protocol plans for what the claim compares there,
    so that nobody looks before; LEAST_SEEDS on a corpus that it does not know.

    >>> light, pairs = (Claim("c", "ours", "A beats B.", (name,), ("VSE++",)) for name in ("DivE", "SAF + SGR"))
    >>> least_seeds("scenes (quick, worlds 1 and 2)", light)
    5
    >>> least_seeds("flickr8k", light), least_seeds("flickr8k", pairs), least_seeds("coco", light)
    (5, 3, 3)
    """
    if corpus.startswith("scenes") and ", world" in corpus:
        return SEEDS
    if corpus != "flickr8k":
        return LEAST_SEEDS
    names = {part for name in (*claim.above, *claim.below) for part in name.split(JOIN)}
    return PAIR_SEEDS if any(name in variants() and compares_pairs(name) for name in names) else LIGHT_SEEDS


def bound(claim: Claim) -> float:
    """What the effect is tested against, in the measure's own direction."""
    return -claim.bound if claim.smaller else claim.bound


def origin(decided: Sequence[Comparison]) -> tuple[str, bool]:
    """When the first run of these rows began, and whether nothing was chosen on where they come from."""
    return min(c.began for c in decided), all(c.deciding for c in decided)


def corrected(lines: Sequence[Line], claims: Sequence[Claim], register: Mapping[tuple[str, str], str]) -> Limits:
    """Line → (low, high, p, corrected p) of each of its comparisons, by holm_intervals within a family on a corpus.
    Lines with fewer than `least_seeds` take no part. A comparison that two claims make counts once.

    Where a line is confirmatory, the family is what was planned: all comparisons of its claims that the protocol will
    make on that corpus, measured or not; and what was seen with fewer seeds before counts twice. Else it is those that
    were measured. claims: all of these families. register: of rules.fixed.
    Source: docs/protocol.md#protocol-decision.
    """
    together: dict[tuple[str, str], list[int]] = {}
    for n, (claim, corpus, decided) in enumerate(lines):
        if decided and min(c.seeds for c in decided) >= least_seeds(corpus, claim):
            together.setdefault((family(claim), corpus), []).append(n)
    out: Limits = {}
    for (name, corpus), members in together.items():
        planned = any(kind(lines[n][0], *origin(lines[n][2]), register) == "confirmatory" for n in members)
        same = canonical() if planned else {}  # labels of one run, which rows from before the protocol do not share
        every = [(n, c, key) for n in members for c, key in zip(lines[n][2], _keys(lines[n][0], same), strict=True)]
        tested = {key: (c, bound(lines[n][0])) for n, c, key in every}
        plan = [c for c in claims if family(c) == name and _on(corpus, c)] if planned else []
        again = [key for key, (c, _) in tested.items() if planned and _seen_early(corpus, key) and c.seeds > SEEDS]
        limits = holm_intervals(
            [c.effect for c, _ in tested.values()],
            [c.error for c, _ in tested.values()],
            [c.degrees for c, _ in tested.values()],
            [limit for _, limit in tested.values()],
            unmeasured=len({key for c in plan for key in _keys(c, same)} - tested.keys()) + len(again),
        )
        by_key = dict(zip(tested, zip(*limits, strict=True), strict=True))
        for n, _, key in every:
            out.setdefault(n, []).append(tuple(float(v) for v in by_key[key]))
    return out


def _keys(claim: Claim, same: Mapping[str, str]) -> list[tuple]:
    """What makes each comparison of a claim the one that it is."""
    first = [tuple(tuple(same.get(name, name) for name in names) for names in pair) for pair in groups(claim)]
    return [(*pair, claim.measure, bound(claim)) for pair in first]


def _seen_early(corpus: str, key: tuple) -> bool:
    """Whether a comparison had a verdict by SEEDS seeds before its methods got more (docs/protocol.md)."""
    return corpus.startswith("scenes") and any(name in SEEN_EARLY for names in key[:2] for name in names)


def _on(corpus: str, claim: Claim) -> bool:
    """Whether the protocol decides this claim on a corpus: on photographs it runs what it compares, and no ablation."""
    if corpus.startswith("scenes"):
        return True
    names = {canonical().get(n, n) for names in (*claim.above, *claim.below) for n in names.split(JOIN)}
    return names <= {*labels()} and claim.measure.relevance != "exhaustive"
