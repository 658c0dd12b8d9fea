"""How the protocol decides (docs/protocol.md#protocol-decision): paired differences, a moderated t, one test a claim.

    d_{ws} = value of the claimed side − value of the other side, on world w with seed s
    t = (mean of d − bound) / (s̃ √(Σ_w 1/n_w) / W),   s̃² = (d₀ s₀² + f s²) / (d₀ + f)

s²: variance of d within worlds, with f = Σ_w (n_w − 1) degrees of freedom. s₀², d₀: what the variances of all
comparisons of one kind have in common (`prior`), d₀ at most MOST_PRIOR. t has d₀ + f degrees of freedom, at most those
of all comparisons together. With more lent the family error exceeds its level where variances differ.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import optimize, special  # not stats, which takes half as long to import as torch

from xmr_core.base.errors import BadInput
from xmr_core.data.scenes.corpus import DEFAULT_AMBIGUITY
from xmr_core.evaluation.metrics import KS
from xmr_core.evaluation.stats import holm
from xmr_study import paper_tables
from xmr_study.claims.claim import HUMAN_RSUM, RSUM, TRUE_RSUM, Claim, Measure
from xmr_study.protocol import MASKS, OBJECTIVES, SEEDS, WORLDS, canonical, light, photograph_rate
from xmr_study.protocol import labels as compared_labels
from xmr_study.records import column

LEVEL, MOST_PRIOR = 0.025, 4.0  # of each one-sided test; degrees of freedom that other comparisons may lend
EQUAL_RSUM, EQUAL_POINTS = 3.0, 1.0  # differences of RSUM, and of any other percentage, that count as none
COLUMNS = [
    "claim", "source", "sentence", "runs", "worlds", "effect", "low", "high", "p held", "p contradicted",
    "p equivalent", "verdict", "by world",
]  # fmt: skip


class Comparison(NamedTuple):
    """Paired differences of a comparison, turned so that a positive one is on the claimed side; index world, seed.
    made: how many pairs have rows, also those of which a run failed, which have no difference."""

    name: str
    differences: pd.Series
    made: int = 0


def columns_of(measure: Measure, rows: pd.DataFrame) -> list[str]:
    """The columns whose mean a measure is: those of both directions where rows have these and not its own."""
    own = column(measure.relevance, measure.direction, measure.metric, measure.k)
    metric = measure.metric.removeprefix("mean_")
    each = [column(measure.relevance, direction, metric, measure.k) for direction in ("i2t", "t2i")]
    return each if measure.direction == "both" and own not in rows and {*each} <= {*rows} else [own]


def paired(rows: pd.DataFrame, measure: Measure, above: Sequence[str], below: Sequence[str] = ()) -> pd.Series:
    """mean over `above` − mean over `below` in units of the measure, of each world and seed on which one processor has
    rows of them all (of several processors the first); NaN where a run failed; index world, seed. rows: of
    records.read, of one ambiguity and data set."""
    index, labels = ["processor", "world", "seed"], [*above, *below]
    own = rows.loc[rows["label"].isin(labels), [*index, "label", "failure", *columns_of(measure, rows)]]
    own["number"] = own.iloc[:, 5:].mean(axis=1, skipna=False)
    own["processor"] = pd.Categorical(own["processor"], rows["processor"].unique())  # in the order of the rows
    own = own[own["number"].notna() | own["failure"].notna()]  # else it was never asked
    own = own.drop_duplicates([*index, "label"], keep="last")
    values = measure.factor * own.pivot(index=index, columns="label", values="number").reindex(columns=labels)
    values = values[own.groupby(index, observed=True)["label"].nunique() == len({*labels})]
    means = [values[list(side)].mean(axis=1, skipna=False) if side else 0.0 for side in (above, below)]
    out = (means[0] - means[1]).rename("value").droplevel("processor")
    return out[~out.index.duplicated()].sort_index()


def compare(rows: pd.DataFrame, claim: Claim) -> list[Comparison]:
    """The comparisons of a claim, in units of its measure, less its bound. A claim that lacks a variant or its number
    has none. Labels of one run are one (protocol.canonical). rows: of records.read; those of scenes at the usual
    ambiguity count."""
    m, usual = claim.measure, (rows["ambiguity"] == DEFAULT_AMBIGUITY) & (rows["dataset"] == "scenes")
    sides = [[canonical().get(label, label) for label in side] for side in (claim.above, claim.below)]
    numbers = columns_of(m, rows)
    if not {*numbers} <= {*rows}:
        return []
    rows = rows.loc[usual, ["processor", "world", "seed", "label", "failure", *numbers]]
    if not {*sides[0], *sides[1]} <= {*rows.dropna(subset=numbers)["label"]}:
        return []
    pairs = [((a,), (b,) if b else ()) for a in sides[0] for b in sides[1] or ("",)]
    out = []
    for above, below in [sides] if claim.rule == "means" else pairs:
        differences = (-1 if claim.smaller else 1) * paired(rows, m, above, below) - claim.bound
        names = " and ".join(above) + (" against " + " and ".join(below) if below else "")
        out.append(Comparison(names, differences.dropna(), len(differences)))
    return out


def effects(rows: pd.DataFrame, pairs: Sequence[tuple[str, str]], measures: Sequence[Measure]) -> pd.DataFrame:
    """Every difference between the labels of pairs, at every ambiguity that has at least two seeds of both: columns
    ambiguity, above, below, measure, runs, effect, low, high (95 %, moderated within a measure, uncorrected), by world.

    They describe, and decide nothing. rows: of records.read; those of WORLDS count.
    """
    lines, rows = [], rows[rows["world"].isin(WORLDS)]
    for m in measures:
        own = [
            (ambiguity, above, below, Comparison("", paired(part, m, (above,), (below,)).dropna()))
            for ambiguity, part in rows.groupby("ambiguity")
            for above, below in pairs
        ]
        own = [line for line in own if len(line[-1].differences) and spread(line[-1].differences)[1]]
        for (*names, c), estimate in zip(own, moderated([c for *_, c in own]), strict=True):
            low, high = estimate.interval()
            lines.append((*names, m.name, len(c.differences), estimate.mean, low, high, _by_world(c.differences)))
    columns = ["ambiguity", "above", "below", "measure", "runs", "effect", "low", "high", "by world"]
    return pd.DataFrame(lines, columns=columns)


def false_negatives(rows: pd.DataFrame) -> pd.DataFrame:
    """`effects` of what the protocol's oracles know on training with annotated pairs: true pairs that nobody annotated
    left out of the negatives, or taken as positives, at every ambiguity, by annotated and by all true answers. rows: of
    records.results."""
    masked = [
        (f"{label}, {loss}, {mask}", f"{label}, {loss}, annotated")
        for label, loss, mask in product(("VSE∞", "DivE"), OBJECTIVES, MASKS) if mask != "annotated"
    ]  # fmt: skip
    maps = [Measure(f"mAP@R, {d}", "exhaustive", d, "map_at_r", factor=100) for d in ("i2t", "t2i")]
    return effects(rows[rows["part"] == "ambiguity"], masked, [RSUM, TRUE_RSUM, *maps])


def paying(rows: pd.DataFrame) -> pd.DataFrame:
    """`effects` of a set against one vector, and of the hinge with hardest negatives against InfoNCE, on the same
    images captioned ever more vaguely, by annotated and by all true answers. rows: of records.results."""
    pairs = [(f"{label}, hinge, annotated", f"{label}, InfoNCE, annotated") for label in ("VSE∞", "DivE")]
    pairs.insert(0, ("DivE, InfoNCE, annotated", "VSE∞, InfoNCE, annotated"))
    return effects(rows[rows["part"] == "ambiguity"], pairs, [RSUM, TRUE_RSUM])


def by_measure(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Measure → lines of `effects` as plots.levels draws them: label says which difference, mean is the effect.

    >>> line = {"above": "DivE, hinge, true", "below": "DivE, hinge, annotated", "ambiguity": 0.1, "effect": 2.0}
    >>> by_measure(pd.DataFrame([line | {"measure": "RSUM"}]))["RSUM"]["label"].tolist()
    ['DivE, hinge, true, at 0.1']
    """
    sides = zip(*(table[side].str.removesuffix(", annotated") for side in ("above", "below")), strict=True)
    between = [above if above.startswith(below) else f"{above} − {below}" for above, below in sides]
    named = [f"{name}, at {ambiguity}" for name, ambiguity in zip(between, table["ambiguity"], strict=True)]
    return dict(list(table.assign(label=named, mean=table["effect"]).groupby("measure", sort=False)))


