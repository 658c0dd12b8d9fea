"""Many runs: in this process, in processes of this machine, or on any executor, with one progress bar."""

import json
import os
import signal
import socket
import sys
import threading
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from multiprocessing import get_context, parent_process
from pathlib import Path
from types import ModuleType

from tqdm.auto import tqdm

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, Interrupted
from xmr_core.data.corpora import DATASETS
from xmr_core.methods.registry import full_options, registered
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.folder import TrainedRun, warn_of_versions
from xmr_core.training.runs.train_run import Plan, Report, plan_run, produce, report_of, silent

_one_at_a_time = threading.Lock()  # threads of one process share torch's random numbers and number of threads


def train_or_load_all(
    configs: Sequence[RunConfig],
    workers: int = 0,
    progress: bool = True,
    executor: Executor | None = None,
    each: Callable[[TrainedRun], None] = lambda run: None,
    report: Report = silent,
    more: Callable[[], Sequence[RunConfig]] | None = None,
    failed: Callable[[RunConfig, Exception], None] | None = None,
) -> list[TrainedRun]:
    """The runs of several configurations, in order. Finished ones are loaded in this process; the rest are trained.

    workers: processes of this machine that train side by side; 0 chooses one per CPU thread budget (cores ÷ threads of
        a run) on the CPU, and 1, which is this process, on a GPU. Results do not depend on it, because every run trains
        on its own number of threads.
    executor: where to train instead, for example dask's `client.get_executor()` (docs/howto/sweeps.md). Its workers
        need this package and the folder of runs under the same path. It is not shut down.
    each: called in this process with every run that was trained, as soon as it is, to keep what it measured.
    report: called in this process with the events of all trainings, wherever they go on; see train_or_load. Those of
        one run come in order.
    more: asked in this process whenever a run has ended (after `each`) or failed for configurations to train as well,
        so that no worker waits for the last run of a list; those are not among the runs that are returned.
    failed: called in this process with the configuration and the error of every run that cannot be trained. Then
        nothing is raised for it, and it is not among the runs that are returned.
    A run whose worker dies fails alone; asked for again, it continues from its last saved state. What only this process
    knows (a corpus in memory, a registered reader or method) is trained in it.
    Raises: without `failed`, what train_or_load raises for the first run that fails, after all others have ended. What
        a callable of the caller raises ends everything at once.

    >>> from xmr_core.training.runs.config import base_config
    >>> config = base_config("vse++", device="cpu", size="tiny", d=8, epochs=1)
    >>> [run.id[:15] for run in train_or_load_all([config, config], progress=False)]
    ['vsepp-scenes-s0', 'vsepp-scenes-s0']
    """
    for config in configs:  # all of them before any work
        full_options(config.method, config.form, config.options)
    plans = [plan_run(config) for config in configs]
    planned = {plan.id: plan for plan in plans}
    runs = {run_id: run for run_id, plan in planned.items() if (run := plan.finished()) is not None}
    warn_of_versions([*runs.values()])
    missing = [plan for run_id, plan in planned.items() if run_id not in runs]
    workers = workers or _workers([plan.config for plan in missing])
    apart = executor is not None or (workers > 1 and (more is not None or len(missing) > 1))
    local, remote, free = deque[Plan](), deque[Plan](), list[_Process]()
    pending: dict[Future, tuple[Plan, EventFile, Executor]] = {}
    epochs, errors, call = dict[str, int](), list[Exception](), uuid.uuid4().hex

    def add(plan: Plan) -> None:
        (remote if apart and not needs_this_process(plan.config) else local).append(plan)
        epochs[plan.id] = 0
        bar.total += plan.config.train.epochs

    def tell(event: dict) -> None:
        epochs[event["run"]] = event["epoch"] + bool(event.get("epoch_done"))
        bar.n = sum(epochs.values())
        bar.update(0)
        report(event)

    def ended(plan: Plan, error: BaseException | None) -> None:
        epochs[plan.id] = plan.config.train.epochs
        if error is None:
            runs[plan.id] = plan.finished()
            each(runs[plan.id])
        else:
            errors.append(error)
            if failed is not None:
                failed(plan.config, error)
        if more is not None and (failed is not None or not errors):  # else it ends with the error
            for new in map(plan_run, more()):
                if new.id not in epochs and new.finished() is None:
                    add(new)

    with tqdm(total=0, desc="training", unit="epoch", disable=not (progress and missing)) as bar:
        for plan in missing:
            add(plan)
        try:
            while local or remote or pending:
                while remote and (executor is not None or len(pending) < workers):
                    plan, pool = remote.popleft(), executor or (free.pop() if free else _Process())
                    events = EventFile(plan.folder, f"{call}-{plan.id}")
                    future = pool.submit(train_elsewhere, plan, str(paths.root()), events.ticket, report is not silent)
                    pending[future] = plan, events, pool
                if not pending:
                    plan, error = local.popleft(), None
                    try:
                        produce(plan, report_of(plan.id, tell))
                    except Exception as e:
                        error = e
                    ended(plan, error)
                    continue
                done, _ = wait(pending, timeout=0.5, return_when="FIRST_COMPLETED")
                for plan, events, _ in pending.values():
                    for event in events.new():
                        tell({"run": plan.id, **event})
                for future in done:
                    plan, events, pool = pending.pop(future)
                    events.remove()
                    error = future.exception()
                    if executor is None and isinstance(error, BrokenExecutor):
                        said = f"the process that trained {plan.id} ended early. Ask for the run again: it continues."
                        error = Interrupted(said)
                    elif executor is None:
                        free.append(pool)
                    ended(plan, error)
        finally:
            for future, (_, events, pool) in pending.items():
                future.cancel()
                events.remove()
                free += [pool] * (executor is None)
            for process in free:
                process.end()
        bar.update(bar.total - bar.n)
    if errors and failed is None:
        raise errors[0]
    return [runs[plan.id] for plan in plans if plan.id in runs]


