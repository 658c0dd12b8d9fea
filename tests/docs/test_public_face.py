"""What a user finds: catalogues that complete, names that resolve, and examples on all public functions that run."""

import ast
import contextlib
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
from pages import python_blocks

import xmr_core
import xmr_study

MODULES = [m for p in (xmr_core, xmr_study) for m in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]
PACKAGES = ["xmr_core", "xmr_study", *(m.name for m in MODULES if m.ispkg)]


def catalogue(package: str) -> list[str]:
    return list(getattr(importlib.import_module(package), "__all__", []))


def public() -> dict[str, object]:
    """Every function that the catalogues for users show: 'xmr_core.losses.hinge_triplet' → it, each once."""
    values: dict[int, tuple[str, object]] = {}
    for package in FOR_USERS:
        for name in catalogue(package):
            value = getattr(importlib.import_module(package), name)
            if inspect.isfunction(value):
                values.setdefault(id(value), (f"{package}.{name}", value))
    return dict(values.values())


def used_in_documents() -> set[str]:
    """Words in the Python blocks of docs/, which tests/docs/test_docs.py runs."""
    pages = (Path(__file__).resolve().parents[2] / "docs").rglob("*.md")
    return {word for page in pages for block in python_blocks(page.read_text()) for word in re.findall(r"\w+", block)}


# what a user reaches by `xmr.<stage>`; the rooms below serve these, and notebooks, plots and benchmarks
SERVING = ("xmr_core.base", "xmr_core.features")
FOR_USERS = [p for p in PACKAGES if p.startswith("xmr_core") and p.count(".") <= 1 and p not in SERVING]
FOR_USERS.append("xmr_core.training.runs")
PUBLIC = public()
IN_DOCUMENTS = used_in_documents()


def test_the_root_completes_to_what_a_user_needs():
    names = set(dir(xmr_core))
    wanted = {"load", "train_or_load", "train_or_load_all", "base_config", "evaluate", "rank_metrics", "from_arrays"}
    assert wanted <= names
    with pytest.raises(AttributeError):
        xmr_core.trian_or_load  # noqa: B018


@pytest.mark.parametrize("package", [p for p in FOR_USERS if p != "xmr_core"])
def test_every_stage_has_a_catalogue_whose_names_resolve(package):
    names = catalogue(package)
    assert names, f"{package} shows nothing"
    assert set(names) <= set(dir(importlib.import_module(package)))
    assert all(hasattr(importlib.import_module(package), name) for name in names)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_function_is_documented_and_has_an_example_that_runs(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert text, f"{name} has no docstring"
    assert ">>>" in text or name.rpartition(".")[2] in IN_DOCUMENTS, f"{name} has no example, and none in docs/"


EXAMPLES = [m.name for m in MODULES if not m.name.endswith("__main__")]
TRAINING = ("training", "models", "retrieval", "runs", "explorer")  # their examples train a tiny run


@pytest.mark.parametrize(
    "module",
    [pytest.param(m, marks=[pytest.mark.slow] if m.split(".", 1)[1].startswith(TRAINING) else []) for m in EXAMPLES],
)
def test_examples_run(module, own_home):
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert not doctest.testmod(importlib.import_module(module), optionflags=options).failed


STEMS = {"xmr": ["xmr_core"], "study": ["xmr_study"], "xmr_core": ["xmr_core"], "xmr_study": ["xmr_study"]}
for _module in MODULES:
    STEMS.setdefault(_module.name.rpartition(".")[2], []).append(_module.name)
# of which docstrings speak, besides modules of these names
VARIABLES = {"corpus", "image", "images", "inputs", "model", "scores"}
DOTTED = re.compile(r"(?<![\w./\\-])[a-z_]\w*(?:\.[A-Za-z_]\w*)+")


def resolves(name: str) -> bool:
    first, _, rest = name.partition(".")
    for module in STEMS[first]:
        with contextlib.suppress(ImportError, AttributeError):
            pkgutil.resolve_name(f"{module}.{rest}")
            return True
    return Path(name).suffix in (".py", ".json", ".csv", ".jsonl", ".faiss", ".safetensors")


@pytest.mark.parametrize("module", EXAMPLES)
def test_docstrings_name_what_exists(module):
    nodes = [n for n in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module))))
             if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]  # fmt: skip
    prose = " ".join(re.sub(r"(>>>|\.\.\.) .*", "", ast.get_docstring(node) or "") for node in nodes)
    named = {name for name in DOTTED.findall(prose) if name.partition(".")[0] in STEMS.keys() - VARIABLES}
    assert not [name for name in named if not resolves(name)]