def levels(rows: pd.DataFrame, names: Sequence[str], measure: Measure = RSUM) -> pd.DataFrame:
    """What each label reaches on the worlds that decide, in units of the measure: columns label, runs, mean, low, high
    (95 %, the spread moderated over the labels), by world, collapsed (share of its runs, %), and the mean without
    these. Labels with fewer than two seeds on every world are left out. Of a world and seed that several processors
    trained, the runs of that one count which has most of the labels, so that they compare, and another's where it has
    none.

    rows: of records.results, of one ambiguity and data set; those of WORLDS count, and of photographs all.
    """
    rows = rows[(rows["world"].isin(WORLDS) | (rows["dataset"] != "scenes")) & rows["label"].isin(names)]
    beside = rows.groupby(["processor", "world", "seed"])["label"].transform("nunique")
    order = np.lexsort([pd.factorize(rows["processor"])[0], -beside.to_numpy()])  # of equal ones the first processor
    rows = rows.iloc[order].drop_duplicates(["label", "world", "seed"])
    values = {name: paired(rows, measure, (name,)).dropna() for name in names if name in set(rows["label"])}
    own = {name: Comparison(name, v) for name, v in values.items() if len(v) and spread(v)[1]}
    lines = []
    for (name, c), estimate in zip(own.items(), moderated([*own.values()]), strict=True):
        fell = rows[(rows["label"] == name) & rows["collapsed"]].set_index(["world", "seed"]).index
        stood = c.differences[~c.differences.index.isin(fell)]
        share, without = 100 * (1 - len(stood) / len(c.differences)), stood.groupby("world").mean().mean()
        means = (estimate.mean, *estimate.interval())
        lines.append((name, len(c.differences), *means, _by_world(c.differences, ""), share, without))
    columns = ["label", "runs", "mean", "low", "high", "by world", "collapsed", "mean without"]
    return pd.DataFrame(lines, columns=columns).sort_values("mean", ascending=False, ignore_index=True)


