"""Many runs on an executor, whose workers may be lost."""

import uuid
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait

from xmr_core.base import paths
from xmr_core.base.processes import LocalProcesses
from xmr_core.data.corpora import DATASETS
from xmr_core.methods.registry import is_registered
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.elsewhere import epochs_done, train_elsewhere
from xmr_core.training.runs.produce import Plan
from xmr_core.training.runs.reports import EventFile, Report, silent
from xmr_core.training.runs.run import TrainedRun

ATTEMPTS = 3  # how often a run is given to an executor whose workers are lost, before it is trained in this process


class _TakesNoMore(Exception):
    """An executor that is broken or was shut down."""


def on_executor(
    plans: Sequence[Plan],
    executor: Executor,
    bar,
    each: Callable[[TrainedRun], None],
    report: Report,
    added: Callable[[], Sequence[Plan]],
    fail: Callable[[Plan, Exception], None],
) -> None:
    """Train on an executor. fail: called with every training that ends with an error. Raises: the first error of
    `report`, after all trainings have ended."""
    plans = [*plans]
    failure, lost, home, call = None, "", str(paths.root()), uuid.uuid4().hex
    pending: dict[Future, tuple[Plan, int, EventFile]] = {}

    def submit(plan: Plan, attempt: int) -> None:
        ticket = f"{call}-{attempt}"  # an engine may take equal calls for one call, so each has its own
        try:
            future = executor.submit(train_elsewhere, plan, home, ticket, report is not silent)
        except RuntimeError as e:  # BrokenExecutor, or it was shut down
            raise _TakesNoMore(f"{type(e).__name__}: {e}".splitlines()[0]) from e
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
                    if error is not None:
                        fail(plan, error)
                    elif (run := plan.finished()) is not None:
                        each(run)
                    for new in added() if failure is None else ():
                        if not only_here(new.config):
                            plans.append(new)
                            submit(new, 1)
    except _TakesNoMore as e:
        lost = str(e)
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


def only_here(config: RunConfig) -> bool:
    """Whether a run needs what other processes cannot know."""
    dataset, method = config.data.dataset, config.method
    importable = dataset in DATASETS or ":" in dataset
    in_main = any(name.startswith("__main__:") for name in (dataset, method, config.data.features))
    return bool(config.data.corpus) or not importable or is_registered(method) or in_main
