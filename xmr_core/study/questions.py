"""Questions as lists of runs, and lists of runs as tables: what the notebooks share."""

import inspect
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput, unknown
from xmr_core.evaluation.results import Evaluated
from xmr_core.evaluation.stats import decided, seed_interval
from xmr_core.methods.registry import RECIPES
from xmr_core.study.presets import SEEDS
from xmr_core.study.results import rsum_interval
from xmr_core.training.runs import RunConfig, TrainedRun
from xmr_core.training.runs.ensemble import ensemble_of

# The similarity and architecture ablation of DivE's Table 3, with the single vector below it: label → (method, options)
VARIANTS: dict[str, tuple[str, dict]] = {
    "single vector": ("vse++", {}),
    "MIL, slots": ("dive", {"similarity": "mil"}),
    "MP, slots": ("dive", {"similarity": "mp"}),
    "Chamfer, slots": ("dive", {"similarity": "chamfer"}),
    "smooth-Chamfer, PIE-Net": ("dive", {"head": "pie-net"}),
    "smooth-Chamfer, transformer": ("dive", {"head": "transformer"}),
    "smooth-Chamfer, slots": ("dive", {}),
}

# What DivE changed in slot attention, taken back one by one (App. B.3): label → (method, options)
SLOTS: dict[str, tuple[str, dict]] = {
    "slots as in the paper": ("dive", {}),
    "sampled slots": ("dive", {"query": "sampled"}),
    "GRU update": ("dive", {"update": "gru"}),
    "without global feature": ("dive", {"use_global": False}),
}

# PCME with all, one, or no number for σ
GAUSSIANS: dict[str, tuple[str, dict]] = {
    "PCME": ("pcme", {}),
    "PCME, one σ": ("pcme", {"spread": "isotropic"}),
    "PCME, μ only": ("pcme", {"spread": "none"}),
}

# Every method of the study under the matched protocol: label → (method, options)
COMPARISON: dict[str, tuple[str, dict]] = {
    "VSE++": ("vse++", {}),
    "VSE∞": ("vse-infty", {}),
    "VSE+2AD": ("vse+2ad", {}),
    "PVSE": ("pvse", {}),
    "PCME": ("pcme", {}),
    "DivE": ("dive", {}),
    "DivE on GRU states": ("dive", {"text_local": "states"}),
    "SCAN t-i": ("scan", {"direction": "t2i"}),
    "SCAN i-t": ("scan", {"direction": "i2t"}),
    "SAF": ("sgraf", {"reasoner": "saf"}),
    "SGR": ("sgraf", {"reasoner": "sgr"}),
    "SGRAF, joint": ("sgraf", {"reasoner": "joint"}),
}


def label_of(method: str) -> str:
    """The label under which a method stands in tables and claims with no option of its own ('pcme' → 'PCME'); else the name itself."""
    return next((label for label, (name, options) in COMPARISON.items() if name == method and not options), method)


def seeds(preset: str, first: int = 0, n: int = 0) -> list[int]:
    """The seeds of a study: `first`, first + 1, …; n = 0 takes the preset's number. Raises BadInput for a negative n."""
    if n < 0:
        raise BadInput(f"n_seeds must be 0 or more (0 = the preset's number), got {n}.")
    return list(range(first, first + (n or SEEDS[preset])))


def sweep(base: RunConfig, name: str, values: Sequence, over_seeds: Sequence[int]) -> list[RunConfig]:
    """One config per value and seed, values outermost. Raises BadInput when there is no value."""
    if not len(values):
        raise BadInput(f"no {name} to sweep over; give at least one.")
    return [base.replace(**{name: value, "seed": seed}) for value in values for seed in over_seeds]


def of_variants(
    base: RunConfig, labels: Sequence[str], over_seeds: Sequence[int], variants: Mapping[str, tuple[str, dict]] = VARIANTS
) -> list[RunConfig]:
    """One config per variant and seed, variants outermost. variants: VARIANTS, COMPARISON, or your own of that form.

    Raises: BadInput for a label that is not among the variants.
    """
    for label in labels:
        if label not in variants:
            raise unknown("variant", label, variants)
    return [
        base.replace(method=variants[label][0], seed=seed, options={**_shared(base, variants[label][0]), **variants[label][1]})
        for label in labels
        for seed in over_seeds
    ]


def _shared(base: RunConfig, method: str) -> dict:
    """Those options of the base config that the other recipe has too (width, objective, …)."""
    return {k: v for k, v in base.options.items() if k in inspect.signature(RECIPES[method]).parameters}