def methods(rows: pd.DataFrame, scoring: pd.DataFrame, dataset: str = "scenes") -> pd.DataFrame:
    """What every compared method reaches on a data set (scenes at the usual ambiguity, photographs at the rate that is
    chosen there) and what it costs, the best first: columns label, runs, rsum (percent, of 600) with low and high (of
    `levels`; none for a label with one seed), by world, rsum exhaustive or human, collapsed (%), epochs, lr, train
    seconds (median, on the processor that trained most of the methods), parameters, scoring ms (1,000 images against
    5,000 captions). No line without rows.

    rows: of records.results. scoring: of records.scoring.
    """
    rows = rows[(rows["dataset"] == dataset) & rows["label"].isin(compared_labels())]
    if dataset == "scenes":
        rows = rows[(rows["ambiguity"] == DEFAULT_AMBIGUITY) & rows["world"].isin(WORLDS)]
    else:
        rates = {label: photograph_rate(rows, label) for label in rows["label"].unique()}
        rows = rows[rows["lr"] == rows["label"].map(rates)]
    if rows.empty:
        return pd.DataFrame(columns=["label", "runs", "rsum"])
    wider = TRUE_RSUM if dataset == "scenes" else HUMAN_RSUM
    annotated, others = (levels(rows, compared_labels(), m).set_index("label") for m in (RSUM, wider))
    single = rows[~rows["label"].isin(annotated.index)].drop_duplicates(["label", "world", "seed"]).groupby("label")
    means = {m: m.factor * single[column(m.relevance, m.direction, m.metric)].mean() for m in (RSUM, wider)}
    timed = rows.groupby(["processor", "label"])["train_seconds"].median().unstack(0)
    out = pd.concat([annotated, pd.DataFrame({"runs": single.size(), "mean": means[RSUM]})])
    out = out.rename(columns={"mean": "rsum", "low": "rsum low", "high": "rsum high"})
    out[f"rsum {wider.relevance}"] = pd.concat([others["mean"], means[wider]])
    out[["epochs", "parameters"]] = rows.groupby("label")[["epochs", "parameters"]].max().astype(int)
    out["lr"] = rows.groupby("label")["lr"].max()
    out["train seconds"] = timed[timed.notna().sum().idxmax()]
    out["scoring ms"] = scoring.set_index("label")["ms"]
    return out.sort_values("rsum", ascending=False).rename_axis("label").reset_index()


