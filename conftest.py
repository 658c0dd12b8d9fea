"""How tests and notebooks share a machine (one core a worker, the longest files first), and nbval from any folder."""

import os
from collections import Counter
from pathlib import Path

import pytest

MOST_WORKERS = 8  # each of them holds a torch, and so do the kernels and processes that it starts
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def cores() -> list[int]:
    """The cores that this process may use; a container may own fewer than the machine has."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config) -> int:
    return min(MOST_WORKERS, len(cores()))


def pytest_configure(config):
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist: gw0, gw1, …
        keep_to_one_core(int(config.workerinput["workerid"].removeprefix("gw")))
    option = config.option
    if getattr(option, "nbval", False) or getattr(option, "nbval_lax", False):
        sanitize = Path(__file__).parent / "tests" / "nbval_sanitize.cfg"
        option.nbval_sanitize_with = option.nbval_sanitize_with or str(sanitize)
        option.nbval_current_env = not option.nbval_kernel_name
        os.environ.pop("MPLBACKEND", None)  # a backend set for scripts would keep figures out of the notebooks' kernels


def keep_to_one_core(number: int) -> None:
    """Give worker `number` a core of its own. Everything that it starts inherits the core and the one thread.

    Without this, two workers on two cores would each train with two processes, and four would wait for one another.
    """
    os.environ.update(dict.fromkeys(THREADS, "1"))
    if hasattr(os, "sched_setaffinity"):
        own = cores()
        os.sched_setaffinity(0, {own[number % len(own)]})


def pytest_collection_modifyitems(config, items):
    """For several workers: notebooks first, then files with slow tests, those with most of them first, then the rest.

    A file stays on one worker. The longest ones start first, so that no worker is left alone with one at the end.
    """
    if hasattr(config, "workerinput"):
        slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
        items.sort(key=lambda item: (item.path.suffix != ".ipynb", -slow[item.path]))