class EventFile:
    """Events of a training in another process: lines of JSON in the folder of the run, which both processes see."""

    def __init__(self, folder: Path, ticket: str):
        self.ticket, self.path, self._position = ticket, folder / f"events-{ticket}.jsonl", 0

    def add(self, event: dict) -> None:
        """Append an event; the training process calls this."""
        with paths.open_to_append(self.path) as file:
            file.write(json.dumps(event).encode() + b"\n")

    def new(self) -> list[dict]:
        """The events since the last call, in order; the process that waits calls this."""
        with suppress(OSError), open(self.path, "rb") as file:  # none yet
            file.seek(self._position)
            complete, end, _ = file.read().rpartition(b"\n")
            self._position += len(complete + end)
            return [json.loads(line) for line in complete.splitlines()]
        return []

    def remove(self) -> None:
        """Delete the file, when all events were read."""
        self.path.unlink(missing_ok=True)


def needs_this_process(config: RunConfig) -> bool:
    """Whether a run needs what other processes cannot know."""
    data, method = config.data, config.method
    if data.corpus or method in dict(registered()) or not (data.dataset in DATASETS or ":" in data.dataset):
        return True
    return any(name.startswith("__main__:") for name in (data.dataset, method, data.features))


def train_elsewhere(plan: Plan, home: str, ticket: str, reported: bool = False) -> None:
    """Train or continue a run in a process that somebody else started: one of this machine, or a worker of a cluster.

    home: the folder that holds `runs`, under the same path for all workers. ticket: of the EventFile in the run's
    folder, where the process that asked reads how far it is. reported: leave every step there, too.
    """
    events = EventFile(plan.folder, ticket)

    def report(event: dict) -> None:
        if reported or event.get("epoch_done"):
            events.add(event)

    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the process that asked repeats a run's messages when it loads it
        os.environ["XMR_HOME"] = home
        own = plan_run(plan.config).identity
        if different := [name for name in plan.identity if own[name] != plan.identity[name]]:
            raise BadInput(
                f"the worker on {socket.gethostname()} has other {', '.join(different)} than the process that asked "
                f"for {plan.id}. Give all of them the same files and the same version of this package."
            )
        produce(plan, report)


class _Process(ProcessPoolExecutor):
    """One process of this machine, so that its death breaks no other's call. It does not run the program's main file
    again, so that this file needs no guard."""

    def __init__(self):
        super().__init__(1, get_context("spawn"), _start_worker)
        main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            self.pid = self.submit(os.getpid)
        finally:
            sys.modules["__main__"] = main

    def end(self) -> None:
        """End it at once, whatever it does."""
        with suppress(ProcessLookupError, BrokenExecutor):
            os.kill(self.pid.result(), signal.SIGTERM)
        self.shutdown()


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked decides what an interrupt means

    def end_with_parent() -> None:
        parent_process().join()
        os._exit(1)  # a run loses at most the seconds since its last saved state

    threading.Thread(target=end_with_parent, daemon=True).start()


def _workers(configs: Sequence[RunConfig]) -> int:
    if any(config.device != "cpu" for config in configs):
        return 1
    # a container may own fewer cores than the machine has
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // max((config.train.threads for config in configs), default=1))
