"""Warnings on stderr are not results: nbval compares everything else (the list is read when a notebook is collected)."""


def pytest_collectstart(collector):
    if hasattr(collector, "skip_compare"):
        collector.skip_compare = (*collector.skip_compare, "stderr")
