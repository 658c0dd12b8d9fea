"""A module of a user's own, written for one test."""

import importlib
import sys

import pytest


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a module of one's own, to be imported as a new process would; the address of its SPEC."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = set()

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        names.add(name)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return f"{name}:SPEC"

    yield write
    for name in names:
        sys.modules.pop(name, None)
