"""A golden case is compared completely, or the list of what is not says why."""

import golden
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    golden.OPENED.clear()
    result = yield
    faults = [fault for case in golden.OPENED for fault in golden.faults_of_reading(case)]
    assert not faults, "; ".join(faults)
    return result
