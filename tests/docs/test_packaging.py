"""One truth about what is installed: pyproject.toml gives ranges, constraints.txt exact versions, environment.yml
follows.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import wheel_proof
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from tiny import tiny_config

from xmr_core.training.runs import train_or_load

ROOT = Path(__file__).resolve().parents[2]
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
    assert len(disagreements(project_ranges(), conda_ranges(), {**pins(), "numpy": Version("1.0")})) == 2


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
    from importlib.metadata import PackageNotFoundError, requires, version

    loose = set()
    for name, pinned in pins().items():
        try:
            if Version(Version(version(name)).public) != pinned:
                continue  # another version may need other packages
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
    from xmr_study.cli import main

    assert (
        PROJECT["version"] == xmr_core.__version__
        and callable(main)
        and PROJECT["scripts"] == {"xmr": "xmr_study.cli:main"}
    )
    for name in ("README.md", "LICENSE"):
        assert (ROOT / name).stat().st_size > 500
    no_init = [p.parent for p in (ROOT / "xmr_core").rglob("*.py") if not (p.parent / "__init__.py").exists()]
    assert not no_init, "setuptools would leave these folders out of a wheel"


def test_no_file_names_a_host_or_a_machine_path():
    for name in ("pyproject.toml", "constraints.txt", "environment.yml", "Makefile"):
        text = (ROOT / name).read_text()
        assert not re.search(r"https?://|file:|find-links|/home/|/root/", text), name


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


MADE = """
from xmr_core.base.machine import only_shapes
from xmr_core.methods import Inputs
from xmr_core.methods.registry import build, methods
with only_shapes():
    for name in methods():
        made = build(name, Inputs(image_width=16, cells=4, vocabulary=20)).state_dict()
        assert all(t.device.type == "meta" for t in made.values())
