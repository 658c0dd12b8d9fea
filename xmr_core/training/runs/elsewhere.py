"""A run in a process that somebody else started: a process of this machine, or a worker of a cluster."""

import os
import socket
import threading
import time
import warnings

from xmr_core.base import files
from xmr_core.base.errors import BadInput
from xmr_core.training.runs.folder import RECORD
from xmr_core.training.runs.produce import Plan, plan_run, produce
from xmr_core.training.runs.reports import EventFile

PROGRESS = "progress"  # a small file in the run's folder: how many epochs are done
_one_at_a_time = threading.Lock()  # threads of one process share torch's random numbers and number of threads


def train_elsewhere(plan: Plan, home: str, ticket: str, reported: bool = False) -> Exception | None:
    """Train or continue a run, and note in its folder how far it is, where the process that asked reads it.

    home: the folder that holds `runs`, under the same path for all workers. ticket: tells this call from any other.
    reported: also leave every event in the EventFile of the ticket.
    Returns: the error of the training. What is raised is therefore always a fault of the worker.
    """
    last, events = 0.0, EventFile(plan.folder, ticket)

    def report(event: dict) -> None:
        nonlocal last
        if event.get("epoch_done") or time.monotonic() - last > 1:
            last = time.monotonic()
            done = event["epoch"] + (1 if event.get("epoch_done") else 0)
            files.write_atomic(plan.folder / PROGRESS, str(done))
        if reported:
            events.add(event)

    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the process that asked repeats a run's messages when it loads it
        os.environ["XMR_HOME"] = home
        try:
            if (own := plan_run(plan.config)).identity != plan.identity:
                different = [name for name in plan.identity if own.identity[name] != plan.identity[name]]
                raise BadInput(
                    f"the worker on {socket.gethostname()} has other {', '.join(different)} than the process that "
                    f"asked for {plan.id}. Give all of them the same files and the same version of this package."
                )
            produce(plan, report)
        except Exception as e:
            return e
    return None


def epochs_done(plan: Plan) -> int:
    """How many epochs of a run are done, as its folder says, whoever trains it."""
    if (plan.folder / RECORD).exists():
        return plan.config.train.epochs
    try:
        return int((plan.folder / PROGRESS).read_text())
    except (OSError, ValueError):
        return 0
