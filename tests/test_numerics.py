"""The version of the numerics: changed by code that a run reaches, by nothing else."""

import shutil
from pathlib import Path

import pytest

from xmr_core.base import numerics
from xmr_core.methods.registry import RECIPES


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A copy of the package that can be changed."""
    copy = tmp_path / "xmr_core"
    shutil.copytree(numerics._PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(numerics, "_PACKAGE", copy)
    numerics.numerics_version.cache_clear()
    yield copy
    numerics.numerics_version.cache_clear()


def versions() -> dict[str, str]:
    numerics.numerics_version.cache_clear()
    return {
        f"{name} {data}": numerics.numerics_version(recipe, data) for name, recipe in RECIPES.items() for data in ("scenes", "flickr8k")
    }


def changed_by(package: Path, file: str, old: str, new: str) -> set[str]:
    before, text = versions(), (package / file).read_text()
    assert old in text
    (package / file).write_text(text.replace(old, new, 1))
    return {key for key, version in versions().items() if version != before[key]}


def test_a_copy_elsewhere_has_the_same_versions(package):
    here = versions()
    assert len(set(here.values())) == len(here), "every recipe and data set reaches code of its own"
    package.rename(package.with_name("elsewhere"))
    shutil.copytree(package.with_name("elsewhere"), package)
    assert versions() == here


@pytest.mark.parametrize(
    ("file", "old", "new", "who"),
    [
        ("similarities/scan.py", "0.1", "0.2", ("scan",)),
        ("similarities/attend.py", "1e-8", "1e-7", ("scan", "sgraf")),
        ("losses/soft_contrastive.py", "return", "return 2 *", ("pcme",)),
        ("data/flickr8k.py", "import", "import os\nimport", ("flickr8k",)),
        ("masked.py", "clamp(min=1)", "clamp(min=2)", ("",)),
        ("train/schedule.py", "return", "return 2 *", ("",)),
        ("recipe_parts.py", "word_dim: int = 64", "word_dim: int = 65", ("",)),
        ("errors.py", "class", "X = 1\n\n\nclass", ()),
        ("plots/sweeps.py", "import", "import os\nimport", ()),
        ("masked.py", "a real element", "an element that is real", ()),
    ],
)
def test_who_is_touched_by_a_change(package, file, old, new, who):
    assert changed_by(package, file, old, new) == {key for key in versions() if any(word in key for word in who)}


def test_a_new_file_touches_nobody_and_words_do_not_count(package):
    before = versions()
    (package / "similarities" / "new.py").write_text("def new(images, captions):\n    return 0")
    (package / "masked.py").write_text("# so\n" + (package / "masked.py").read_text())
    assert versions() == before


def test_a_recipe_from_outside_counts_with_its_file(tmp_path, monkeypatch):
    def version(text: str) -> str:
        (tmp_path / "toy_recipe.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        scope: dict = {}
        exec(compile(text, str(tmp_path / "toy_recipe.py"), "exec"), scope)
        return numerics.numerics_version(scope["toy"], "scenes")

    first = version("from xmr_core.heads import gpo\n\n\ndef toy(inputs):\n    return 1")
    assert first == version("from xmr_core.heads import gpo\n\n\ndef toy(inputs):\n    'says'\n    return 1")
    assert first != version("from xmr_core.heads import gpo\n\n\ndef toy(inputs):\n    return 2")
    assert first != version("def toy(inputs):\n    return 1")