"""


def python(code: str, *arguments: str, blocked=(), home: Path | None = None, cwd: Path | None = None):
    """A process of its own that runs code, in which some packages are not installed."""
    code = BLOCKED.format(names=set(blocked)) + code if blocked else code
    tests = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": tests, "XMR_HOME": str(home or cwd or ROOT)}
    words = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    return subprocess.run(words, capture_output=True, text=True, env=environment, cwd=cwd)


def loaded_by(code: str, **options) -> set[str]:
    """Top-level modules that code leaves in sys.modules."""
    done = python(
        f"{code}\nimport sys\nprint('LOADED', *{{name.partition('.')[0] for name in sys.modules}})", **options
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("LOADED")[2].split())


@pytest.fixture(scope="module")
def searchable(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("searchable")
    done = python(SEARCHED, cwd=home)
    assert done.returncode == 0, done.stderr
    python(COMMAND, "search", "index", "a red circle", cwd=home)  # leaves its notes, as the first search does
    return home


COMMAND = "import sys; from xmr_study.cli import main\nassert main(sys.argv[1:]) == 0"


@pytest.mark.slow
class TestLightCore:
    def test_the_package_and_its_help_load_no_library(self):
        heavy = {"torch", "numpy", "pandas", "scipy", "transformers", *STUDY_ONLY}
        assert not loaded_by("import xmr_core") & heavy
        assert not loaded_by("import xmr_core.cli as c; c._parser(c.PARTS)") & heavy

    def test_similarities_load_torch_and_nothing_beside_it(self):
        loaded = loaded_by("import xmr_core as xmr; xmr.similarities.cosine, xmr.similarities.smooth_chamfer")
        assert "torch" in loaded and not loaded & {"transformers", "PIL", *STUDY_ONLY}

    @pytest.mark.parametrize("names", ["xmr.load", "xmr.retrieval.open_index", "xmr.train_or_load"])
    def test_loading_searching_and_training_need_no_notebook(self, names):
        loaded = loaded_by(f"import xmr_core as xmr\n{names}")
        assert "torch" in loaded and not loaded & {"transformers", "faiss", *STUDY_ONLY}

    def test_a_search_on_the_command_line_loads_only_what_it_uses(self, searchable):
        code = COMMAND.replace("sys.argv[1:]", "['search', 'index', 'a red circle', '-k', '2']")
        loaded = loaded_by(code, cwd=searchable)
        assert "torch" in loaded and not loaded & {"transformers", "scipy", "faiss", "sympy", *STUDY_ONLY}

    def test_reading_a_model_of_any_method_loads_no_compiler(self):
        """sympy comes with torch's compiler, and takes as long as a search does."""
        loaded = loaded_by(MADE)
        assert "torch" in loaded and not loaded & {"sympy", "transformers", *STUDY_ONLY}

    def test_searching_and_training_work_where_the_study_is_not_installed(self, searchable, tmp_path):
        options = {"blocked": STUDY_ONLY | {"faiss"}, "cwd": searchable}
        done = python(COMMAND, "search", "index", "a red circle", "-k", "2", **options)
        assert done.returncode == 0 and done.stdout.count("\n") == 3, done.stderr
        done = python(SEARCHED, blocked=STUDY_ONLY, cwd=tmp_path)
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize(
        ("code", "message"),
        [
            ("xmr_study.plots.ablation", "a figure needs matplotlib: pip install 'xmr-study[notebooks]'."),
            ("xmr_study.explorer.Explorer", "the explorer needs ipywidgets: pip install 'xmr-study[notebooks]'."),
            ("xmr_study.running.given_parameters({}, [], [])", "reading parameters needs yaml"),
            ("xmr.retrieval.faiss_library()", "needs faiss: pip install 'xmr-study[search]'."),
            (
                "import torch\nfrom xmr_core.evaluation.analysis import element_map\n"
                "sets = xmr.EmbeddingSet(torch.randn(4, 4, 3), torch.ones(4, 4, dtype=torch.bool))\n"
                "element_map(sets, sets)",
                "a map by t-SNE needs sklearn: pip install 'xmr-study[notebooks]'.",
            ),
        ],
    )
    def test_a_missing_extra_is_one_line_that_says_what_to_install(self, code, message):
        done = python(f"import xmr_core as xmr\n{code}", blocked=STUDY_ONLY | {"faiss"})
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("xmr_core.base.errors.BadInput: ") and message in last

    def test_the_command_run_says_so_too(self):
        code = "import sys; from xmr_study.cli import main; sys.exit(main(['run', 'notebooks/train.ipynb']))"
        done = python(code, blocked=STUDY_ONLY, cwd=ROOT)
        expected = "error: running a notebook needs papermill: pip install 'xmr-study[notebooks]'.\n"
        assert (done.returncode, done.stderr) == (2, expected)


def test_the_core_needs_no_notebook():
    core, extras = by_name(PROJECT["dependencies"]), PROJECT["optional-dependencies"]
    assert not set(core) & set(by_name(extras["notebooks"])), "the extra `notebooks` is not the core's"
    assert not set(core) & {"jupyterlab", "papermill", "seaborn", "scikit-learn", "matplotlib", "ipywidgets"}
    assert extras["ann"] == ["xmr-study[search]"], "the name that this extra had"
    for name, lines in extras.items():
        for own in (r for r in by_name(lines).values() if r.name == PROJECT["name"]):
            assert own.extras <= set(extras), f"{name} names an extra that is not there"
    with_test = by_name(extras["test"])["xmr-study"].extras
    outside = {"test", "ann", "mteb", "tensorboard"}
    assert with_test == set(extras) - outside, "make setup installs the entire study"


def test_every_version_is_the_same():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"] and citation["license"] == PROJECT["license"]
    assert citation["cff-version"] == "1.2.0" and citation["authors"] and citation["message"]
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {d for hook in hooks for d in hook["additional_dependencies"]} == {f"ruff=={pins()['ruff']}"}
    assert (ROOT / "xmr_core" / "py.typed").exists() and "Typing :: Typed" in PROJECT["classifiers"]


def test_version_is_said(capsys):
    import xmr_core
    from xmr_study.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"xmr-study {xmr_core.__version__}\n"