def agreement(rows: pd.DataFrame, names: Sequence[str], benchmark: str, truth: str) -> pd.Series:
    """Kendall's τ between two columns of rows over the labels `names`, for each world and seed on which one processor
    trained them all: how far one orders methods as the other does. rows: of records.read, of one ambiguity."""
    own, batch = rows[rows["label"].isin(names) & rows["world"].isin(WORLDS)], ["processor", "world", "seed"]
    batches = own.drop_duplicates([*batch, "label"], keep="last").groupby(batch)
    taus = {key[1:]: of[benchmark].corr(of[truth], method="kendall") for key, of in batches if len(of) == len(names)}
    return pd.Series(taus, dtype=float).rename_axis(["world", "seed"])


def noise(contributions: Mapping[str, Float[np.ndarray, "s n"]], runs: int = 1) -> float:
    """Below which size a difference of two methods is noise (95 %), in the units of their values: each trained `runs`
    times and tested on the same n images.

        1.96 √(2 σ² / runs + e²)

    σ²: variance of a method's value over s seeds, the mean over methods. e²: variance over images of what they add to
    the difference of two methods, divided by n, the mean over all pairs. contributions: label → what each image adds
    to the value of each seed, which is their mean.

    >>> always = np.tile([1.0, 3.0], (2, 1))
    >>> round(noise({"A": always, "B": always + [[0.0], [2.0]]}), 3)
    2.772
    """
    seeds = np.mean([own.mean(1).var(ddof=1) for own in contributions.values()])
    pairs = combinations([own.mean(0) for own in contributions.values()], 2)
    images = np.mean([(a - b).var(ddof=1) / len(a) for a, b in pairs])
    return float(1.96 * np.sqrt(2 * seeds / runs + images))


RISES = {  # column of measures.answers_known → what it is
    "entropy rises": "entropy of the softmax, more images fit then",
    "entropy rises anyway": "entropy of the softmax, no more fit",
    "spread rises": "width of the set or distribution, more images fit then",
    "spread rises anyway": "width of the set or distribution, no more fit",
}


