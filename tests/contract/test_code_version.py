"""Code counts where it has no version: extractors, readers and methods of a user's own, in files of any name."""

import importlib
import sys
from functools import partial

import numpy as np
import pytest
from own_method import RIGHT
from tiny import tiny_config

from xmr_core.base import fingerprint
from xmr_core.base.fingerprint import own_code_version
from xmr_core.data import corpora, inputs
from xmr_core.features.cache import identity_of
from xmr_core.features.cells import CellDescriptor
from xmr_core.methods import registry
from xmr_core.methods.registry import method_spec
from xmr_core.training.runs.config import code_of, component_versions
from xmr_core.training.runs.train_run import plan_run

preparing = importlib.import_module("xmr_core.data.prepare")  # the package may show the function of that name

EXTRACTOR = """
import numpy as np
from {helper} import scaled
class Brightness:
    identity, shape, dtype, batch, resolution = "brightness", (4, 3), np.float32, 16, 64
    def __call__(self, pixels):
        "Mean colour of four columns."
        return scaled(np.stack(np.split(pixels.astype(np.float32) / 255, 4, 2), 1).mean((2, 3)))
"""
HELPER = "def scaled(x):\n    return {factor} * x\n"
READER = (
    "from xmr_core.data.scenes import load_scenes\n"
    "def read(root):\n    # {words}\n    return load_scenes('tiny', {seed})\n"
)


@pytest.fixture
def imported(written):
    """Write a module and import it."""

    def load(name: str, text: str):
        return importlib.import_module(written(name, text).removesuffix(":SPEC"))

    return load


def test_an_extractor_that_was_changed_by_hand_gives_new_features_and_another_run(imported, own_home, monkeypatch):
    """Its class reaches code of another file of the user."""
    seen = []
    for n, factor in enumerate((1, 100)):
        imported(f"helper{n}", HELPER.format(factor=factor))
        extractor = imported(f"mine{n}", EXTRACTOR.format(helper=f"helper{n}")).Brightness()
        monkeypatch.setattr(inputs, "_plain_extractor", lambda *_, extractor=extractor: extractor)
        preparing._recent.clear()
        plan = plan_run(tiny_config("vse++", reduce=0))
        features = preparing.prepare(plan.config.data).splits["train"].images_at(np.arange(2)).local_feats
        seen.append((identity_of(extractor), plan.id, float(features.mean())))
    preparing._recent.clear()
    assert seen[1][2] == pytest.approx(100 * seen[0][2], rel=1e-3), "features of the old code were taken"
    assert seen[0][0] != seen[1][0] and seen[0][1] != seen[1][1]


def test_an_inherited_version_does_not_speak_for_other_code():
    class Louder(CellDescriptor):
        def __call__(self, pixels):
            return 100 * super().__call__(pixels)

    assert identity_of(CellDescriptor(64)).endswith(f"-v{CellDescriptor.version}")
    assert "-code-" in identity_of(Louder(64)) and identity_of(Louder(64)) != identity_of(CellDescriptor(64))


def test_a_reader_in_any_file_counts_with_its_code(imported, monkeypatch):
    def version(**values):
        module = imported("some_reader", READER.format(**{"seed": 0, "words": "reads", **values}))
        monkeypatch.setitem(corpora.READERS, "holiday", module.read)
        return component_versions("dive", "holiday")["reader"]

    first = version()
    assert version() == first != version(seed=1)
    monkeypatch.setitem(corpora.READERS, "flickr8k", corpora.READERS["holiday"])
    assert component_versions("dive", "flickr8k")["reader"] == version(seed=1), "another function under a known name"
    assert component_versions("dive", "coco")["reader"] == 1


BORROWED = """
from dataclasses import replace
from functools import partial

from xmr_core.methods.registry import method_spec

def mine(inputs, o):
    return method_spec("vse++").published(inputs, o)

vse = method_spec("vse++")
SPEC = replace(vse, id="borrowed", label="B", variants={}, matched=partial(vse.matched), published=mine)
margin=0.1
"""


def test_a_run_counts_with_all_code_of_its_method(written, monkeypatch):
    def version(name, text):
        return component_versions(written(name, text), "scenes")["method"]

    def of_registered(text):  # without an address, so that the file counts by what the spec names alone
        monkeypatch.setattr(registry, "_registered", {"borrowed": method_spec(written("borrowed", text))})
        return component_versions("borrowed", "scenes")["method"]

    swapped = BORROWED.replace("published(inputs", "matched(inputs")
    assert version("borrowed", BORROWED) == version("borrowed", BORROWED) != version("borrowed", swapped)
    assert of_registered(BORROWED) != of_registered(swapped)
    assert version("borrowed", BORROWED) != version("borrowed", BORROWED.replace("margin=0.1", "margin=0.2"))
    written("far_builder", "def build(inputs, o, loss):\n    return loss\n")
    partly = RIGHT.replace("SPEC = ", "from functools import partial\n\nimport far_builder\n\nSPEC = ")
    partly = partly.replace("Mine, matched,", "Mine, partial(far_builder.build, loss=1),")
    assert version("partly", partly) != version("partly", partly.replace("InfoNCE(0.1)", "InfoNCE(0.2)"))
    assert component_versions("dive", "scenes")["method"] == method_spec("dive").version


def test_a_function_without_a_file_counts_with_what_it_computes():
    first, second, third = {}, {}, {}
    for scope, number in ((first, 1), (second, 2), (third, 1)):
        exec(f"def toy(inputs):\n    return {number}", scope)
    assert own_code_version(first["toy"]) == own_code_version(third["toy"]) != own_code_version(second["toy"])


def test_the_recorded_code_changes_with_every_file(tmp_path, monkeypatch):
    assert code_of("dive", "scenes") == fingerprint.package_hash()
    monkeypatch.setattr(fingerprint, "PACKAGE", tmp_path)
    (tmp_path / "inner").mkdir()
    seen = set()
    for text in ("x = 1", "x = 1  # words count too", "x = 2"):
        (tmp_path / "inner" / "a.py").write_text(text)
        seen.add(fingerprint.package_hash.__wrapped__())
    (tmp_path / "inner" / "b.py").write_text("")
    assert len(seen | {fingerprint.package_hash.__wrapped__()}) == 4


def versions_of(text: str, name: str, *values) -> list[str]:
    """Versions of what `name` is in the main program, for several values of VALUE there."""
    space = sys.modules["__main__"].__dict__
    out = []
    for value in values:
        space["VALUE"] = value
        exec(text, space)
        out.append(own_code_version(space.pop(name)))
    space.pop("VALUE")
    return out


@pytest.mark.parametrize(
    ("one", "two"),
    [([1.0, 2.0], [1.0, 9.0]), ({"a": 1}, {"a": 2}), (np.zeros(3), np.ones(3)), ((1, [2]), (1, [3])), ({1}, {2})],
)
def test_a_value_that_a_function_of_a_notebook_reads_is_part_of_its_version(one, two, monkeypatch):
    text = "def read(x):\n    return x * VALUE\n"
    monkeypatch.setattr(own_code_version.__globals__["inspect"], "getsource", lambda thing: text)  # as IPython keeps it
    first, second, again = versions_of(text, "read", one, two, one)
    assert first != second and first == again


def test_the_arguments_of_a_partial_function_are_part_of_its_version():
    def reader(root, scale):
        return scale

    assert own_code_version(partial(reader, scale=1)) == own_code_version(partial(reader, scale=1))
    assert own_code_version(partial(reader, scale=1)) != own_code_version(partial(reader, scale=2))
    assert own_code_version(partial(reader, 1)) != own_code_version(reader)
