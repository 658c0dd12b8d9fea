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

from xmr_core.base import paths
from xmr_core.data.prepare import prepare
from xmr_core.methods.registry import full_options
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.fetch import Run, fetch


def fetch_all(configs: Sequence[RunConfig], workers: int = 0, progress: bool = True) -> list[Run]:
    """The runs of several configs, in order; those that exist are loaded, the rest trained.

    workers: processes that train side by side; 0 chooses one per CPU thread budget (cores ÷ threads of a run) on the CPU
        and 1 on a GPU. Results do not depend on it, because every run trains on its own number of threads.
    Raises: what fetch raises, for the first config that fails; the others go on until they are done and are kept.
    """
    for config in configs:
        full_options(config.method, config.form, config.options)
    unique = {
        config.run_id(prepare(config.data, device=config.device).identity): config for config in configs
    }  # features are made once, here
    total = sum(config.train.epochs for config in unique.values())
    workers = min(workers or _workers(configs), len(unique))
    done: dict[str, Run] = {}
    with tqdm(total=total, desc=f"{len(unique)} runs", unit="epoch", disable=not progress) as bar:
        if workers <= 1:
            for run_id, config in unique.items():
                seen = bar.n

                def report(event: dict, seen=seen, config=config) -> None:
                    bar.n = seen + event["epoch"] + (1 if event.get("epoch_done") else 0)
                    bar.set_postfix_str(f"{config.method} loss {event.get('loss', float('nan')):.3f}", refresh=False)
                    bar.update(0)

                done[run_id] = fetch(config, report)
                bar.n = seen + config.train.epochs
                bar.refresh()
        else:
            _in_processes(unique, workers, bar, done)
    return [done[config.run_id(prepare(config.data).identity)] for config in configs]


def _in_processes(unique: dict[str, RunConfig], workers: int, bar, done: dict[str, Run]) -> None:
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    failure = None
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_die_with, initargs=(os.getpid(),)) as pool:
        waiting = {pool.submit(_fetch_quietly, config, run_id): run_id for run_id, config in unique.items()}
        try:
            pending = set(waiting)
            while pending:
                finished, pending = wait(pending, timeout=0.5)
                epochs = sum(_epochs_done(run_id, unique[run_id]) for run_id in unique)
                bar.update(epochs - bar.n)
                for future in finished:
                    if (error := future.exception()) is not None and failure is None:
                        failure = error
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if isinstance(failure, BrokenProcessPool):
        warnings.warn("a training process was killed; its runs are continued one at a time in this process", stacklevel=3)
    elif failure is not None:
        raise failure
    for run_id, config in unique.items():  # loads what the processes finished, continues what a killed one left
        done[run_id] = fetch(config)
    bar.update(bar.total - bar.n)


def _die_with(parent: int) -> None:
    """In a worker: end when the process that asked is gone. Its queue would keep the worker training for nobody."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)  # a run loses at most the seconds since its last saved state

    threading.Thread(target=watch, daemon=True).start()


def _fetch_quietly(config: RunConfig, run_id: str) -> None:
    """In a worker: train, leaving notes on how far it is where the parent looks."""
    note, last = paths.folder("runs") / run_id / "progress", 0.0

    def report(event: dict) -> None:
        nonlocal last
        if event.get("epoch_done") or time.monotonic() - last > 1:
            last = time.monotonic()
            paths.write_atomic(note, str(event["epoch"] + (1 if event.get("epoch_done") else 0)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parent repeats a run's messages when it loads it
        fetch(config, report)


def _epochs_done(run_id: str, config: RunConfig) -> int:
    folder = paths.folder("runs") / run_id
    if (folder / "record.json").exists():
        return config.train.epochs
    try:
        return int((folder / "progress").read_text())
    except (OSError, ValueError):
        return 0


def _workers(configs: Sequence[RunConfig]) -> int:
    if any(config.device != "cpu" for config in configs):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # a container may own fewer
    return max(1, cores // max(config.train.threads for config in configs))