def rises(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """In how many captions (percent) an uncertainty rises when an attribute is left out: `levels` of the light methods
    at the usual ambiguity, by what it is (the names of RISES). Runs that were not asked are left out. rows: of
    records.results."""
    kept = rows[rows["ambiguity"] == DEFAULT_AMBIGUITY].dropna(subset="captions entropy rises")
    measures = {shown: Measure(shown, "", "captions", name, factor=100) for name, shown in RISES.items()}
    return {shown: levels(kept, light(), measure) for shown, measure in measures.items()}


def _by_world(differences: pd.Series, sign: str = "+") -> str:
    return " ".join(f"{world}: {value:{sign}.1f}" for world, value in differences.groupby("world").mean().items())


def spread(differences: pd.Series) -> tuple[float, int]:
    """(variance within worlds, its degrees of freedom)."""
    worlds = differences.groupby("world")
    freedom = len(differences) - worlds.ngroups
    return float(((differences - worlds.transform("mean")) ** 2).sum() / max(freedom, 1)), freedom


def prior(variances: Sequence[float], freedom: Sequence[int]) -> tuple[float, float]:
    """(s₀², d₀) of the scaled inverse χ² from which the variances of one kind come, by the moments of log F; d₀ may be
    infinite. One variance lends nothing: d₀ = 0.

    Source: Smyth, Statistical Applications in Genetics and Molecular Biology, 2004, §6.2 (limma).

    >>> s, d = prior([1.0, 2.0, 4.0, 60.0], [4, 4, 4, 4])
    >>> round(s, 2), round(d, 2)
    (2.75, 1.49)
    """
    s, f = np.asarray(variances, float), np.asarray(freedom, float)
    s, f = s[(f > 0) & (s > 0)], f[(f > 0) & (s > 0)]
    if len(s) < 2:
        return 0.0, 0.0
    e = np.log(s) - special.digamma(f / 2) + np.log(f / 2)
    more = e.var(ddof=1) - special.polygamma(1, f / 2).mean()
    if more <= 0:
        return float(np.exp(e.mean())), np.inf
    half = optimize.brentq(lambda x: special.polygamma(1, x) - more, 1e-8, 1e8)
    return float(np.exp(e.mean() + special.digamma(half) - np.log(half))), float(2 * half)


class Estimate(NamedTuple):
    """mean and standard error of a comparison, and the degrees of freedom of its t."""

    mean: float
    error: float
    freedom: float

    def above(self, bound: float) -> float:
        """p of the one-sided test that the mean exceeds the bound."""
        return float(special.stdtr(self.freedom, (bound - self.mean) / self.error))

    def below(self, bound: float) -> float:
        """p of the one-sided test that the mean lies below the bound."""
        return float(special.stdtr(self.freedom, (self.mean - bound) / self.error))

    def interval(self, level: float = 1 - 2 * LEVEL) -> tuple[float, float]:
        """The ends of the interval of the mean, uncorrected."""
        half = special.stdtrit(self.freedom, (1 + level) / 2) * self.error
        return self.mean - half, self.mean + half


def moderated(comparisons: Sequence[Comparison]) -> list[Estimate]:
    """A test for each comparison of one kind. Raises: BadInput for one with a single run in every world."""
    own = [spread(c.differences) for c in comparisons]
    if any(f < 1 for _, f in own):
        raise BadInput("a comparison needs two seeds on some world, for there is no spread within worlds without.")
    distinct = {(float(f"{variance:.9g}"), freedom) for variance, freedom in own}  # a repeated comparison lends once
    common, lent = prior(*zip(*distinct, strict=True)) if own else (0.0, 0.0)
    lent, most, out = min(lent, MOST_PRIOR), sum(freedom for _, freedom in distinct), []
    for c, (variance, freedom) in zip(comparisons, own, strict=True):
        worlds = c.differences.groupby("world")
        s = (lent * common + freedom * variance) / (lent + freedom)
        error = max(np.sqrt(s * (1 / worlds.size()).sum()) / worlds.ngroups, 1e-12)  # differences may be constant
        out.append(Estimate(float(worlds.mean().mean()), float(error), min(lent + freedom, most)))
    return out


def claim_p(tests: Sequence[Estimate], margin: float = 0.0, bound: float = 0.0) -> tuple[float, float, float]:
    """p of 'held' (all comparisons on the claimed side: intersection–union), of 'contradicted' (one on the other:
    Holm within the claim) and of 'equivalent' (all within ±margin without the bound: two one-sided tests each; 1 for no
    margin)."""
    held = max(t.above(0) for t in tests)
    contradicted = min(1.0, len(tests) * min(t.below(0) for t in tests))
    equal = max(max(t.above(-margin - bound), t.below(margin - bound)) for t in tests) if margin else 1.0
    return held, contradicted, equal


def needed(claim: Claim) -> int:
    """How many paired runs a claim needs for a verdict: all that the protocol plans for its labels."""
    labels = {canonical().get(label, label) for label in (*claim.above, *claim.below)}
    worlds = len(WORLDS) if labels <= {*light()} else 2
    return worlds * SEEDS


def verdicts(rows: pd.DataFrame, claims: Iterable[Claim]) -> pd.DataFrame:
    """What rows say of claims, a line each; COLUMNS. Claims of one measure are one kind, those of one paper (`family`,
    else the first word of the source) are corrected together (Holm), each of the three words apart.

    effect, low, high: of the comparison that decides, above − below, with its uncorrected interval. by world: its
    means. verdict: held, contradicted, equivalent or undecided; 'no verdict yet' before all planned runs; 'not
    measured' without rows. rows: of records.read; those of WORLDS decide.
    """
    claims, rows = list(claims), rows[rows["world"].isin(WORLDS)]
    compared = {c.id: compare(rows, c) for c in claims}
    runs = {name: min((own.made for own in of), default=0) for name, of in compared.items()}
    kinds: dict[tuple, list[tuple[Claim, Comparison]]] = {}  # by what is measured, whatever it is called
    for c in claims:
        enough = all(spread(own.differences)[1] > 0 for own in compared[c.id])
        for comparison in compared[c.id] if runs[c.id] >= needed(c) and enough else ():
            kinds.setdefault((*columns_of(c.measure, rows), c.measure.factor), []).append((c, comparison))
    estimates: dict[str, list[Estimate]] = {c.id: [] for c in claims}
    for own in kinds.values():
        for (c, _), test in zip(own, moderated([comparison for _, comparison in own]), strict=True):
            estimates[c.id].append(test)
    lines = []
    for c in claims:
        word = "no verdict yet" if runs[c.id] else "not measured"
        line = {"claim": c.id, "source": c.source, "sentence": c.sentence, "runs": runs[c.id], "verdict": word}
        if own := estimates[c.id]:
            margin = EQUAL_RSUM if c.measure.metric == RSUM.metric else EQUAL_POINTS
            # without points (a rank correlation, nats), or another side, nothing counts as no difference
            p = claim_p(own, margin if c.measure.factor == 100 and c.below else 0.0, c.bound)
            line |= dict(zip(("p held", "p contradicted", "p equivalent"), p, strict=True)) | {"verdict": "undecided"}
            n = min(range(len(own)), key=lambda i: own[i].mean / own[i].error)
            differences = compared[c.id][n].differences
            sign = -1 if c.smaller else 1  # shown as they are, and not as they were turned
            shown = sign * (differences + c.bound)
            ends = sorted(sign * (x + c.bound) for x in (own[n].mean, *own[n].interval()))
            line |= {"worlds": shown.index.get_level_values("world").nunique(), "by world": _by_world(shown)}
            line |= dict(zip(("low", "effect", "high"), ends, strict=True))
        lines.append(line)
    table = pd.DataFrame(lines, columns=COLUMNS)
    families = [c.family or c.source.split(",")[0] for c in claims]
    for _, own in table[table["verdict"] != "not measured"].groupby(pd.Series(families, table.index)):
        for word in ("equivalent", "contradicted", "held"):  # the later word stands
            sure = holm(own[f"p {word}"].astype(float).fillna(1.0)) <= LEVEL  # what has no verdict yet counts too
            table.loc[own.index[sure], "verdict"] = word
    return table


# What the design can see, before the first run, and what the papers print.

SEEN = {12: 10.0, 6: 20.0}  # runs of a claim → the difference of RSUM that most studies would decide (docs/protocol.md)


@cache
def _printed() -> list[tuple[dict[str, float], tuple[int, ...]]]:
    """The totals of every printed table: label → RSUM, or the sum of the recalls that are printed; and their K."""
    of_variants = (
        "dive_similarity", "dive_slots", "vse_2ad_removals", "vse_2ad_aggregators", "vse_2ad_balance",
        "scan_aggregation", "scan_configuration", "scan_sum_max", "sgraf_graph", "sgraf_nodes", "sgraf_training",
    )  # fmt: skip
    swept = {"α": ("dive_alpha", "alpha"), "K": ("dive_cardinality", "slots"), "T": ("dive_iterations", "iterations")}
    tables = [getattr(paper_tables, name)().set_index("variant") for name in of_variants]
    out = [(t["rsum"].to_dict(), KS) if "rsum" in t else (t["sum"].to_dict(), (1, 10)) for t in tables]
    for symbol, (name, setting) in swept.items():
        values = getattr(paper_tables, name)().set_index(setting)["rsum"]
        out.append(({f"{symbol}={value:g}": rsum for value, rsum in values.items()}, KS))
    features = paper_tables.retrieval("f30k").groupby("features")
    return out + [(own.set_index("method")["rsum"].to_dict(), KS) for _, own in features]


def printed_effect(claim: Claim) -> tuple[float, tuple[int, ...]] | None:
    """(the smallest difference that the claim's paper prints between its sides, points of the recalls that it prints;
    the K of these); None where one table does not have them all, or the measure is not RSUM.

    >>> from xmr_study.claims import CLAIMS
    >>> effect, ks = next(printed_effect(claim) for claim in CLAIMS if claim.id == "sgraf-graph")
    >>> round(effect, 1), ks
    (30.4, (1, 10))
    """
    labels = {*claim.above, *claim.below}
    tables = (own for own in _printed() if labels <= {name for name, value in own[0].items() if value == value})
    table, ks = next(tables, (None, ()))
    if table is None or claim.measure != RSUM or not claim.below:
        return None
    above, below = ([table[label] for label in side] for side in (claim.above, claim.below))
    if claim.rule == "means":
        return sum(above) / len(above) - sum(below) / len(below), ks
    return min(a - b for a in above for b in below), ks


def can_be_seen(claim: Claim) -> bool | None:
    """Whether the protocol would see the effect that the paper prints, by as much of SEEN as it prints of the six
    recalls; None where none is printed."""
    printed = printed_effect(claim)
    return None if printed is None else printed[0] >= SEEN[needed(claim)] * len(printed[1]) / len(KS)
