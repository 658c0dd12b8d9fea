"""What a claim compares: the effect of each of its comparisons with its standard error, from rows of results."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from xmr_core.study.claims_data.claim import JOIN, Claim, Measure
from xmr_core.study.image_values import ImageValues
from xmr_core.study.results import latest

PAIRED = "2026-11-25T10:00:00+00:00"  # comparisons that nobody could see before pair the errors of images
SINCE = "2026-11-23T17:45:00+00:00"  # comparisons that nobody could see before have the degrees of the rule below
FEW = 5  # seeds below which the degrees are n − 1
_MOST = 1e6


@dataclass(frozen=True)
class Comparison:
    """One difference of a claim on one corpus, in the direction of the measure (above − below).

    error: standard error of the mean over seeds, with the part of the choice of test images where rows have it.
    degrees: of freedom, of `degrees_of_freedom`. began: UTC time at which the first of its runs started. deciding: its
    rows come from where nothing was chosen.
    """

    above: str
    below: str
    effect: float
    error: float
    seeds: int
    worlds: int
    degrees: float
    began: str = ""
    deciding: bool = False


def equivalent(measure: Measure) -> float:
    """Differences of a measure no larger than this are none: 5 points of an RSUM, 1 point of another percentage; 0 for
    what is no percentage (a correlation, a log variance), which is never equivalent.

    >>> equivalent(Measure("RSUM", "annotated", "both", "rsum", factor=100))
    5.0
    """
    if measure.factor != 100:
        return 0.0
    return 5.0 if measure.metric.startswith("rsum") else 1.0


def values_of(rows: pd.DataFrame, measure: Measure) -> dict[str, dict[str, pd.DataFrame]]:
    """Corpus → variant → frame by seed with the columns value, error (of the choice of images; NaN without one), world,
    began (UTC time at which its run started, of an ensemble the first of its members'), deciding, and runs (its id,
    alone). Corpora are in the order of the rows and called
    'scenes (quick)' or 'scenes (quick, worlds 1 and 2)'.
    """
    own = rows[
        (rows["relevance"] == measure.relevance) & (rows["direction"] == measure.direction)
        & (rows["k"].astype(int) == measure.k) & (rows["origin"] == "ours")
        & rows["metric"].isin([measure.metric, f"{measure.metric}_error"])
    ]  # fmt: skip
    own = latest(own).assign(world=_worlds, began=_began, value=lambda t: measure.factor * t["value"].astype(float))
    own = own.assign(corpus=_corpora(own))
    keys, is_error = ["corpus", "variant", "seed"], own["metric"] != measure.metric
    errors = own.loc[is_error, [*keys, "value"]].rename(columns={"value": "error"})
    table = own[~is_error].merge(errors, on=keys, how="left")
    table["deciding"] = _deciding(table)
    table["runs"] = [(name,) for name in table.get("run_id", table.index.astype(str))]
    columns, out = ["value", "error", "world", "began", "deciding", "runs"], {}
    for (corpus, variant), part in table.groupby(["corpus", "variant"], sort=False):
        out.setdefault(corpus, {})[variant] = part.set_index("seed")[columns].sort_index()
    for by_variant in out.values():
        for ensemble in (name for name in by_variant if JOIN in name):  # it began with its first member's run
            members = [by_variant[name] for name in ensemble.split(JOIN) if name in by_variant]
            times = pd.concat([m["began"] for m in (by_variant[ensemble], *members)], axis=1, join="inner")
            by_variant[ensemble]["began"] = times.min(axis=1)
    return out


def groups(claim: Claim) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(labels above, labels below) of each comparison of a claim, in the order of `comparisons`.

    >>> groups(Claim("c", "ours", "Sets win.", ("DivE", "PVSE"), ("VSE++",)))
    [(('DivE',), ('VSE++',)), (('PVSE',), ('VSE++',))]
    """
    if claim.rule == "means":
        return [(claim.above, claim.below)]
    return [((a,), (b,)) for a in claim.above for b in claim.below] or [((a,), ()) for a in claim.above]


