"""Many runs: in this process, in processes of this machine, or on any executor, with one progress bar."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from tqdm.auto import tqdm

from xmr_core.base.processes import LocalProcesses
from xmr_core.methods.registry import full_options
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.executors import on_executor, only_here
from xmr_core.training.runs.folder import warn_of_other_code
from xmr_core.training.runs.produce import Plan, plan_run, produce
from xmr_core.training.runs.reports import Report, report_of, silent
from xmr_core.training.runs.run import TrainedRun


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
        one run come in order; after a worker was lost, steps since the last saved state come twice.
    more: asked in this process whenever a run has ended (after `each`) or failed for configurations to train as well,
        so that no worker waits for the last run of a list; those are not among the runs that are returned.
    failed: called in this process with the configuration and the error of every run that cannot be trained. Then
        nothing is raised for it, and it is not among the runs that are returned.
    A run whose worker is lost continues on another one from its last saved state, and in the end in this process.
    What only this process knows (a corpus in memory, a registered reader or method) is trained in it.
    Raises: without `failed`, what train_or_load raises for the first run that fails, after all others have ended.

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
        with tqdm(total=total, desc=_runs(len(missing)), unit="epoch", disable=not progress) as bar:
            errors: dict[str, Exception] = {}

            def added() -> list[Plan]:
                """What `more` asks for and is not trained yet."""
                if errors and failed is None:  # it ends with the error
                    return []
                plans = [plan_run(config) for config in (more() if more else ())]
                new = {plan.id: plan for plan in plans if plan.id not in missing and plan.finished() is None}
                missing.update(new)
                bar.total += sum(plan.config.train.epochs for plan in new.values())
                bar.set_description(_runs(len(missing)))
                return [*new.values()]

            def fail(plan: Plan, error: Exception) -> None:
                errors[plan.id] = error
                if failed is not None:
                    failed(plan.config, error)

            movable = [plan for plan in missing.values() if not only_here(plan.config)]
            workers = workers or _workers([plan.config for plan in missing.values()])
            workers = workers if more and movable else min(workers, len(movable))
            if executor is not None and movable:
                on_executor(movable, executor, bar, each, report, added, fail)
            elif workers > 1:
                with LocalProcesses(workers) as processes:
                    on_executor(movable, processes, bar, each, report, added, fail)
            rest = [*missing.values()]
            for plan in rest:  # loads what was finished elsewhere, trains or continues the others
                if plan.id in errors:  # another process tried
                    continue
                if (run := plan.finished()) is None:
                    try:
                        run = _train_in_this_process(plan, bar, report)
                    except Exception as error:
                        fail(plan, error)
                    else:
                        each(run)
                    rest += added()
                if run is not None:
                    runs[plan.id] = run
            bar.update(bar.total - bar.n)
        if errors and failed is None:
            raise next(iter(errors.values()))
    return [runs[plan.id] for plan in plans if plan.id in runs]


def _train_in_this_process(plan: Plan, bar, report: Report) -> TrainedRun:
    """Train a run in this process and move the bar along."""
    before, tell = bar.n, report_of(plan.id, report)

    def shown(event: dict) -> None:
        bar.n = before + event["epoch"] + (1 if event.get("epoch_done") else 0)
        bar.set_postfix_str(f"{plan.config.method} loss {event.get('loss', float('nan')):.3f}", refresh=False)
        bar.update(0)
        tell(event)

    run = produce(plan, shown)
    bar.n = before + plan.config.train.epochs
    bar.refresh()
    return run


def _workers(configs: Sequence[RunConfig]) -> int:
    if any(config.device != "cpu" for config in configs):
        return 1
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )  # a container may own fewer
    return max(1, cores // max(config.train.threads for config in configs))


def _runs(n: int) -> str:
    return f"{n} run{'s' * (n != 1)}"
