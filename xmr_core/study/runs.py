"""The runs that answer a question of a notebook, under their labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from xmr_core.base.errors import BadInput, unknown
from xmr_core.data.corpora import corpus_of
from xmr_core.study import results
from xmr_core.study.claims_data import Variant
from xmr_core.study.presets import config_from, seeds
from xmr_core.study.tables import run_table, seed_means
from xmr_core.study.variants import comparison, label_of, variant_configs
from xmr_core.training.runs import TrainedRun, train_or_load_all


@dataclass(frozen=True)
class Runs:
    """Finished runs and the label of each, seeds of one label together.

    Iterating gives the runs; `runs_of("DivE")` those of a label, `first("DivE")` its first seed.
    """

    runs: tuple[TrainedRun, ...]
    labels: tuple[str, ...]

    def __iter__(self):
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def runs_of(self, label: str) -> list[TrainedRun]:
        """The runs of a label, by seed. Raises: BadInput for a label that was not run."""
        if label not in self.labels:
            raise unknown("label", label, dict.fromkeys(self.labels))
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
        """Rows of results of all runs. more: label → further metrics rows for each of its runs (Run.with_metrics)."""
        extra = {label: iter(tables) for label, tables in (more or {}).items()}
        measured = [
            run.with_metrics(next(extra[label])) if label in extra else run
            for run, label in zip(self.runs, self.labels, strict=True)
        ]
        return results.rows(measured, self.labels)

    def chance(self) -> float:
        """The RSUM on annotated pairs that a random ranking has on this test split, in percent of 600."""
        return self.chance_interval()[0]

    def chance_interval(self) -> tuple[float, float, float]:
        """(mean, low, high) of that RSUM: 95 % of random rankings lie in between; see evaluation.chance.random_rsum."""
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
    chosen = seeds(str(p.get("preset", "quick")), int(p.get("seed", 0)), int(p.get("n_seeds", 0)))
    configs = variant_configs(base, labels, chosen, comparison() if among is None else among)
    runs = Runs(tuple(train_or_load_all(configs)), tuple(label for label in labels for _ in chosen))
    if poor := runs.unlearned():
        print(
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
