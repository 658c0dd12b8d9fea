"""What is installed: pyproject.toml gives ranges, constraints.txt exact versions, environment.yml follows; and what a
wheel does alone."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

import pytest
import wheel_proof
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from tiny import tiny_config

import xmr_core
import xmr_study as study
from xmr_core.training.runs import train_or_load
from xmr_study.cli import main

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("xmr_core", "xmr_study")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())


def by_name(lines) -> dict[str, Requirement]:
    return {canonicalize_name(r.name): r for r in map(Requirement, lines)}


EXTRAS = {name: by_name(lines) for name, lines in PROJECT["optional-dependencies"].items()}
CORE = by_name(PROJECT["dependencies"])
RANGES = CORE | {name: r for lines in EXTRAS.values() for name, r in lines.items() if name != PROJECT["name"]}
LINES = (ROOT / "constraints.txt").read_text().splitlines()
PINS = {canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in LINES)}
CONDA_RANGES = by_name(d for d in CONDA["dependencies"] if isinstance(d, str))
CONDA_RANGES["torch"] = CONDA_RANGES.pop("pytorch")  # as conda calls it


def disagreements(project: dict, conda: dict, pinned: dict) -> list[str]:
    """Every way in which the three files contradict each other."""
    out = [f"{name}: not pinned in constraints.txt" for name in project if name not in pinned]
    for ranges in (project, conda):
        known = [(n, r) for n, r in ranges.items() if n in pinned]
        out += [f"{n}: {pinned[n]} is outside {r}" for n, r in known if pinned[n] not in r.specifier]
    for name, requirement in conda.items():
        if name not in ("python", "pip") and (name not in project or project[name].specifier != requirement.specifier):
            out.append(f"{name}: environment.yml says {requirement.specifier}, pyproject.toml {project.get(name)}")
    return out


def test_the_description_of_the_wheel_needs_no_file_beside_it(monkeypatch):
    setup = {}
    monkeypatch.setattr("setuptools.setup", lambda **arguments: setup.update(arguments))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    links = re.findall(r"\]\(([^)]*)\)", setup["long_description"])
    assert all(link.startswith("https://") for link in links) and "## Use it from Python" in setup["long_description"]


def test_the_three_files_agree():
    assert not disagreements(RANGES, CONDA_RANGES, PINS)
    assert len(disagreements(RANGES, CONDA_RANGES, {**PINS, "numpy": Version("1.0")})) == 2
    assert not set(CORE) - set(CONDA_RANGES) - {"jaxtyping"}, "pip would install these over conda's"
    assert CONDA_RANGES["python"].specifier == SpecifierSet(PROJECT["requires-python"])


def test_the_core_needs_no_notebook():
    assert not set(CORE) & set(EXTRAS["notebooks"]), "the extra `notebooks` is not the core's"
    outside = {"test", "ann", "mteb", "tensorboard"}
    assert EXTRAS["test"]["xmr-study"].extras == set(EXTRAS) - outside, "make setup installs the entire study"


def test_constraints_are_exact_closed_and_install_on_the_oldest_python_promised():
    """Whatever an installed pinned package needs is pinned too, so that two machines get the same versions. A pin that
    wants 3.11.5 leaves pip of a machine with 3.11.2 searching for minutes before it fails."""
    assert not [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)]
    assert sorted(set(LINES), key=str.lower) == LINES and len(PINS) == len(LINES)
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    loose, too_new, seen = set(), set(), 0
    for name, version in PINS.items():
        try:
            about = metadata(name)
        except PackageNotFoundError:  # of another platform
            continue
        if Version(about["Version"]).public != str(version):
            continue  # another version may need other packages
        seen += 1
        if not SpecifierSet(about.get("Requires-Python") or "").contains(oldest):
            too_new.add(name)
        for r in map(Requirement, requires(name) or []):
            wanted = r.marker is None or r.marker.evaluate({"extra": ""})
            if wanted and canonicalize_name(r.name) not in PINS and not r.name.startswith(("nvidia", "triton", "cuda")):
                loose.add(f"{r.name} (for {name})")
    assert seen > 100 and not loose and not too_new


def test_every_version_is_the_same_and_every_folder_is_packed():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"] == xmr_core.__version__
    assert (
        citation["license"] == PROJECT["license"] and f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()
    )
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {d for hook in hooks for d in hook["additional_dependencies"]} == {f"ruff=={PINS['ruff']}"}
    for package in PACKAGES:
        folders = {path.parent for path in (ROOT / package).rglob("*.py")}
        assert all((folder / "__init__.py").exists() for folder in folders) and (ROOT / package / "py.typed").exists()
    for name in ("pyproject.toml", "constraints.txt", "environment.yml", "Makefile"):
        assert not re.search(r"https?://|file:|find-links|/home/|/root/", (ROOT / name).read_text()), name


BLOCKED = "import sys\nsys.modules.update(dict.fromkeys({names!r}))\n"  # None: not installed
STUDY_ONLY = {  # import names of what the extra `notebooks` installs, and of what these bring
    "IPython", "ipykernel", "ipywidgets", "jupyter_client", "jupyter_core", "jupyterlab", "matplotlib", "nbclient",
    "nbformat", "papermill", "seaborn", "sklearn", "traitlets", "yaml", "zmq",
}  # fmt: skip
SEARCHED = """
from tiny import tiny_config
from xmr_core.retrieval import index_split
from xmr_core.training.runs import train_or_load
index_split(train_or_load(tiny_config("vse++", epochs=1)), "index")
"""
SEARCH = "from xmr_core.cli import main\nassert main(['search', 'index', 'a red circle', '-k', '2']) == 0"
SHAPES = """
from xmr_core.base.machine import only_shapes
from xmr_core.methods import Inputs
from xmr_core.methods.registry import build, methods
with only_shapes():
    for name in methods():
        made = build(name, Inputs(image_width=16, cells=4, vocabulary=20)).state_dict()
        assert all(t.device.type == "meta" for t in made.values())