def comparisons(
    claim: Claim, values: Mapping[str, pd.DataFrame], images: ImageValues | None = None, since: str = SINCE
) -> list[Comparison]:
    """The comparisons of a claim on one corpus, paired by seed; none when a variant is missing or no seed is common.

        effect = mean_s d_s,   error² = a + b,   a = var(d) / n,   b = mean_s e_s² / W

    d: difference of seed s; e: its standard error for the choice of test images; n seeds on W worlds. Where all runs of
    a seed have `images`, e is that of the differences of the images; else e² = e_above² + e_below², as if both values
    were independent and the members of a group (rule 'means') one, which makes it larger, not smaller. So it is, too,
    where both sides had a run before PAIRED. Source: docs/protocol.md#protocol-decision.

    >>> one = pd.DataFrame({"value": [3.0, 3.2], "error": [0.3, 0.3], "world": [1, 2]})
    >>> one = one.assign(began="", deciding=True, runs=[("a",), ("b",)])
    >>> two = one.assign(value=[2.0, 2.2])
    >>> [c] = comparisons(Claim("c", "ours", "Sets win.", ("DivE",), ("VSE++",)), {"DivE": one, "VSE++": two})
    >>> round(c.effect, 2), round(c.error, 2), c.worlds
    (1.0, 0.3, 2)
    """
    if any(variant not in values for variant in (*claim.above, *claim.below)):
        return []
    out = []
    for above, below in groups(claim):
        upper, lower = _group(above, values), _group(below, values) if below else None
        paired = upper if lower is None else upper.join(lower.add_suffix(" other"), how="inner")
        paired = paired.dropna(subset=[c for c in paired if c.startswith("value")])
        if not len(paired):
            return []
        difference = paired["value"] - (paired["value other"] if lower is not None else 0.0)
        # when the first run of its later side began: before, nobody could see what it would say
        visible = max(paired[column].min() for column in paired if column.startswith("began"))
        of_images = _image_variances(claim.measure, paired, images if visible >= PAIRED else None).mean()
        n, worlds = len(paired), int(paired["world"].nunique())
        seeds = float(difference.var(ddof=1)) / n if n > 1 else np.nan
        error = float(np.sqrt(seeds + of_images / worlds))
        degrees = degrees_of_freedom(seeds, of_images / worlds, n, visible, since)
        origin = pd.concat([upper, *([] if lower is None else [lower])]).loc[paired.index]
        out.append(
            Comparison(", ".join(above), ", ".join(below), float(difference.mean()), error, n, worlds,
                       degrees, min(origin["began"]), bool(origin["deciding"].all()))
        )  # fmt: skip
    return out


def degrees_of_freedom(seeds: float, images: float, n: int, visible: str = SINCE, since: str = SINCE) -> float:
    """Degrees of freedom of the error √(a + b) of an effect:

        ν = (n − 1) (1 + b / 2a),   at most 10⁶;   n − 1 below five seeds

    a: the part of n seeds, a variance; b: that of the test images, which counts as known, for it is made from hundreds
    of them. Satterthwaite's rule has (1 + b / a)², with which a level of 0.001 is exceeded up to four times at five
    seeds, because a is estimated; with 1 + b / a it is twice, and with half of b 1.2 times at most.
    visible: UTC time from which the comparison could be seen; ν is n − 1 if that was before `since`, when a rule of
    this kind was written down, and also where there is no b. Source: docs/protocol.md#protocol-decision.

    >>> degrees_of_freedom(9.0, 9.0, 5), degrees_of_freedom(9.0, 9.0, 5, "2026-11-23T10:00:00+00:00")
    (6.0, 4)
    """
    if visible < since or not images > 0 or n < FEW:
        return n - 1
    return min((n - 1) * (1 + images / seeds / 2), _MOST) if seeds > 0 else _MOST


def _image_variances(measure: Measure, paired: pd.DataFrame, images: ImageValues | None) -> pd.Series:
    """e_s² of each seed s, of `comparisons`."""
    apart = paired[[c for c in paired if c.startswith("error")]].fillna(0.0).pow(2).sum(axis=1)
    if images is None or "runs other" not in paired:
        return apart
    together = [images.paired_error(measure, *runs) for runs in zip(paired["runs"], paired["runs other"], strict=True)]
    return apart.where([error is None for error in together], [(error or 0.0) ** 2 for error in together])


def _group(names: tuple[str, ...], values: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The mean over variants of their values and, as if they were one, of their errors; only common seeds. began:
    when the first of their runs started."""
    tables = [values[name] for name in names]
    if len(tables) == 1:
        return tables[0]
    value = pd.concat([t["value"] for t in tables], axis=1, join="inner").mean(axis=1)
    error = pd.concat([t["error"] for t in tables], axis=1, join="inner").mean(axis=1)
    began = pd.concat([t["began"] for t in tables], axis=1, join="inner").min(axis=1)
    runs = [tuple(name for t in tables for name in t["runs"][seed]) for seed in value.index]
    deciding = pd.concat([t["deciding"] for t in tables], axis=1, join="inner").all(axis=1)
    world = tables[0]["world"].reindex(value.index)
    return pd.DataFrame(
        {"value": value, "error": error, "world": world, "began": began, "deciding": deciding,
         "runs": runs}
    )  # fmt: skip


def _worlds(table: pd.DataFrame) -> pd.Series:
    worlds = table["world"] if "world" in table else pd.Series("", index=table.index)
    return pd.to_numeric(worlds, errors="coerce").fillna(0).astype(int)


def _began(table: pd.DataFrame) -> pd.Series:
    return table["started_utc"].astype(str) if "started_utc" in table else pd.Series("", index=table.index)


def _deciding(table: pd.DataFrame) -> pd.Series:
    return (table["dataset"] != "scenes") | (table["world"] > 0)


def _corpora(table: pd.DataFrame) -> pd.Series:
    """A name for the corpus of each row; worlds that decide stand together."""
    size = table["size"].fillna("").astype(str)
    deciding = table["world"] > 0
    worlds = " and ".join(map(str, sorted(table.loc[deciding, "world"].unique())))
    inside = size + deciding.map({True: f", worlds {worlds}", False: ""})
    return table["dataset"] + inside.map(lambda text: f" ({text})" if text else "").astype(str)
