"""How far the runs of the protocol are, and how many hours of a core are missing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import log
from pathlib import Path

import pandas as pd

from xmr_core.study import results
from xmr_core.study.choices import chosen_trials
from xmr_core.study.decision_rows import FOLDER
from xmr_core.study.jobs import PARTS, hours, jobs, unmeasured
from xmr_core.study.protocol import Job, labels
from xmr_core.training.runs.ensemble import ENSEMBLE

UNKNOWN = 0.5  # hours of a run of which nothing is known: it comes early, and then its time is known


def estimated(wanted: Sequence[Job], *tables: pd.DataFrame) -> list[tuple[Job, float]]:
    """(run, hours on one core), part by part and seed by seed, the longest of a seed first, so that a stop at any time
    leaves as many seeds of each variant. The hours come from the first table of rows that has something of the variant,
    so the protocol's own come before those of earlier studies, which are turned into times of now by `_pace`.

    >>> estimated([])
    []
    """
    by_run = [table.drop_duplicates(["run_id", "variant"]) for table in tables]  # a run has many rows
    first: dict[tuple[str, str], float] = {}  # hours of an epoch, by variant and data set
    for job in wanted:
        key = job.variant, job.config.data.dataset
        if key not in first:
            needed = next(((n, h) for n, table in enumerate(by_run) if (h := hours(job, table))), None)
            pace = _pace(job, needed[1], by_run[0], by_run[needed[0]]) if needed and needed[0] else 1.0
            first[key] = pace * needed[1] / job.config.train.epochs if needed else 0.0
    pairs = [(job, first[job.variant, job.config.data.dataset] * job.config.train.epochs or UNKNOWN) for job in wanted]
    return sorted(pairs, key=lambda pair: (PARTS.index(pair[0].part), pair[0].config.train.seed, -pair[1]))


def _pace(job: Job, before: float, rows: pd.DataFrame, earlier: pd.DataFrame) -> float:
    """How much of the time of earlier rows an epoch takes in later ones, by the compared variant with both whose
    earlier time is the nearest to `before` (hours of the job); 1 where no variant has both. Machines and code differ
    between studies, and for dear methods more than for cheap ones."""
    near = [(1.0, float("inf"))]
    for label in labels():
        now, then = (hours(replace(job, variant=label), table) for table in (rows, earlier))
        if now and then:
            near.append((now / then, abs(log(then / before))))
    return min(near, key=lambda pair: pair[1])[0]


def progress(
    rows: pd.DataFrame,
    curves: pd.DataFrame,
    earlier: pd.DataFrame,
    photographs: str = "flickr8k",
) -> pd.DataFrame:
    """One line per part: part, done, runs, hours (of a core, that the missing ones need).

    What tuning has not chosen yet is counted as if the first trial had been, because trials hardly differ in time; what
    must run longer is known only once a method's runs are there. rows: of the protocol. earlier: rows of other studies
    of the same world, for the time of a run. photographs: a folder of Flickr8k, '' to leave that part out.
    """
    chosen = dict.fromkeys(labels(), 1) | chosen_trials(rows)
    wanted = jobs(rows, curves, photographs, chosen)
    every = Counter(job.part for job in wanted)
    left = estimated(unmeasured(wanted, rows), rows, earlier)
    lines = []
    for part in (name for name in PARTS if every[name]):
        needed = [time for job, time in left if job.part == part]
        lines.append((part, every[part] - len(needed), every[part], sum(needed)))
    return pd.DataFrame(lines, columns=["part", "done", "runs", "hours"])


def earlier_rows(folder: Path = FOLDER) -> pd.DataFrame:
    """Rows of the studies beside the protocol's folder, on the same corpora: they say how long a run takes.

    >>> earlier_rows(Path("no such folder/protocol")).empty
    True
    """
    paths = [p for p in (folder.parent / "results.csv", *folder.parent.glob("*/results.csv")) if p.exists()]
    table = pd.concat(
        [pd.DataFrame(columns=list(results.COLUMNS)), *(results.read(p) for p in paths if p.parent != folder)]
    )
    return table[(table["dataset"] != "scenes") | (table["size"] == "quick")]


def spent_hours(rows: pd.DataFrame) -> float:
    """Hours of training behind rows, each run once; an ensemble has none of its own.

    >>> spent_hours(pd.DataFrame({"run_id": ["a", "a", "ensemble-b"], "train_seconds": [1800.0, 1800.0, 3600.0]}))
    0.5
    """
    trained = rows[~rows["run_id"].astype(str).str.startswith(f"{ENSEMBLE}-")].drop_duplicates("run_id")
    return float(trained["train_seconds"].astype(float).sum() / 3600)