"""


def python(code: str, blocked=(), cwd: Path = ROOT):
    """A process of its own that runs code, in which some packages are not installed."""
    code = BLOCKED.format(names=set(blocked)) + code if blocked else code
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), "XMR_HOME": str(cwd)}
    words = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(words, capture_output=True, text=True, env=environment, cwd=cwd)


@pytest.fixture(scope="module")
def searchable(tmp_path_factory) -> Path:
    """A folder with an index, made where the study's packages are not installed, and searched in once."""
    home = tmp_path_factory.mktemp("searchable")
    for code in (SEARCHED, SEARCH):
        done = python(code, blocked=STUDY_ONLY | {"faiss"}, cwd=home)
        assert done.returncode == 0, done.stderr
    return home


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import xmr_core", {"torch", "numpy", "pandas", "scipy", "transformers"}),
        ("import contextlib, xmr_core.cli as c\nwith contextlib.suppress(SystemExit): c.main(['--help'])", {"torch"}),
        ("import xmr_core as xmr; xmr.load, xmr.retrieval.open_index, xmr.train_or_load", {"transformers", "faiss"}),
        (SEARCH, {"transformers", "faiss", "sympy"}),
        (SHAPES, {"transformers", "sympy"}),  # sympy comes with torch's compiler, and takes as long as a search does
    ],
)
def test_nothing_is_loaded_that_is_not_used(code, absent, searchable):
    code += "\nimport sys\nprint('LOADED', *{name.partition('.')[0] for name in sys.modules})"
    done = python(code, cwd=searchable)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.rpartition("LOADED")[2].split())
    assert "xmr_core" in loaded and not loaded & (absent | STUDY_ONLY)


MISSING = """
import xmr_core as xmr, xmr_study.running as running
for call in (lambda: running.given_parameters({}, [], []), xmr.retrieval.faiss_library):
    try:
        call()
    except xmr.base.errors.BadInput as e:
        print(e)
"""


