"""Many runs: in this process, in processes of this machine, or on any executor, with one progress bar."""

import os
import uuid
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait

from tqdm.auto import tqdm

from xmr_core.base import paths
from xmr_core.base.processes import LocalProcesses
from xmr_core.data.corpora import DATASETS
from xmr_core.methods.registry import full_options, is_registered
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.elsewhere import epochs_done, train_elsewhere
from xmr_core.training.runs.folder import warn_of_other_code
from xmr_core.training.runs.produce import Plan, plan_run, produce
from xmr_core.training.runs.reports import EventFile, Report, report_of, silent
from xmr_core.training.runs.run import TrainedRun

ATTEMPTS = 3  # how often a run is given to an executor whose workers are lost, before it is trained in this process


def train_or_load_all(
    configs: Sequence[RunConfig],
    workers: int = 0,
    progress: bool = True,
    executor: Executor | None = None,
    each: Callable[[TrainedRun], None] = lambda run: None,
    report: Report = silent,
    more: Callable[[], Sequence[RunConfig]] | None = None,
) -> list[TrainedRun]:
    """The runs of several configurations, in order. Finished ones are loaded in this process; the rest are trained.

    workers: processes of this machine that train side by side; 0 chooses one per CPU thread budget (cores ÷ threads of
        a run) on the CPU, and 1, which is this process, on a GPU. Results do not depend on it, because every run trains
        on its own number of threads.
    executor: where to train instead, for example dask's `client.get_executor()` (docs/howto/sweeps.md). Its workers
        need this package and the folder of runs under the same path. It is not shut down.
    each: called in this process with every run that was trained, as soon as it is, to keep what it measured.
    report: called in this process with the events of all trainings, wherever they go on; see train_or_load. Those of
        one run come in order; after a worker was lost, steps since the last saved state come twice.
    more: asked in this process whenever a run has ended (after `each`) for configurations to train as well, so that no
        worker waits for the last run of a list; those are not among the runs that are returned.
    A run whose worker is lost continues on another one from its last saved state, and in the end in this process.
    What only this process knows (a corpus in memory, a registered reader or method) is trained in it.
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

            def added() -> list[Plan]:
                """What `more` asks for and is not trained yet."""
                plans = [plan_run(config) for config in (more() if more else ())]
                new = {plan.id: plan for plan in plans if plan.id not in missing and plan.finished() is None}
                missing.update(new)
                bar.total += sum(plan.config.train.epochs for plan in new.values())
                bar.set_description(f"{len(missing)} runs")
                return [*new.values()]

            movable = [plan for plan in missing.values() if not _only_here(plan.config)]
            workers = workers or _workers([plan.config for plan in missing.values()])
            workers = workers if more and movable else min(workers, len(movable))
            if executor is not None and movable:
                _on_executor(movable, executor, bar, each, report, added)
            elif workers > 1:
                with LocalProcesses(workers) as processes:
                    _on_executor(movable, processes, bar, each, report, added)
            rest = [*missing.values()]
            for plan in rest:  # loads what was finished elsewhere, trains or continues the others
                if (run := plan.finished()) is None:
                    each(run := _train_in_this_process(plan, bar, report))
                    rest += added()
                runs[plan.id] = run
            bar.update(bar.total - bar.n)
    return [runs[plan.id] for plan in plans]


def _train_in_this_process(plan: Plan, bar, report: Report) -> TrainedRun:
    """Train a run in this process and move the bar along."""
    before, tell = bar.n, report_of(plan.id, report, plan.config.device)

    def shown(event: dict) -> None:
        bar.n = before + event["epoch"] + (1 if event.get("epoch_done") else 0)
        bar.set_postfix_str(f"{plan.config.method} loss {event.get('loss', float('nan')):.3f}", refresh=False)
        bar.update(0)
        tell(event)

    run = produce(plan, shown)
    bar.n = before + plan.config.train.epochs
    bar.refresh()
    return run


def _on_executor(
    plans: Sequence[Plan],
    executor: Executor,
    bar,
    each: Callable[[TrainedRun], None],
    report: Report,
    added: Callable[[], Sequence[Plan]],
) -> None:
    """Train on an executor. Raises: the first error of a training, after all others have ended."""
    plans = [*plans]
    failure, lost, home, call = None, "", str(paths.root()), uuid.uuid4().hex
    pending: dict[Future, tuple[Plan, int, EventFile]] = {}

    def submit(plan: Plan, attempt: int) -> None:
        ticket = f"{call}-{attempt}"  # an engine may take equal calls for one call, so each has its own
        future = executor.submit(train_elsewhere, plan, home, ticket, report is not silent)
        pending[future] = (plan, attempt, EventFile(plan.folder, ticket))

    def tell(plan: Plan, events: EventFile) -> None:
        nonlocal failure
        for event in events.new():
            try:
                report({"run": plan.id, **event})
            except Exception as e:  # a fault of the user's code, which no worker shares
                failure = failure or e

    try:
        for plan in plans:
            submit(plan, 1)
        while pending:
            done, _ = wait(pending, timeout=0.5)
            bar.update(sum(map(epochs_done, plans)) - bar.n)
            for plan, _, events in pending.values():
                tell(plan, events)
            for future in done:
                plan, attempt, events = pending.pop(future)
                tell(plan, events)
                events.remove()
                try:
                    error = future.result()
                except Exception as e:  # a training gives its error as a result, so this is the worker's end
                    lost = f"{type(e).__name__}: {e}".splitlines()[0]
                    if attempt < ATTEMPTS:
                        submit(plan, attempt + 1)
                else:
                    failure = failure or error
                    if error is None and (run := plan.finished()) is not None:
                        each(run)
                    if failure is None:
                        for new in added():
                            if not _only_here(new.config):
                                plans.append(new)
                                submit(new, 1)
    except RuntimeError as e:  # the executor takes no more: BrokenExecutor, or it was shut down
        lost = f"{type(e).__name__}: {e}".splitlines()[0]
    except KeyboardInterrupt:
        for future in pending:
            future.cancel()
        if isinstance(executor, LocalProcesses):
            executor.shutdown(wait=False, cancel_futures=True)
        raise
    if failure is not None:
        raise failure
    if lost:
        warnings.warn(f"a worker that trained was lost ({lost}); its runs were continued", stacklevel=3)


def _only_here(config: RunConfig) -> bool:
    """Whether a run needs what other processes cannot know."""
    dataset, method = config.data.dataset, config.method
    importable = dataset in DATASETS or ":" in dataset
    in_main = any(name.startswith("__main__:") for name in (dataset, method))
    return bool(config.data.corpus) or not importable or is_registered(method) or in_main


def _workers(configs: Sequence[RunConfig]) -> int:
    if any(config.device != "cpu" for config in configs):
        return 1
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )  # a container may own fewer
    return max(1, cores // max(config.train.threads for config in configs))
