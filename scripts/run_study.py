"""The rows that docs/protocol.md asks for: what is missing is trained, part by part and seed by seed, the longest runs
of a seed first, on all cores. Ensembles that claims name are computed from their members' runs; where those are not on
this machine, they are trained again at the end of a call without --part, --variant, --label, --claim and --seeds.

python scripts/run_study.py [--status] [--part NAME …] [--variant LABEL …] [--label TEXT …] [--claim NAME …]
[--seeds N] [--flickr8k FOLDER] [--measure-again] [--hours H] [--workers N]. It can be killed and started again at any
time: a run goes on from its last saved state, and rows are appended to reports/protocol/ as soon as a run ends. Two of
it may run at once, each with parts or variants of its own. --status says what is done, what is missing and how long it
will take, and trains nothing. --hours: nothing begins that would end later than that; without it, it goes on until
everything is there. --measure-again trains nothing either: it reads finished runs for what is measured only since they
ended.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import torch

from xmr_core.base import files
from xmr_core.base.errors import BadInput, unknown
from xmr_core.data.caption_inputs import word_vector_file
from xmr_core.data.config import DataConfig
from xmr_core.evaluation.results import Evaluated
from xmr_core.study import results, rules
from xmr_core.study.again import AGAIN
from xmr_core.study.choices import chosen_trials
from xmr_core.study.claim_jobs import jobs_of_claims
from xmr_core.study.claims import all_claims
from xmr_core.study.decision_rows import protocol_curves, protocol_rows
from xmr_core.study.ensembles import Ensemble, ensembles, uncomputed
from xmr_core.study.image_values import FILE as IMAGES
from xmr_core.study.image_values import image_errors, image_lines
from xmr_core.study.jobs import PARTS, jobs, missing
from xmr_core.study.measures import measured
from xmr_core.study.progress import earlier_rows, estimated, progress, spent_hours
from xmr_core.study.protocol import Job, labels, meanings
from xmr_core.training.runs import RunConfig, TrainedRun, train_or_load_all
from xmr_core.training.runs.ensemble import ensemble_of
from xmr_core.training.runs.produce import plan_run

TELL = 600  # seconds, at least, between two tables of what is done
FOLDER = Path(__file__).resolve().parents[1] / "reports" / "protocol"


def rows() -> pd.DataFrame:
    return protocol_rows(FOLDER)


def curves() -> pd.DataFrame:
    return protocol_curves(FOLDER)


def status(there: pd.DataFrame, photographs: str = "") -> str:
    """A line for each part: runs that are done, runs that are missing, hours of a core until all are there."""
    table = progress(there, curves(), earlier_rows(), photographs or "flickr8k")
    lines = [
        f"{r.part}: {r.done} of {r.runs} runs done, {r.hours:.1f} hours of a core left" for r in table.itertuples()
    ]
    if set(labels()) - set(chosen_trials(there)):
        lines.append("(parts after tuning are counted as planned: not all trials are chosen yet)")
    lines += [] if photographs else ["(flickr8k is run with --flickr8k FOLDER)"]
    ready = len(uncomputed(wanted_ensembles(there, photographs), there))
    return "\n".join([*lines, f"ensembles: {ready} to be computed now", f"spent: {spent_hours(there):.1f} hours"])


def wanted_ensembles(there: pd.DataFrame, photographs: str = "") -> list[Ensemble]:
    return ensembles(all_claims(), there, curves(), chosen_trials(there), photographs)


def write(run: TrainedRun, names: list[str], again: bool = False) -> None:
    """Append what a run measured under each of its names, with its errors and what claims about it need, and its
    validation curve; rows that are there stay. again: all its rows go into the folder AGAIN too."""
    run = run.with_metrics(image_errors(run))
    results.append_once(run.history[["epoch", "value"]].assign(run_id=run.id), FOLDER / "curves.csv")
    write_images(run, [name for label in names for name in meanings(label)])
    for label in names:  # last, because a run with rows is done
        made = results.rows([measured(run, meanings(label), all_claims())], [label])
        if again:
            files.make_folder(FOLDER / AGAIN)
            results.append(made, FOLDER / AGAIN / "results.csv")
        results.append(made, FOLDER / "results.csv")


def write_images(run: Evaluated, names: Sequence[str]) -> None:
    """Append what each test image says of the metrics that are compared, so that an error can be paired."""
    results.append_once(image_lines(run, names, all_claims()), FOLDER / IMAGES, "values")


def train(
    wanted: Callable[[], list[Job]],
    workers: int,
    heard: Callable[[], None] = lambda: None,
    waiting: int = 1,
) -> dict[str, Exception]:
    """Train what is wanted, side by side, until nothing is; rows are written as each run ends. wanted: the jobs without
    rows, in order, asked again whenever a run has ended, so that what the rows tell (trials, hours) is heard. heard:
    called before that. waiting: how many runs more than there are workers are begun, so that no worker waits for the
    next question. Gives the runs that could not be trained or measured, and why: a night's other runs do not wait for
    them.
    """
    names: dict[str, list[str]] = {}  # of the runs that were begun
    ended: set[str] = set()
    failed: dict[str, Exception] = {}

    def keep(run: TrainedRun) -> None:
        ended.add(run.id)
        try:
            write(run, names[run.id])
        except Exception as error:  # whatever it was: it is told at the end, with the run's name
            failed[run.id] = error

    def following() -> list[RunConfig]:
        """What to begin now. A run that was finished before is measured here."""
        heard()
        begun: list[RunConfig] = []
        for job in wanted():
            run_id = (plan := plan_run(job.config)).id
            if run_id in failed or job.label in names.get(run_id, ()):
                continue
            if run_id not in names and len(names) - len(ended) >= workers + waiting:
                break
            if not names:
                files.make_folder(FOLDER)
                rules.register(all_claims(), FOLDER / "rules.csv")  # before any row is made that they decide
            if run_id not in names:
                begun.append(job.config)  # a finished one too, so that what its rows tell is asked for
            names.setdefault(run_id, []).append(job.label)
            if (run := plan.finished()) is not None:
                keep(run)
        return begun

    def give_up(config: RunConfig, error: Exception) -> None:
        run_id = plan_run(config).id
        ended.add(run_id)
        failed[run_id] = error

    while first := following():
        train_or_load_all(first, workers, each=keep, more=following, failed=give_up)
    return failed


def compute(asked: argparse.Namespace, left: float) -> None:
    """Rows of the ensembles that were asked for and whose members all have rows, from their runs. A member whose files
    are not on this machine is trained again if it can end in the hours that are left; 0: only those that need no
    training."""
    there = rows()
    for ensemble in uncomputed(wanted_ensembles(there, asked.flickr8k), there):
        if not all(map(asks_for(asked), ensemble.members)):
            continue
        absent = [job for job in ensemble.members if plan_run(job.config).finished() is None]
        if sum(needed for _, needed in estimated(absent, there, earlier_rows())) <= left:
            made = ensemble_of(train_or_load_all([job.config for job in ensemble.members], 1))
            made = measured(made.with_metrics(image_errors(made)), [ensemble.label], all_claims())
            write_images(made, [ensemble.label])
            results.append(results.rows([made], [ensemble.label]), FOLDER / "results.csv")


def measure_again(asked: argparse.Namespace) -> int:
    """Add what is measured today and has no rows yet (a metric, an error, values of images) to the rows of finished
    runs that were asked for and lie on this machine; rows that are there stay as they are. Of a run that was trained
    again with other results, as on another processor, all numbers go into the folder AGAIN as well; what the first
    training has no row of is as good an estimate. Gives how many runs were read."""
    there, done = rows(), {}
    held = set(zip(there["run_id"], there["variant"], strict=True))
    every = [job for job in jobs(there, curves(), asked.flickr8k, chosen_trials(there)) if asks_for(asked)(job)]
    for job in of_claims(asked, every):
        if (plan := plan_run(job.config)).id in {run_id for run_id, name in held if name == job.label}:
            if (run := plan.finished()) is not None:
                done.setdefault(run.id, (run, []))[1].append(job.label)
    for run, names in done.values():
        write(run, names, again=not same_results(run, there))
    return len(done)


def same_results(run: TrainedRun, there: pd.DataFrame) -> bool:
    """Whether the rows of a run hold what this training of it gave, to the digits of a file of rows."""
    key = ["relevance", "direction", "metric", "k"]
    both = run.metrics.merge(there[there["run_id"] == run.id], on=key, suffixes=("", " of rows"))
    away = (both["value"].astype(float) - both["value of rows"].astype(float)).abs()
    return bool((away <= 1e-6 * both["value"].astype(float).abs().clip(lower=1.0)).all())


def asks_for(asked: argparse.Namespace) -> Callable[[Job], bool]:
    """Whether a run is of the parts, variants, labels and seeds that were asked for."""
    return lambda job: (
        job.part in (asked.part or PARTS)
        and job.variant in (asked.variant or [job.variant])
        and any(text in job.label for text in asked.label or [""])
        and (asked.seeds is None or job.config.train.seed < asked.seeds)
    )


def only_some(asked: argparse.Namespace) -> bool:
    """Whether a part of the study was asked for."""
    return bool(asked.part or asked.variant or asked.label or asked.claim or asked.seeds is not None)


def of_claims(asked: argparse.Namespace, wanted: list[Job]) -> list[Job]:
    """Those that decide the claims that were asked for."""
    return jobs_of_claims(wanted, [c for c in all_claims() if c.id in asked.claim]) if asked.claim else wanted


def selected(asked: argparse.Namespace, there: pd.DataFrame) -> list[Job]:
    """What is missing, of the parts, variants, labels, claims and seeds that were asked for."""
    return of_claims(asked, [job for job in missing(there, curves(), asked.flickr8k) if asks_for(asked)(job)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--status", action="store_true", help="say what is done, and train nothing")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated")
    parser.add_argument(
        "--variant", action="append", choices=labels(), metavar="LABEL",
        help="only runs that take the trial of this variant ('DivE', 'SCAN t-i', …); may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--label", action="append", metavar="TEXT",
        help="only runs whose label has this in it ('K=', 'hinge', 'T=2', …); may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--claim", action="append", metavar="NAME",
        help="only runs that decide this claim, and the tuning that they wait for; may be repeated",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, metavar="N", help="only the first N seeds")
    parser.add_argument(
        "--flickr8k", default="", help="folder of Flickr8k in its official layout; without it, no such run"
    )
    parser.add_argument(
        "--measure-again", action="store_true",
        help="train nothing; add what finished runs on this machine have no rows of yet, such as a metric that is new",
    )  # fmt: skip
    parser.add_argument("--hours", type=float, default=float("inf"), help="begin nothing that would end later")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs side by side")
    asked = parser.parse_args()
    if absent := set(asked.claim or []) - {claim.id for claim in all_claims()}:
        parser.error(str(unknown("claim", min(absent), (claim.id for claim in all_claims()))))
    named = [job.label for job in jobs(rows(), curves(), asked.flickr8k)] if asked.label else []
    if absent := [text for text in asked.label or [] if not any(text in label for label in named)]:
        parser.error(f"no run has {absent[0]!r} in its label; labels are like 'K=3' or {named[-1]!r}")
    if asked.workers < 1 or (asked.seeds or 0) < 0 or not asked.hours > 0:
        parser.error("--workers must be at least 1, --seeds at least 0, and --hours above 0")
    try:
        asked.flickr8k = asked.flickr8k and str(files.existing(asked.flickr8k, "--flickr8k"))
    except BadInput as e:
        parser.error(str(e))
    if asked.flickr8k and not Path(asked.flickr8k).is_dir():
        parser.error(f"--flickr8k {asked.flickr8k} is no folder")
    if asked.flickr8k and not asked.status and word_vector_file(DataConfig("flickr8k", asked.flickr8k)) is None:
        parser.error(
            f"no word vectors in {asked.flickr8k}, in its folder glove, or in such a folder beside it. The rows of "
            "Flickr8k start from GloVe 6B of 50 dimensions; put glove.6B.50d.txt there (docs/protocol.md)"
        )
    torch.set_num_threads(1)  # measuring goes on beside training
    if asked.status:
        print(status(rows(), asked.flickr8k))
        if only_some(asked):
            needed = [hours for _, hours in estimated(selected(asked, rows()), rows(), earlier_rows())]
            print(f"of what was asked for: {len(needed)} runs missing, {sum(needed):.1f} hours of a core")
        return 0
    if asked.measure_again:
        print(f"{measure_again(asked)} finished runs on this machine were measured again")
        return 0
    until = time.monotonic() + 3600 * asked.hours

    def left() -> float:
        return (until - time.monotonic()) / 3600

    def wanted() -> list[Job]:
        there = rows()
        return [job for job, needed in estimated(selected(asked, there), there, earlier_rows()) if needed < left()]

    told = float("-inf")

    def heard() -> None:
        nonlocal told
        compute(asked, 0.0)
        if time.monotonic() - told > TELL:
            print(status(rows(), asked.flickr8k), flush=True)
            told = time.monotonic()

    limited = asked.hours < float("inf")  # a run that waits for a worker would end later than it says
    failed = train(wanted, asked.workers, heard, waiting=0 if limited else 1)
    compute(asked, 0.0 if only_some(asked) else left())
    print(status(rows(), asked.flickr8k))
    for run_id, error in failed.items():
        print(f"{run_id} has no rows: {type(error).__name__}: {error}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
