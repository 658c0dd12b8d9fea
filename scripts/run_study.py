"""The runs of the protocol (docs/protocol.md) that have no rows yet, trained side by side, into reports/rows/.

python scripts/run_study.py [--part NAME …] [--label TEXT …] [--flickr8k FOLDER] [--workers N] [--commit] [--list]
[--plan]. It can be killed and started again: a run goes on from its last saved state, and its row is written when it
ends. What is chosen is trained after it. --commit commits each row as it is written, which is for a clone that nobody
edits. --list names what is missing, --plan prints every run with its seconds, and both train nothing.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import torch

from xmr_core.base import files
from xmr_core.base.errors import Interrupted, TrainingFailed
from xmr_core.base.machine import processor
from xmr_core.base.paths import forgive_console
from xmr_core.data.config import DataConfig
from xmr_core.data.inputs import word_vector_file
from xmr_core.models.load import SHIPPED
from xmr_core.training.runs import RunConfig, TrainedRun, train_or_load_all
from xmr_core.training.runs.train_run import plan_run
from xmr_study import records
from xmr_study.protocol import PARTS, Job, jobs, missing, step_ms

STEPS = 45  # of an epoch: 40 of training, and what validation takes
ROOT = Path(__file__).resolve().parents[1]


def wanted(asked: argparse.Namespace) -> list[Job]:
    """What was asked for and has no row, in the order of its value."""
    rows = records.read()
    return [
        job
        for job in missing(jobs(rows, flickr8k=asked.flickr8k), rows, processor())
        if job.part in (asked.part or PARTS) and any(text in job.label for text in asked.label or [""])
    ]


def plan() -> list[tuple]:
    """Each run of the protocol once: part, label (in quotes), epochs, world, seed, ambiguity, seconds of a core."""
    made = {job.key: job for job in reversed(jobs(records.read(), assumed=True))}
    lines = []
    for job in reversed(made.values()):
        label, epochs, _, *where, _ = job.key
        lines.append((job.part, f'"{label}"', epochs, *where, round(epochs * STEPS * step_ms(label) / 1000)))
    return lines


def train(asked: argparse.Namespace) -> int:
    """Train what is wanted and what this makes nameable, each run once, and keep its row when it ends. A training that
    diverged is a row; what failed otherwise has none, and can be asked for again. Returns how many had none."""
    named: dict[str, Job] = {}
    tried: dict[str, Exception | None] = {}

    def configs() -> list[RunConfig]:
        jobs = {plan_run(job.config).id: job for job in wanted(asked)}
        new = {run_id: job for run_id, job in jobs.items() if run_id not in tried}
        named.update(new)
        tried.update(dict.fromkeys(new))
        lacking = []
        for run_id, job in new.items():
            if (run := plan_run(job.config).finished()) is None:
                lacking.append(job.config)
            else:  # a start before this one trained it and was stopped before its row
                write(run_id, run)
        return lacking if lacking or not new else configs()  # the rows just written may name others

    def write(run_id: str, run: TrainedRun | Exception) -> None:
        if (job := named.pop(run_id, None)) is not None:
            records.keep(job, run)
            if asked.commit:
                said = f"Row: {job.part}, {job.label}, {job.key[1]} epochs, world {job.key[3]}, seed {job.key[4]}"
                for words in (["add", "reports/rows", "xmr_core/shipped"], ["commit", "--quiet", "-m", said]):
                    subprocess.run(["git", "-C", str(ROOT), *words], check=True)

    def give_up(config: RunConfig, error: Exception) -> None:
        if isinstance(error, TrainingFailed) and not isinstance(error, Interrupted):
            write(plan_run(config).id, error)
        else:
            tried[plan_run(config).id] = error

    ended = dict(each=lambda run: write(run.id, run), failed=give_up, more=configs)
    train_or_load_all(configs(), asked.workers, progress=sys.stderr.isatty(), **ended)
    lacking = {run_id: error for run_id, error in tried.items() if error is not None}
    for run_id, error in lacking.items():
        print(f"{run_id} has no row: {type(error).__name__}: {error}")
    return len(lacking)


def main() -> int:
    forgive_console()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    many = {"action": "append", "metavar": "NAME"}
    parser.add_argument("--part", choices=PARTS, help=f"only this part, of {', '.join(PARTS)}; may be repeated", **many)
    parser.add_argument("--label", help="only runs whose label has this in it ('DivE')", **many)
    parser.add_argument("--flickr8k", default="", help="folder of Flickr8k; without it, no run on photographs")
    parser.add_argument("--workers", type=int, default=0, help="runs side by side; 0: as many as there are cores")
    parser.add_argument("--commit", action="store_true", help="commit each row as it is written")
    parser.add_argument("--list", action="store_true", help="name what is missing, and train nothing")
    parser.add_argument("--plan", action="store_true", help="print a line for every run, and train nothing")
    asked = parser.parse_args()
    if asked.plan:
        print("part,label,epochs,world,seed,ambiguity,seconds")
        print(*(",".join(map(str, line)) for line in plan()), sep="\n")
        return 0
    asked.flickr8k = os.path.expanduser(asked.flickr8k)
    if asked.flickr8k and word_vector_file(DataConfig("flickr8k", asked.flickr8k)) is None:
        parser.error(f"no word vectors (glove.6B.50d.txt) in {asked.flickr8k} or beside it (docs/protocol.md)")
    if asked.list:
        print(*(f"{job.part}: {', '.join(map(str, job.key))}" for job in wanted(asked)), sep="\n")
        return 0
    torch.set_num_threads(1)  # measuring goes on beside training
    files.make_folder(records.FOLDER)
    files.make_folder(SHIPPED)
    return int(train(asked) > 0)


if __name__ == "__main__":
    sys.exit(main())
