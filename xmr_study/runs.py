"""The runs that answer a question of a notebook, their tables, and what a notebook cannot answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.paths import say
from xmr_core.base.types import Corpus, Features
from xmr_core.data.corpora import corpus_of
from xmr_core.data.prepare import Prepared, prepare
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.evaluation.evaluate import Evaluated, EvaluatedSplit, rsum_interval
from xmr_core.evaluation.metrics import KS, random_hit
from xmr_core.evaluation.stats import decided, seed_interval
from xmr_core.methods.common import Inputs
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build
from xmr_core.models.load import SHIPPED, load
from xmr_core.models.model import Model
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.ensemble import ensemble_of
from xmr_core.training.runs.folder import TrainedRun
from xmr_core.training.runs.sweep import train_or_load_all
from xmr_study import protocol, tidy
from xmr_study.claims import Variant
from xmr_study.examples import canvases
from xmr_study.parameters import TRAINED
from xmr_study.records import folder_name
from xmr_study.variants import comparison, config_from, label_of, seeds, variant_configs


def recalls_beside_chance(run: TrainedRun, kind: str = "annotated") -> pd.DataFrame:
    """R@K of a run and of a random ranking of the same test split, in percent: columns direction, K, recall, random.

        random = 100 · mean over queries of P_K(N, R)

    with P_K of metrics.random_hit, N items in the gallery and R right ones among them. The six numbers of a column sum
    to an RSUM. kind: of relevance.
    """
    relevance = run.prepared().splits["test"].relevance
    galleries = {"i2t": len(relevance.query_ids), "t2i": len(relevance.gallery_ids)}
    queries, lines = run.per_query[run.per_query["relevance"] == kind], []
    for direction in ("i2t", "t2i"):
        own = queries[queries["direction"] == direction]
        right = own["n_relevant"].value_counts()
        for k in KS:
            luck = sum(n * random_hit(galleries[direction], int(r), k) for r, n in right.items()) / len(own)
            lines.append((direction, k, 100 * own[f"R@{k}"].mean(), 100 * luck))
    return pd.DataFrame(lines, columns=["direction", "K", "recall", "random"])


# What a notebook cannot answer, said in one line before anything is trained.


def require_drawable(p: Mapping[str, object]) -> None:
    """Refuse a corpus on whose images attention cannot be drawn.

    p: the notebook's checked parameters. Raises: BadInput as examples.canvases; what reading the corpus raises.

    >>> require_drawable({"dataset": "scenes"})
    """
    canvases(corpus_of(config_from(p).data), [0])


def require_uncertainty(p: Mapping[str, object]) -> None:
    """Refuse a method that says nothing about how certain it is: one vector for each item, or means alone.

    p: the notebook's checked parameters, with `method`. An untrained model of few numbers is asked.
    Raises: BadInput as analysis.uncertainty; for an unknown method.

    >>> require_uncertainty({"method": "vse++", "dataset": "scenes"})
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: one vector per item and so no uncertainty...
    """
    config = config_from(p, str(p["method"]))
    method = build(config.method, Inputs(image_width=8, cells=4, vocabulary=20), config.form, **config.options).eval()
    with torch.inference_mode():
        uncertainty(method.encode_images(Features(torch.randn(1, 4, 8), torch.ones(1, 4, dtype=torch.bool))))


def require_some(name: str, values: Sequence) -> Sequence:
    """The values of a list parameter. Raises: BadInput for an empty one.

    >>> require_some("methods", [])
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: parameter methods is an empty list; it needs at least one entry.
    """
    if not values:
        raise BadInput(f"parameter {name} is an empty list; it needs at least one entry.")
    return values


# Tables of runs: one row per run, means over seeds, ensembles and verdicts. The notebooks share them.


def run_table(runs: Sequence[Evaluated], labels: Sequence) -> pd.DataFrame:
    """One row per run, in percent: label, seed, RSUM per relevance set with its interval over images, recalls,
    R-Precision, log circular variance, training seconds, parameters."""
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


def seed_means(table: pd.DataFrame, columns: Sequence[str], level: float = 0.95) -> pd.DataFrame:
    """Mean over seeds of each label, in order of appearance, with its 95 % interval as 'c low' and 'c high' for each
    column c.

    With one seed the interval of an RSUM is the one over images of run_table; other columns then have none (NaN).

    >>> table = pd.DataFrame({"label": ["DivE", "DivE"], "seed": [0, 1], "rsum": [300.0, 310.0]})
    >>> seed_means(table, ["rsum"])["rsum"].tolist()
    [305.0]
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

    formula: labels joined by ' + '. Different labels are combined seed by seed ('SAF + SGR' is SGRAF); one label
    repeated takes that many different seeds at a time ('DivE + DivE'), the last ones left out where they do not come
    out even.
    Raises: BadInput for fewer than two parts, a label without runs, or too few seeds.
    """
    parts = [part.strip() for part in formula.split(" + ")]
    for part in parts:
        require_choice("part of an ensemble", part, dict.fromkeys(labels))
    by_label = {part: Runs(tuple(runs), tuple(labels)).runs_of(part) for part in parts}
    if len(parts) < 2 or len(set(parts)) not in (1, len(parts)):
        raise BadInput(f"an ensemble joins two labels or more by ' + ', all different or all one; got {formula!r}.")
    if len(set(parts)) == 1:
        members, n = by_label[parts[0]], len(parts)
        groups = [members[start : start + n] for start in range(0, len(members) - n + 1, n)]
    else:
        of_seed = [{run.setting.seed: run for run in by_label[part]} for part in parts]
        shared = [seed for seed in of_seed[0] if all(seed in members for members in of_seed)]
        groups = [[members[seed] for members in of_seed] for seed in shared]
    if not groups:
        raise BadInput(f"{formula!r} needs more seeds than there are.")
    return [(formula, ensemble_of(group)) for group in groups]


def verdict(better: pd.DataFrame, worse: pd.DataFrame, column: str) -> tuple[str, float, float, float]:
    """Whether `better` is above `worse` in a column, seed by seed: (word, mean difference, low, high).

    The word is held or contradicted when the 95 % interval of the paired difference over seeds leaves out 0, else
    undecided; with fewer than 3 seeds it is always undecided.

    >>> sets = pd.DataFrame({"seed": [0, 1, 2], "rsum": [300.0, 310.0, 305.0]})
    >>> one = pd.DataFrame({"seed": [0, 1, 2], "rsum": [280.0, 291.0, 284.0]})
    >>> verdict(sets, one, "rsum")[0]
    'held'
    """
    pairs = better.merge(worse, on="seed", suffixes=("", " other"))
    mean, low, high = seed_interval(pairs[column] - pairs[f"{column} other"])
    return decided(low, high, len(pairs)), mean, low, high


# The runs that answer a question of a notebook, under their labels.


# with other values of these, or other changes, a notebook trains
_UNTOUCHED = {
    "dataset": "scenes", "ambiguity": 0.05, "word_drop": 0.0, "seed": 0, "epochs": 0, "features": "auto",
    "image_model": "", "text_model": "",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class TrainedModel(EvaluatedSplit):
    """A trained model that comes along, evaluated on the corpus that it was trained on: a run without its history."""

    config: RunConfig
    model: Model
    split = "test"

    def method(self) -> Method:
        """As TrainedRun.method."""
        return self.model.method

    def prepared(self) -> Prepared:
        """As TrainedRun.prepared."""
        return prepare(self.config.data)

    @property
    def corpus(self) -> Corpus:
        """The corpus that it was trained on."""
        return self.prepared().corpus


def trained_model(label: str) -> TrainedModel:
    """The model of a compared method that comes with the package (xmr.load of "shipped:…"). Raises: BadInput for one
    that does not, with the names of those that do."""
    there = [name for name in protocol.labels() if (SHIPPED / folder_name(name)).is_dir()]
    require_choice("model that comes along (preset quick trains any)", label, dict.fromkeys(there))
    model = load(f"shipped:{folder_name(label)}", device="cpu")
    config = protocol.in_common_form(label, epochs=int(model.about["epochs"]), world_seed=protocol.WORLDS[0])
    found = model.evaluate(config.data)
    made = replace(found.provenance, train_seconds=float("nan"))  # its card does not say
    return TrainedModel(model.about["run"], config.setting, found.metrics, found.per_query, made, config, model)


@dataclass(frozen=True)
class Runs:
    """Finished runs and the label of each, seeds of one label together.

    Iterating gives the runs; `runs_of("DivE")` those of a label, `first("DivE")` its first seed.
    """

    runs: tuple[TrainedRun | TrainedModel, ...]
    labels: tuple[str, ...]

    def __iter__(self):
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def runs_of(self, label: str) -> list[TrainedRun]:
        """The runs of a label, by seed. Raises: BadInput for a label that was not run."""
        require_choice("label", label, dict.fromkeys(self.labels))
        return [run for run, name in zip(self.runs, self.labels, strict=True) if name == label]

    def first(self, label: str = "") -> TrainedRun:
        """The run of the first seed of a label; of the first label when none is given."""
        return self.runs_of(label or self.labels[0])[0]

    def table(self) -> pd.DataFrame:
        """One row per run, in percent; see study.run_table."""
        return run_table(self.runs, self.labels)

    def means(self, columns: Sequence[str] = ()) -> pd.DataFrame:
        """One row per label: the mean over its seeds of each column with its interval; see study.seed_means. Without
        columns: every RSUM, log circular variance where there are sets, training seconds."""
        table = self.table()
        chosen = columns or [*_rsums(table), *(["log variance"] if table["log variance"].notna().any() else [])]
        return seed_means(table, [*chosen, *([] if columns else ["train seconds"])])

    def rows(self, more: Mapping[str, Sequence[pd.DataFrame]] | None = None) -> pd.DataFrame:
        """Rows of results of all runs. more: label → further metrics rows for each of its runs."""
        extra = {label: iter(tables) for label, tables in (more or {}).items()}
        measured = [
            run.with_metrics(next(extra[label])) if label in extra else run
            for run, label in zip(self.runs, self.labels, strict=True)
        ]
        return tidy.rows(measured, self.labels)

    def chance(self) -> float:
        """The RSUM on annotated pairs that a random ranking has on this test split, in percent of 600."""
        return self.chance_interval()[0]

    def chance_interval(self) -> tuple[float, float, float]:
        """(mean, low, high) of that RSUM: 95 % of random rankings lie in between (`random_rsum`)."""
        return self.runs[0].chance()

    def chance_text(self) -> str:
        """What a random ranking would score here, as a sentence for a notebook to print."""
        mean, low, high = self.chance_interval()
        return (
            f"A random ranking of this test split has an RSUM of {mean:.1f} (95 % of them between {low:.1f} and "
            f"{high:.1f})."
        )

    def seeds_text(self) -> str:
        """How many seeds these runs have, and how wide that leaves the annotated RSUM, as a sentence."""
        means = self.means(["rsum annotated"])
        half = (means["rsum annotated high"] - means["rsum annotated low"]).mean() / 2
        n = int(means["seeds"].min())
        over = f"{n} seeds" if n > 1 else "the test images alone, of one seed"
        return f"The 95 % intervals are over {over}: ± {half:.0f} points of RSUM on average."

    def unlearned(self) -> list[str]:
        """Labels of which some run's interval of RSUM on annotated pairs reaches down into that of a random ranking."""
        table, (*_, high) = self.table(), self.chance_interval()
        return list(dict.fromkeys(table.loc[table["rsum annotated low"] <= high, "label"]))


