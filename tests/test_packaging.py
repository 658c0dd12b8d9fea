"""One truth about what is installed: pyproject.toml gives ranges, constraints.txt exact versions, environment.yml
follows.
"""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PYPI_NAME = {"pytorch": "torch"}  # what conda calls otherwise
NAMED = {  # what the study was asked to be built on
    "torch", "jupyterlab", "papermill", "matplotlib", "seaborn", "scikit-learn", "pandas", "transformers", "ipywidgets",
    "nbval",
}  # fmt: skip

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())


def by_name(lines) -> dict[str, Requirement]:
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(r.name): r for r in requirements}


def pins() -> dict[str, Version]:
    return {canonicalize_name(name): Version(v) for name, v in (line.split("==") for line in CONSTRAINTS.splitlines())}


def project_ranges() -> dict[str, Requirement]:
    extras = [
        line
        for lines in PROJECT["optional-dependencies"].values()
        for line in lines
        if not line.startswith(PROJECT["name"])
    ]
    return by_name([*PROJECT["dependencies"], *extras])


def conda_ranges() -> dict[str, Requirement]:
    found = by_name(d for d in CONDA["dependencies"] if isinstance(d, str))
    return {PYPI_NAME.get(name, name): requirement for name, requirement in found.items()}


def disagreements(project: dict, conda: dict, pinned: dict) -> list[str]:
    """Every way in which the three files contradict each other."""
    out = [f"{name}: not pinned in constraints.txt" for name in project if name not in pinned]
    for where, ranges in (("pyproject.toml", project), ("environment.yml", conda)):
        out += [
            f"{n}: {pinned[n]} is outside {where} ({r})"
            for n, r in ranges.items()
            if n in pinned and pinned[n] not in r.specifier
        ]
    for name, requirement in conda.items():
        if name not in ("python", "pip") and (name not in project or project[name].specifier != requirement.specifier):
            out.append(f"{name}: environment.yml says {requirement.specifier}, pyproject.toml {project.get(name)}")
    return out


def test_the_three_files_agree():
    assert not disagreements(project_ranges(), conda_ranges(), pins())


def test_a_disagreement_is_found():
    project, conda, pinned = project_ranges(), conda_ranges(), pins()
    assert disagreements({**project, "new": Requirement("new>=1")}, conda, pinned) == [
        "new: not pinned in constraints.txt"
    ]
    assert len(disagreements(project, conda, {**pinned, "numpy": Version("1.0")})) == 2
    assert len(disagreements(project, {**conda, "numpy": Requirement("numpy>=1.0")}, pinned)) == 1


def test_everything_asked_for_is_there():
    assert set(project_ranges()) >= NAMED and set(conda_ranges()) >= NAMED and set(pins()) >= NAMED
    missing = set(by_name(PROJECT["dependencies"])) - set(conda_ranges()) - {"jaxtyping"}
    assert not missing, "pip would install these over conda's"
    assert conda_ranges()["python"].specifier == Requirement(f"python{PROJECT['requires-python']}").specifier
    assert [d["pip"] for d in CONDA["dependencies"] if isinstance(d, dict)] == [["-e .[test]"]]


def test_constraints_are_exact_public_and_sorted():
    lines = CONSTRAINTS.splitlines()
    assert not [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)]
    assert lines == sorted(set(lines), key=str.lower) and len(pins()) == len(lines)


def too_new(requires_python: dict[str, str | None], oldest: str) -> list[str]:
    """Packages whose pinned version refuses the oldest Python that the project promises to run on."""
    return sorted(
        name for name, wanted in requires_python.items() if wanted and not SpecifierSet(wanted).contains(oldest)
    )


def test_every_pin_installs_on_the_oldest_python_promised():
    """A pin that wants 3.11.5 leaves pip of a machine with 3.11.2 searching for minutes before it fails."""
    from importlib.metadata import PackageNotFoundError, metadata

    oldest = re.fullmatch(r">=(3\.\d+)", PROJECT["requires-python"])[1] + ".0"
    found = {}
    for name, version in pins().items():
        try:
            about = metadata(name)
        except PackageNotFoundError:  # of another platform
            continue
        if Version(about["Version"]).public == str(version):
            found[name] = about.get("Requires-Python")
    assert len(found) > 100 and not too_new(found, oldest)
    assert too_new({"new": ">=3.11.5", "fine": ">=3.11", "silent": None}, oldest) == ["new"]


def test_constraints_are_closed():
    """Whatever an installed pinned package needs is pinned too, so that two machines get the same versions."""
    from importlib.metadata import PackageNotFoundError, requires

    loose = set()
    for name in pins():
        try:
            needed = [Requirement(r) for r in requires(name) or []]
        except PackageNotFoundError:
            continue
        for r in needed:
            wanted = r.marker is None or r.marker.evaluate({"extra": ""})
            if (
                wanted
                and canonicalize_name(r.name) not in pins()
                and not r.name.startswith(("nvidia", "triton", "cuda"))
            ):
                loose.add(f"{r.name} (for {name})")
    assert not loose


def test_package_and_entry_point():
    import xmr_core
    from xmr_core.ui.cli import main

    assert (
        PROJECT["version"] == xmr_core.__version__
        and callable(main)
        and PROJECT["scripts"] == {"xmr": "xmr_core.ui.cli:main"}
    )
    for name in ("README.md", "LICENSE"):
        assert (ROOT / name).stat().st_size > 500
    no_init = [p.parent for p in (ROOT / "xmr_core").rglob("*.py") if not (p.parent / "__init__.py").exists()]
    assert not no_init, "setuptools would leave these folders out of a wheel"


def test_no_file_names_a_host_or_a_machine_path():
    for name in ("pyproject.toml", "constraints.txt", "environment.yml", "Makefile"):
        text = (ROOT / name).read_text()
        assert not re.search(r"https?://|file:|find-links|/home/|/root/", text), name


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
class TestMake:
    def make(self, *words: str, cwd: Path = ROOT):
        # a make that runs these tests must not lend them its own flags
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
        return subprocess.run(["make", *words], cwd=cwd, capture_output=True, text=True, env=clean)

    def test_help_lists_every_target(self):
        done = self.make("help")
        phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
        listed = re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.M)
        assert done.returncode == 0 and sorted(listed) == sorted(phony)
        assert self.make().stdout == done.stdout, "plain make is make help"

    def test_ci_calls_make_test(self):
        script = ROOT / ".ci" / "run"
        assert os.access(script, os.X_OK) and "make test" in script.read_text()

    @pytest.mark.parametrize(
        ("python", "message"),
        [("./old", "Python 3.11 or newer is needed, but ./old is Python 3.9.1"), ("absent", "absent not found")],
    )
    def test_an_unfit_python_is_refused_in_one_line(self, tmp_path, python, message):
        place = tmp_path / "a folder with spaces"
        place.mkdir()
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, place)
        (place / "old").write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.9.1\nexit 1\n')
        (place / "old").chmod(0o755)
        done = self.make("test", f"PYTHON={python}", cwd=place)
        assert done.returncode and f"error: {message}" in done.stderr and "make PYTHON=python3.11 test" in done.stderr
        assert not (place / ".venv").exists()