def per_run(runs: Sequence[Evaluated], labels: Sequence) -> pd.DataFrame:
    """One row per run, percent: label, seed, rsum per relevance with its interval over images, R@1s, R-Precision, log variance."""
    rows = []
    for run, label in zip(runs, labels, strict=True):
        row = {"label": label, "seed": run.setting.seed}
        for kind in run.per_query["relevance"].unique():
            mean, low, high = rsum_interval(run.per_query, kind)
            row |= {f"rsum {kind}": mean, f"rsum {kind} low": low, f"rsum {kind} high": high}
            values = run.metrics[run.metrics["relevance"] == kind].set_index(["direction", "metric", "k"])["value"]
            row |= {f"{d} R@{k} {kind}": 100 * values[d, "recall", k] for d in ("i2t", "t2i") for k in (1, 5, 10)}
            row |= {f"{d} R-P {kind}": 100 * values[d, "r_precision", 0] for d in ("i2t", "t2i")}
        spread = run.metrics[run.metrics["metric"] == "log_circular_variance"]["value"]
        row |= {"log variance": spread.mean() if len(spread) else np.nan, "train seconds": run.provenance.train_seconds}
        row |= {"parameters": run.provenance.parameters}
        rows.append(row)
    return pd.DataFrame(rows)


def over_seeds(table: pd.DataFrame, columns: Sequence[str], level: float = 0.95) -> pd.DataFrame:
    """Mean over seeds of each label, in order of appearance, with the 95 % interval as 'c low', 'c high' for each column c.

    With one seed the interval of an RSUM is the one over images that per_run found; other columns then have none (NaN).
    """
    rows = []
    for label, group in table.groupby("label", sort=False):
        row = {"label": label, "seeds": len(group)}
        for column in columns:
            mean, low, high = seed_interval(group[column], level)
            if len(group) == 1 and f"{column} low" in group:
                low, high = group[f"{column} low"].iloc[0], group[f"{column} high"].iloc[0]
            row |= {column: mean, f"{column} low": low, f"{column} high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def ensemble_runs(runs: Sequence[TrainedRun], labels: Sequence[str], formula: str) -> list[tuple[str, Evaluated]]:
    """Ensembles of finished runs: [(label, run), …], the label being the formula.

    formula: labels joined by ' + '. Different labels are combined seed by seed ('SAF + SGR' is SGRAF); one label repeated
    takes that many different seeds at a time ('DivE + DivE'), the last ones left out where they do not come out even.
    Raises: BadInput for fewer than two parts, a label without runs, or too few seeds.
    """
    parts = [part.strip() for part in formula.split(" + ")]
    by_label = {label: [run for run, given in zip(runs, labels, strict=True) if given == label] for label in dict.fromkeys(labels)}
    for part in parts:
        if part not in by_label:
            raise unknown("part of an ensemble", part, by_label)
    if len(parts) < 2:
        raise BadInput(f"an ensemble needs at least two parts joined by ' + ', got {formula!r}.")
    if len(set(parts)) == 1:
        mine, n = by_label[parts[0]], len(parts)
        groups = [mine[at : at + n] for at in range(0, len(mine) - n + 1, n)]
    elif len(set(parts)) == len(parts):
        of_seed = [{run.setting.seed: run for run in by_label[part]} for part in parts]
        groups = [[members[seed] for members in of_seed] for seed in of_seed[0] if all(seed in members for members in of_seed)]
    else:
        raise BadInput(f"the parts of {formula!r} must be all different or all the same.")
    if not groups:
        raise BadInput(f"{formula!r} needs more seeds than there are.")
    return [(formula, ensemble_of(group)) for group in groups]


def verdict(better: pd.DataFrame, worse: pd.DataFrame, column: str) -> tuple[str, float, float, float]:
    """Is `better` above `worse` in a column, seed by seed? → (held | contradicted | undecided, mean difference, low, high).

    Decided when the 95 % interval of the paired difference over seeds leaves 0 out; with fewer than 3 seeds always undecided.
    """
    both = better.merge(worse, on="seed", suffixes=("", " other"))
    mean, low, high = seed_interval(both[column] - both[f"{column} other"])
    return decided(low, high, len(both)), mean, low, high


def verdict_text(result: tuple[str, float, float, float], unit: str = "RSUM") -> str:
    """A verdict in words: '+12.0 RSUM [3.1, 20.9] held', or without an interval when there was one seed only."""
    word, mean, low, high = result
    interval = f"[{low:.1f}, {high:.1f}]" if low == low else "(one seed: no interval)"
    return f"{mean:+.1f} {unit} {interval} {word}"
