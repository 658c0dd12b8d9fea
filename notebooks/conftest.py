"""Warnings on stderr are not results: nbval compares all else (the list is read when notebooks are collected)."""


def pytest_collectstart(collector):
    if hasattr(collector, "skip_compare"):
        collector.skip_compare = (*collector.skip_compare, "stderr")
