"""`make check` runs the tests without the mark `slow`. What is slow by its nature is refused without that mark:
a training, another interpreter (so every notebook, kernel and browser too), a process made by multiprocessing."""

import functools
import multiprocessing.process
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

INTERPRETERS = ("python", "node")  # node drives the browser
DEEDS: list[str] = []  # of the test that runs now


@functools.cache
def watch() -> None:
    """Note from now on what takes long by its nature. Call it when the tests have been imported, torch with them."""
    sys.addaudithook(_note_event)
    _note_calls(multiprocessing.process.BaseProcess, "start", "starts a process")
    if "torch" in sys.modules:
        _note_calls(sys.modules["torch"].optim.Optimizer, "__init__", "makes an optimiser, so it trains")


def _note_event(event: str, details: tuple) -> None:
    if event == "subprocess.Popen" and Path(os.fsdecode(details[0])).name.startswith(INTERPRETERS):
        DEEDS.append(f"starts {os.fsdecode(details[0])}")


def _note_calls(owner: type, name: str, deed: str) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def noted(*args, **kwargs):
        DEEDS.append(deed)
        return original(*args, **kwargs)

    setattr(owner, name, noted)


@contextmanager
def checked(item: pytest.Item) -> Iterator[None]:
    """Around the set-up or the call of a test: it must be marked slow if it did what takes long by its nature."""
    DEEDS.clear()
    yield
    if DEEDS and item.get_closest_marker("slow") is None:
        pytest.fail(f"{item.name} {DEEDS[0]}: mark it with @pytest.mark.slow, so that make check leaves it out.")
