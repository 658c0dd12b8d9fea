"""What a run says of the code that made it."""

import subprocess

import pytest

from xmr_core.base import machine


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout with a package and a reports folder, in place of ours."""
    for name in ("pkg/base/code.py", "reports/results.csv"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("1\n")
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "pkg" / "base" / "code.py"))
    return tmp_path


def test_changed_code_is_told_and_changed_results_are_not(checkout):
    commit = machine.commit.__wrapped__
    assert len(commit()[0]) == 12 and commit()[1] is False
    (checkout / "new.py").write_text("untracked\n")
    (checkout / "reports" / "results.csv").write_text("1\n2\n")
    assert commit()[1] is False, "a study that appends its rows has not changed its code"
    (checkout / "pkg" / "base" / "code.py").write_text("2\n")
    assert commit()[1] is True


def test_no_checkout_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "code.py"))
    assert machine.commit.__wrapped__() == ("", False)


def test_the_commit_of_a_repository_that_only_holds_the_installed_package_is_not_ours(checkout, monkeypatch):
    """A package in an environment inside a user's repository, as `.venv` in most projects."""
    place = checkout / ".venv" / "site-packages" / "pkg" / "base"
    place.mkdir(parents=True)
    monkeypatch.setattr(machine, "__file__", str(place / "code.py"))
    assert machine.commit.__wrapped__() == ("", False)