@pytest.mark.slow
def test_a_missing_extra_is_one_line_that_says_what_to_install():
    done = python(MISSING, blocked=STUDY_ONLY | {"faiss"})
    first, second = done.stdout.strip().splitlines()
    assert "xmr-study[notebooks]" in first and "xmr-study[search]" in second


def test_notebooks_are_copied_and_never_replaced(tmp_path):
    names = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.ipynb").write_text("changed")
    assert main(["notebooks", str(tmp_path / "mine")]) == 0
    assert {path.name for path in (tmp_path / "mine").iterdir()} == names
    assert (tmp_path / "mine" / "train.ipynb").read_text() == "changed"
    assert main(["notebooks", str(tmp_path / "mine" / "train.ipynb")]) == 2


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The unpacked wheel. It is built from the unpacked sdist of a copy, so that this holds everything it needs."""
    pytest.importorskip("setuptools", minversion="77")
    base = tmp_path_factory.mktemp("distributions")
    parts = {*PACKAGES, "notebooks", "reports", "tests", *(p.name for p in ROOT.iterdir() if p.is_file())}

    def skipped(folder: str, names: list[str]) -> set[str]:
        left_out = set(names) - parts if Path(folder) == ROOT else set()
        return left_out | {"__pycache__", "golden_cases"} & set(names)

    shutil.copytree(ROOT, base / "copy", ignore=skipped)
    build = "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"

    def built(what: str, folder: Path) -> Path:
        words = [sys.executable, "-c", build, f"build_{what}", str(base)]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return base / done.stdout.split()[-1]

    with tarfile.open(built("sdist", base / "copy")) as archive:
        archive.extractall(base / "unpacked", filter="data")
    (unpacked,) = (base / "unpacked").iterdir()
    for name in ("README.md", "LICENSE", "CITATION.cff", "constraints.txt", "tests/tiny.py"):
        assert (unpacked / name).is_file(), name
    with zipfile.ZipFile(built("wheel", unpacked)) as archive:
        archive.extractall(base / "installed")
    return base / "installed"


def with_wheel(installed: Path, cwd: Path, *words: str) -> str:
    """What a Python says that has nothing but the wheel on its path."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_holds_both_packages_the_notebooks_and_the_study(installed, tmp_path):
    assert {p.name for p in installed.iterdir()} == {*PACKAGES, f"xmr_study-{PROJECT['version']}.dist-info"}
    sources = [p.relative_to(ROOT) for package in PACKAGES for p in (ROOT / package).rglob("*.py")]
    assert not [path for path in sources if not (installed / path).is_file()]
    counted = "import xmr_study as s; print(len(s.results()), len(s.tidy.study_rows()), len(s.ledger()))"
    said = f"{len(study.results())} {len(study.tidy.study_rows())} {len(study.ledger())}\n"
    assert with_wheel(installed, tmp_path, "-c", counted) == said
    with_wheel(installed, tmp_path, "-m", "xmr_study", "notebooks", "mine")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert (tmp_path / "mine" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_a_wheel_needs_neither_checkout_nor_run(installed, tmp_path, shared_home, monkeypatch):
    """Five lines give the run's scores, and an index answers, with nothing but the wheel and a folder on the path."""
    monkeypatch.setenv("XMR_HOME", str(shared_home))
    folder = wheel_proof.written(train_or_load(tiny_config("dive", epochs=1)), tmp_path / "proof")
    shutil.copy(wheel_proof.__file__, tmp_path / "wheel_proof.py")
    said = with_wheel(installed, tmp_path, "wheel_proof.py", str(folder))
    assert json.loads(said)["package"] == str(installed / "xmr_core")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_help_lists_every_target():
    # a make that runs these tests must not lend this one its own flags
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, env=clean)
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert done.returncode == 0 and sorted(re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.M)) == sorted(phony)
