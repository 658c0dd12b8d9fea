"""Two promises that are checked after each test, and the runs that tests share.

A golden case is compared completely, or the list of what is not says why. A test without the mark `slow` is fast.
"""

import sys
from pathlib import Path

import fast_tests
import pytest


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory, request) -> Path:
    """A folder to be `$XMR_HOME` for runs that are only read: the first test that needs a run trains it for all
    workers.

    A test that uses it is marked slow, because it may be the one that trains. A run is named after its content and
    locked while it is made, so any number of files and workers may ask for it at once.
    """
    base = tmp_path_factory.getbasetemp()
    return (base.parent if hasattr(request.config, "workerinput") else base) / "shared_home"


@pytest.fixture
def own_home(tmp_path, monkeypatch) -> Path:
    """A home of this test alone, empty at its beginning. A whole module asks for it by pytestmark."""
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def module_home(tmp_path_factory):
    """As own_home, for all tests of a module: they share what the first of them makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def pytest_collection_modifyitems(items):
    fast_tests.watch()
    for item in items:
        if "shared_home" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def golden_device(request, monkeypatch):
    """Tests of golden cases make their modules and tensors on the device of golden.DEVICE, with products of float32."""
    golden = sys.modules.get("golden")
    if golden is None or golden.DEVICE == "cpu" or not request.path.name.startswith("test_golden"):
        yield
        return
    import torch

    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    with torch.device(golden.DEVICE):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with fast_tests.checked(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with fast_tests.checked(item):
        golden = sys.modules.get("golden")  # a module without golden cases does not pay for reading them
        if golden is None:
            return (yield)
        golden.OPENED.clear()
        result = yield
        faults = [fault for case in golden.OPENED for fault in golden.faults_of_reading(case)]
        assert not faults, "; ".join(faults)
        return result
