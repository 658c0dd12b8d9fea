"""Many runs: in this process, or several at a time in processes of their own, with one progress bar."""

import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from tqdm.auto import tqdm

from xmr_core.base import files
from xmr_core.methods.registry import full_options
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.folder import RECORD, warn_of_other_code
from xmr_core.training.runs.produce import Plan, plan_run, produce
from xmr_core.training.runs.run import TrainedRun


def train_or_load_all(configs: Sequence[RunConfig], workers: int = 0, progress: bool = True) -> list[TrainedRun]:
    """The runs of several configurations, in order. Finished ones are loaded in this process; the rest are trained.

    workers: processes that train side by side; 0 chooses one per CPU thread budget (cores ÷ threads of a run) on the
    CPU,
        and 1 on a GPU. Results do not depend on it, because every run trains on its own number of threads.
    Raises: what train_or_load raises, for the first configuration that fails; the others still end and are kept.

    >>> from xmr_core.study.presets import base_config
    >>> config = base_config("vse++", device="cpu", size="tiny", d=8, epochs=1)
    >>> [run.id[:15] for run in train_or_load_all([config, config], progress=False)]
    ['vsepp-scenes-s0', 'vsepp-scenes-s0']
    """
    for config in configs:  # all of them before any work
        full_options(config.method, config.form, config.options)
    plans = [plan_run(config) for config in configs]
    unique = {plan.id: plan for plan in plans}
    runs = {run_id: run for run_id, plan in unique.items() if (run := plan.finished()) is not None}
    warn_of_other_code([*runs.values()])
    missing = {run_id: plan for run_id, plan in unique.items() if run_id not in runs}
    if missing:
        total = sum(plan.config.train.epochs for plan in missing.values())
        with tqdm(total=total, desc=f"{len(missing)} runs", unit="epoch", disable=not progress) as bar:
            workers = min(workers or _workers([plan.config for plan in missing.values()]), len(missing))
            if workers > 1:
                _in_processes(missing, workers, bar)
            for run_id, plan in missing.items():  # loads what the processes finished, trains or continues the others
                runs[run_id] = _train_in_this_process(plan, bar) if workers <= 1 else plan.finished() or produce(plan)
            bar.update(bar.total - bar.n)
    return [runs[plan.id] for plan in plans]


def _train_in_this_process(plan: Plan, bar) -> TrainedRun:
    """Train a run in this process and move the bar along."""
    before = bar.n

    def report(event: dict) -> None:
        bar.n = before + event["epoch"] + (1 if event.get("epoch_done") else 0)
        bar.set_postfix_str(f"{plan.config.method} loss {event.get('loss', float('nan')):.3f}", refresh=False)
        bar.update(0)

    run = produce(plan, report)
    bar.n = before + plan.config.train.epochs
    bar.refresh()
    return run


def _in_processes(plans: dict[str, Plan], workers: int, bar) -> None:
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    failure = None
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_die_with, initargs=(os.getpid(),)) as pool:
        pending = {pool.submit(_produce_quietly, plan) for plan in plans.values()}
        try:
            while pending:
                finished, pending = wait(pending, timeout=0.5)
                bar.update(sum(map(_epochs_done, plans.values())) - bar.n)
                failure = failure or next(
                    (error for future in finished if (error := future.exception()) is not None), None
                )
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if isinstance(failure, BrokenProcessPool):
        warnings.warn(
            "a training process was killed; its runs are continued one at a time in this process", stacklevel=3
        )
    elif failure is not None:
        raise failure


def _die_with(parent: int) -> None:
    """In a worker: end when the process that started it is gone. Its queue would otherwise keep it training for
    nobody.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)  # a run loses at most the seconds since its last saved state

    threading.Thread(target=watch, daemon=True).start()


def _produce_quietly(plan: Plan) -> None:
    """In a worker: train, and note how far it is where the parent reads it."""
    note, last = plan.folder / "progress", 0.0

    def report(event: dict) -> None:
        nonlocal last
        if event.get("epoch_done") or time.monotonic() - last > 1:
            last = time.monotonic()
            files.write_atomic(note, str(event["epoch"] + (1 if event.get("epoch_done") else 0)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parent repeats a run's messages when it loads it
        produce(plan, report)


def _epochs_done(plan: Plan) -> int:
    if (plan.folder / RECORD).exists():
        return plan.config.train.epochs
    try:
        return int((plan.folder / "progress").read_text())
    except (OSError, ValueError):
        return 0


def _workers(configs: Sequence[RunConfig]) -> int:
    if any(config.device != "cpu" for config in configs):
        return 1
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )  # a container may own fewer
    return max(1, cores // max(config.train.threads for config in configs))
