"""The rows that docs/protocol.md asks for: what is missing is trained, the longest runs first, on all cores.

python scripts/run_protocol.py [--status] [--part NAME …] [--hours H] [--workers N]. It can be killed and started again
at any time: a run goes on from its last saved state, and rows are appended to reports/protocol/ as soon as a run ends.
--status says what is done, what is missing and how long it will take, and trains nothing. --hours: nothing begins that
would end later than that; without it, it goes on until everything is there.
"""

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd

from xmr_core.base import files
from xmr_core.study import results
from xmr_core.study.protocol import Job, hours, jobs, missing
from xmr_core.training.runs import TrainedRun, train_or_load_all
from xmr_core.training.runs.produce import plan_run

FOLDER = Path(__file__).resolve().parents[1] / "reports" / "protocol"
PARTS = ("tuning", "comparison", "budget")
UNKNOWN = 0.5  # hours of a run of which nothing is known: it comes early, and then its time is known


def rows() -> pd.DataFrame:
    path = FOLDER / "results.csv"
    return results.read(path) if path.exists() else pd.DataFrame(columns=list(results.COLUMNS))


def estimated(wanted: list[Job], there: pd.DataFrame) -> list[tuple[Job, float]]:
    """(run, hours on one core), the longest first: from these rows, or from those of earlier studies of the same
    world."""
    earlier = earlier_rows()
    known = ((job, hours(job, there) or hours(job, earlier) or UNKNOWN) for job in wanted)
    return sorted(known, key=lambda pair: -pair[1])


def earlier_rows() -> pd.DataFrame:
    before = [results.read(path) for path in (FOLDER.parent / "results.csv", *FOLDER.parent.glob("*/results.csv"))]
    table = pd.concat(before)
    return table[(table["dataset"] == "scenes") & (table["size"] == "quick")]


def status(there: pd.DataFrame) -> str:
    """A line for each part: runs that are done, runs that are missing, hours of a core until all are there."""
    left, every = estimated(missing(there), there), Counter(job.part for job in jobs(there))
    lines = []
    for part in PARTS:
        own = [needed for job, needed in left if job.part == part]
        done = every[part] - len(own)
        lines.append(f"{part}: {done} of {every[part]} runs done, {sum(own):.1f} hours of a core left")
    spent = there.drop_duplicates("run_id")["train_seconds"].astype(float).sum() / 3600
    return "\n".join([*lines, f"spent: {spent:.1f} hours"])


def write(run: TrainedRun, labels: list[str]) -> None:
    """Append what a run measured under each of its labels, with its errors, and its validation curve."""
    run = run.with_metrics(results.image_errors(run))
    results.append(results.rows([run] * len(labels), labels), FOLDER / "results.csv")
    results.append_curves(run.history[["epoch", "value"]].assign(run_id=run.id), FOLDER / "curves.csv")


def train(batch: list[Job], workers: int) -> None:
    """Train some runs side by side; rows are written as each ends, and then those of what was finished before."""
    labels: dict[str, list[str]] = {}
    for job in batch:
        labels.setdefault(plan_run(job.config).id, []).append(job.label)
    files.make_folder(FOLDER)
    for run in train_or_load_all([job.config for job in batch], workers, each=lambda run: write(run, labels[run.id])):
        write(run, labels[run.id])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--status", action="store_true", help="say what is done, and train nothing")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated")
    parser.add_argument("--hours", type=float, default=float("inf"), help="begin nothing that would end later")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs side by side")
    asked = parser.parse_args()
    if asked.status:
        print(status(rows()))
        return 0
    until = time.monotonic() + 3600 * asked.hours
    while True:
        there = rows()
        wanted = [job for job in missing(there) if job.part in (asked.part or PARTS)]
        left = (until - time.monotonic()) / 3600
        # few at a time, so that what they tell (trials, hours) is heard, and none is begun too late
        batch = [job for job, needed in estimated(wanted, there) if needed < left][: 2 * asked.workers]
        if not batch:
            break
        train(batch, asked.workers)
        print(status(rows()), flush=True)
    print(status(rows()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