def run(
    p: Mapping[str, object],
    variants: Sequence[str] | Mapping[str, Variant] = (),
    method: str = "",
    among: Mapping[str, Variant] | None = None,
    **changes,
) -> Runs:
    """Train or load what a notebook asks: its variants, each with the notebook's seeds.

    p: the notebook's checked parameters. variants: labels (of `among`; of study.comparison() when None), or label →
    (method, options); the method's own label when empty. method: whose presets and options the variants share; the
    notebook's parameter `method`, else 'dive'. changes: fields and options for all.
    Prints one line where nothing was learned, because then no table below means anything.
    The preset 'trained' opens models that come along (`trained_model`) where nothing of a training is asked for.
    Raises: BadInput, before anything is trained.

    >>> run({"preset": "quick", "epochs": 1, "seed": 0, "n_seeds": 1, "size": "tiny"}, ["nothing"])
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: unknown variant 'nothing'...
    """
    if isinstance(variants, Mapping):
        among, variants = variants, list(variants)
    base = config_from(p, method or str(p.get("method", "dive")), **changes)
    labels = [label_of(base.method)] if variants == () else list(variants)  # an empty list of a notebook is refused
    if len(set(labels)) < len(labels):
        raise BadInput(f"every variant may be named once, got {', '.join(labels)}.")
    usual = all(p.get(name, value) == value for name, value in _UNTOUCHED.items()) and p.get("n_seeds", 0) < 2
    if p.get("preset") == TRAINED and usual and not changes:
        return Runs(tuple(map(trained_model, labels)), tuple(labels))
    chosen = seeds(str(p.get("preset", "quick")), int(p.get("seed", 0)), int(p.get("n_seeds", 0)))
    configs = variant_configs(base, labels, chosen, comparison() if among is None else among)
    runs = Runs(tuple(train_or_load_all(configs)), tuple(label for label in labels for _ in chosen))
    if poor := runs.unlearned():
        say(
            f"warning: {', '.join(poor)} did not clearly learn, by the interval of the RSUM. {runs.chance_text()} "
            "Give more epochs or more data before you read the tables."
        )
    return runs


def within_test(p: Mapping[str, object], **numbers: int) -> None:
    """Refuse numbers of a notebook that the test split cannot serve, before anything is trained.

    p: the notebook's checked parameters. numbers: parameter → value; each must be from 1 to the number of test images.
    Raises: BadInput, with the parameter's name and its bounds; what reading the corpus raises.

    >>> within_test({"dataset": "scenes"}, bins=0)
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: parameter bins must be from 1 to 500, the number of test images, got 0.
    """
    most = len(corpus_of(config_from(p).data).rows("test")[0])
    for name, value in numbers.items():
        if not 1 <= value <= most:
            raise BadInput(f"parameter {name} must be from 1 to {most}, the number of test images, got {value}.")


def _rsums(table: pd.DataFrame) -> list[str]:
    return [c for c in table if c.startswith("rsum ") and not c.endswith((" low", " high"))]