def test_notebooks_are_copied_and_never_replaced(tmp_path, capsys):
    from xmr_study.cli import main

    names = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.ipynb").write_text("changed")
    assert main(["notebooks", str(tmp_path / "mine")]) == 0
    assert f"{len(names) - 1} notebooks; 1 were there already" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "mine").iterdir()} == names
    assert (tmp_path / "mine" / "train.ipynb").read_text() == "changed"
    assert main(["notebooks", str(tmp_path / "mine" / "train.ipynb")]) == 2


@pytest.fixture(scope="module")
def distributions(tmp_path_factory) -> tuple[Path, Path]:
    """(the unpacked sdist, the unpacked wheel). Both are built from a copy; the wheel from the unpacked sdist, so that
    this holds everything the wheel needs."""
    pytest.importorskip("setuptools", minversion="77")
    tmp_path = tmp_path_factory.mktemp("distributions")
    copy = tmp_path / "copy"
    parts = {"xmr_core", "notebooks", "tests", *(p.name for p in ROOT.iterdir() if p.is_file())}

    def skipped(folder: str, names: list[str]) -> set[str]:
        left_out = set(names) - parts if Path(folder) == ROOT else set()
        return left_out | {"__pycache__", "golden_cases"} & set(names)

    shutil.copytree(ROOT, copy, ignore=skipped)
    build = "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"

    def built(what: str, folder: Path) -> Path:
        words = [sys.executable, "-c", build, f"build_{what}", str(tmp_path)]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return tmp_path / done.stdout.split()[-1]

    source = built("sdist", copy)
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    wheel = built("wheel", unpacked)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    return unpacked, tmp_path / "installed"


@pytest.mark.slow
def test_the_wheel_and_the_sdist_hold_what_they_should(distributions, tmp_path):
    unpacked, installed = distributions
    for name in ("README.md", "LICENSE", "CITATION.cff", "constraints.txt", "tests/tiny.py", "notebooks/train.ipynb"):
        assert (unpacked / name).is_file(), name
    sources = {p.relative_to(ROOT) for p in (ROOT / "xmr_core").rglob("*.py")}
    assert not [path for path in sources if not (installed / path).is_file()]
    assert (installed / "xmr_core" / "py.typed").exists()
    assert {p.name for p in installed.iterdir()} == {"xmr_core", f"xmr_study-{PROJECT['version']}.dist-info"}
    done = subprocess.run(
        [sys.executable, "-m", "xmr_study", "notebooks", "mine"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert (tmp_path / "mine" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_a_wheel_needs_neither_checkout_nor_run(distributions, tmp_path, shared_home, monkeypatch):
    """Five lines give the run's scores, and an index answers, with nothing but the wheel and a folder on the path."""
    monkeypatch.setenv("XMR_HOME", str(shared_home))
    folder = wheel_proof.written(train_or_load(tiny_config("dive")), tmp_path / "proof")
    shutil.copy(wheel_proof.__file__, tmp_path / "wheel_proof.py")
    done = subprocess.run(
        [sys.executable, "wheel_proof.py", str(folder)], cwd=tmp_path, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(distributions[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["package"] == str(distributions[1] / "xmr_core")


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

    def test_lab_opens_copies_that_git_ignores(self):
        done = self.make("-n", "lab", "PYTHON=" + sys.executable)
        *_, copied, opened = [line for line in done.stdout.splitlines() if " lab" in line]
        assert copied.endswith("-m xmr_study notebooks lab") and opened.endswith("-m jupyterlab lab")
        if shutil.which("git") and (ROOT / ".git").exists():
            ignored = subprocess.run(["git", "check-ignore", "-q", "lab/train.ipynb"], cwd=ROOT).returncode
            tracked = subprocess.run(["git", "check-ignore", "-q", "notebooks/train.ipynb"], cwd=ROOT).returncode
            assert (ignored, tracked) == (0, 1)

    def test_ci_calls_make_test(self):
        script = ROOT / ".ci" / "run"
        assert os.access(script, os.X_OK) and "make test" in script.read_text()
        assert "run: .ci/run" in (ROOT / ".github" / "workflows" / "tests.yml").read_text()

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
