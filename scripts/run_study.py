"""The runs of the protocol (docs/protocol.md) that have no rows yet, trained side by side, into reports/protocol/.

python scripts/run_study.py [--part NAME …] [--variant LABEL …] [--label TEXT …] [--seeds N] [--flickr8k FOLDER]
[--workers N] [--list]. It can be killed and started again at any time: a run goes on from its last saved state, and its
rows are appended as soon as it ends. What tuning chooses is trained after it. --list names what is missing and trains
nothing.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch

from xmr_core.base import files
from xmr_core.base.paths import forgive_console
from xmr_core.data.config import DataConfig
from xmr_core.data.inputs import word_vector_file
from xmr_core.evaluation.evaluate import METRIC_COLUMNS, Evaluated
from xmr_core.evaluation.stats import image_error
from xmr_core.training.runs import RunConfig, TrainedRun, train_or_load_all
from xmr_core.training.runs.train_run import plan_run
from xmr_study import results
from xmr_study.jobs import PARTS, jobs, unmeasured
from xmr_study.protocol import Job, labels
from xmr_study.protocol_results import FOLDER, protocol_curves, protocol_rows


def image_errors(run: Evaluated) -> pd.DataFrame:
    """'rsum_error': the standard error of RSUM for the choice of test images, a fraction, for every relevance set."""
    lines = []
    for kind, own in run.per_query.groupby("relevance", sort=False):
        halves = [half for _, half in own.groupby("direction", sort=False)]
        recalls = [(half[f"R@{k}"].to_numpy(), half["image"].to_numpy()) for half in halves for k in (1, 5, 10)]
        lines.append((kind, "both", "rsum_error", 0, image_error(recalls), len(own)))
    return pd.DataFrame(lines, columns=METRIC_COLUMNS)


def missing(asked: argparse.Namespace) -> list[Job]:
    """What was asked for and has no rows, part by part and seed by seed, so that a stop leaves whole seeds."""
    rows = protocol_rows(FOLDER)
    wanted = [
        job
        for job in unmeasured(jobs(rows, protocol_curves(FOLDER), asked.flickr8k), rows)
        if job.part in (asked.part or PARTS)
        and job.variant in (asked.variant or [job.variant])
        and any(text in job.label for text in asked.label or [""])
        and (asked.seeds is None or job.config.train.seed < asked.seeds)
    ]
    return sorted(wanted, key=lambda job: (PARTS.index(job.part), job.config.train.seed))


def train(wanted: Sequence[Job], workers: int) -> dict[str, Exception]:
    """Train runs side by side and append the rows of each when it ends. Gives the runs that failed, and why: the others
    do not wait for them."""
    files.make_folder(FOLDER)
    failed: dict[str, Exception] = {}
    names: dict[str, list[str]] = {}
    for job in wanted:
        names.setdefault(plan_run(job.config).id, []).append(job.label)

    def write(run: TrainedRun) -> None:
        named = names.pop(run.id, [])
        if named:
            results.append_once(run.history[["epoch", "value"]].assign(run_id=run.id), FOLDER / "curves.csv")
            measured = [run.with_metrics(image_errors(run))] * len(named)
            results.append(results.rows(measured, named), FOLDER / "results.csv")  # last: a run with rows is done

    def give_up(config: RunConfig, error: Exception) -> None:
        failed[plan_run(config).id] = error

    for run in train_or_load_all([job.config for job in wanted], workers, each=write, failed=give_up):
        write(run)  # what was finished before, and had no rows
    return failed


def main() -> int:
    forgive_console()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    many = {"action": "append", "metavar": "NAME"}
    parser.add_argument("--part", choices=PARTS, help=f"only this part, of {', '.join(PARTS)}; may be repeated", **many)
    parser.add_argument("--variant", choices=labels(), help="only runs with the trial of this variant ('DivE')", **many)
    parser.add_argument("--label", help="only runs whose label has this in it ('K=', 'T=2')", **many)
    parser.add_argument("--seeds", type=int, metavar="N", help="only the first N seeds")
    parser.add_argument("--flickr8k", default="", help="folder of Flickr8k; without it, no run on photographs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs side by side")
    parser.add_argument("--list", action="store_true", help="name what is missing, and train nothing")
    asked = parser.parse_args()
    if asked.flickr8k:
        asked.flickr8k = os.path.expanduser(asked.flickr8k)
        if not Path(asked.flickr8k).is_dir():
            parser.error(f"--flickr8k {asked.flickr8k} is no folder")
        if word_vector_file(DataConfig("flickr8k", asked.flickr8k)) is None:
            parser.error(f"no word vectors (glove.6B.50d.txt) in {asked.flickr8k} or beside it (docs/protocol.md)")
    if asked.list:
        print(*(f"{job.part}: {job.label}, seed {job.config.train.seed}" for job in missing(asked)), sep="\n")
        return 0
    torch.set_num_threads(1)  # measuring goes on beside training
    failed: dict[str, Exception] = {}
    while wanted := [job for job in missing(asked) if plan_run(job.config).id not in failed]:
        failed |= train(wanted, asked.workers)
    for run_id, error in failed.items():
        print(f"{run_id} has no rows: {type(error).__name__}: {error}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
