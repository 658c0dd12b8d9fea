"""Methods, extractors, similarities and corpora of a user stand beside the package's own and do not disturb them."""

import importlib
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from test_author_errors import RIGHT
from torch import nn

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding
from xmr_core.data.readers.assembly import FaultLog, usable_tables
from xmr_core.data.scenes import load_scenes
from xmr_core.features.cache import cached_features, identity_of
from xmr_core.losses.checks import of_sets
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods import registry
from xmr_core.methods.registry import method_spec, register
from xmr_core.similarities import Similarity, SmoothChamfer, smooth_chamfer
from xmr_core.similarities.base import Range, as_similarity
from xmr_core.training.runs import config, load, names
from xmr_study import base_config, protocol
from xmr_study.cli import main
from xmr_study.results import study_rows


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a module of one's own; the address of its SPEC."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return f"{name}:SPEC"

    return write


ITS_OPTION = 'k: int = option(3, "how many", least=1)'
NO_CHOICE = RIGHT.replace("class Mine(MatchedOptions):", "class Mine(Options):")
NO_CHOICE = NO_CHOICE.replace("options import option", "options import Options, option")
NO_CHOICE = NO_CHOICE.replace("    k: int", '    d: int = option(64, "width", least=1)\n    k: int')
OWN_LOSS = RIGHT.replace(ITS_OPTION, 'objective: str = option("own", "its loss", choices=("own",))')


def test_a_method_with_an_objective_of_its_own_leaves_the_study_whole(written, monkeypatch):
    before = protocol.labels()
    monkeypatch.setattr(registry, "_registered", {})
    register(method_spec(written("own_loss", OWN_LOSS)))
    assert protocol.labels() == [*before, "Mine"] and protocol.in_common_form("Mine").method == "mine"
    trials = [{}, {"lr": 0.001}, {"temperature": 0.1}, {"dropout": 0.1}, {}]
    assert [protocol.trial("Mine", n) for n in (1, 2, 4, 5, 6)] == trials
    assert len(study_rows()), "the study's own rows are read beside it"
    assert not protocol.compares_pairs("Mine")
    registry._registered.clear()
    register(method_spec(written("no_choice", NO_CHOICE)))
    registry._registered.clear()
    assert protocol.labels() == before


BORROWED = """
from dataclasses import replace
from functools import partial

from xmr_core.methods.registry import method_spec

vse = method_spec("vse++")
SPEC = replace(vse, id="borrowed", label="B", variants={}, matched=partial(vse.matched))
margin=0.1
"""


def test_a_run_counts_with_all_code_of_its_method(written, monkeypatch):
    published = """
from dataclasses import replace
from xmr_core.methods.registry import method_spec

def mine(inputs, o):
    return method_spec("vse++").published(inputs, o)

SPEC = replace(method_spec("vse++"), id="vse-mine", label="Mine", variants={}, published=mine)
"""
    swapped = published.replace("published(inputs", "matched(inputs")
    builder = "def build(inputs, o, loss):\n    return loss\n"
    partly = RIGHT.replace("SPEC = ", "from functools import partial\n\nimport far_builder\n\nSPEC = ").replace(
        "Mine, matched,", "Mine, partial(far_builder.build, loss=1),"
    )

    def version(name, text):
        return config.component_versions(written(name, text), "scenes")["method"]

    def of_registered(text):  # without an address, so that the file counts by what the spec names alone
        spec = method_spec(written("vse_mine", text))
        monkeypatch.setattr(registry, "_registered", {"vse-mine": spec})
        return config.component_versions("vse-mine", "scenes")["method"]

    assert version("vse_mine", published) != version("vse_mine", swapped)
    assert of_registered(published) != of_registered(swapped)
    assert version("borrowed", BORROWED) != version("borrowed", BORROWED.replace("margin=0.1", "margin=0.2"))
    written("far_builder", builder)
    assert version("partly", partly) != version("partly", partly.replace("InfoNCE(0.1)", "InfoNCE(0.2)"))
    assert config.component_versions("dive", "scenes")["method"] == method_spec("dive").version


def test_two_extractors_of_one_file_have_features_of_their_own():
    class Means:
        identity = "means"

    class Zeros(Means):
        pass

    assert identity_of(Means()) != identity_of(Zeros()) and identity_of(Means()) == identity_of(Means())


@pytest.mark.parametrize(("made", "message"), [(np.zeros((4, 3, 9)), "shape"), (torch.zeros(16, 3, 2), "array")])
def test_what_an_extractor_returns_is_checked(made, message, tmp_path, monkeypatch):
    class Own:
        identity, shape, dtype, batch, resolution = "own", (3, 2), np.float16, 16, 0

        def __call__(self, pixels):
            return made

    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    with pytest.raises(BadInput, match=message):
        cached_features(load_scenes("tiny"), Own(), progress=iter)


class Scaled(Similarity):
    """Learned, with a setting."""

    ranges = {"scale": Range(0.1, 10.0, "s")}

    def __init__(self, scale=1.0):
        super().__init__(scale=scale)
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, images, captions):
        return self.options["scale"] * (images.x * self.weight) @ captions.x.T


def test_another_setting_keeps_what_was_learned():
    learned = Scaled().eval()
    learned.weight.data += 6
    other = learned.replace(scale=4.0)
    assert other.weight.tolist() == [7.0] * 3 and other.settings == {"scale": 4.0} and not other.training


def test_a_second_class_of_a_plain_function_does_not_take_its_place():
    class Ran(Similarity):
        function = staticmethod(smooth_chamfer)

    assert type(as_similarity(smooth_chamfer)) is SmoothChamfer and isinstance(as_similarity(Ran()), Ran)


def test_a_regulariser_of_vectors_counts_and_one_of_sets_does_not():
    items, match = Embedding(torch.eye(2)), torch.eye(2, dtype=torch.bool)
    norm = {"norm": (0.5, lambda images, captions: images.x.sum()), "sets": (1.0, of_sets(lambda a, b: 1 / 0))}
    total, terms = Objective(hinge_triplet, norm)(torch.eye(2), match, items, items)
    assert total.item() == 1.0 and set(terms) == {"score", "norm"}


def test_a_split_of_another_name_is_refused():
    images = pd.DataFrame({"split": ["train", "training", ""]}, index=["a", "b", "c"])
    captions = pd.DataFrame({"image_id": ["a", "b"], "text": ["A dog.", "A cat."]}, index=["1", "2"])
    with pytest.raises(BadInput, match="training"):
        usable_tables("mine", images, captions, FaultLog())


def test_the_published_form_is_asked_for_without_options_that_it_does_not_read(written):
    lean = RIGHT.replace("variants={", "published=matched, variants={").replace(
        'k: int = option(3, "how many", least=1)', 'dropout: float = option(0.1, "share", form="matched")'
    )
    assert "dropout" not in base_config(written("lean", lean), form="published").options


@pytest.mark.slow
def test_a_run_of_a_method_that_is_not_there_is_not_called_damaged(written, tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    address = written("gone_later", RIGHT.replace('"mine"', '"my-own"'))
    words = ["size=tiny", "batch_images=8", "captions_per_image=2", "d=8", "epochs=1", "device=cpu"]
    assert main(["train", address, *words]) == 0
    assert list(names.short_names()) == ["my-own-1"] and load("my-own-1").config.method == address
    (tmp_path / "gone_later.py").unlink()
    sys.modules.pop("gone_later")
    importlib.invalidate_caches()
    with pytest.raises(
        BadInput, match=r"run my-own-scenes-s0-\w+: method 'gone_later:SPEC' cannot be imported.*Python"
    ):
        load("my-own-1")


def test_a_reader_of_ones_own_is_checked_on_the_command_line(written, tmp_path, capsys):
    text = """
import pandas as pd
from xmr_core.data.readers.assembly import photograph_corpus
from xmr_core.data.readers.assembly import FaultLog
from xmr_core.data.scenes import load_scenes

def read(root, faults=None):
    images = pd.DataFrame({"split": ["test"], "path": [f"{root}/dog.png"]}, index=["i1"])
    captions = pd.DataFrame({"image_id": ["i1"], "text": ["A dog."]}, index=["c1"])
    return photograph_corpus("mine", images, captions, faults or FaultLog())
"""
    written("my_reader", text)
    from PIL import Image

    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(tmp_path / "dog.png")
    main(["check", "my_reader:read", str(tmp_path)])
    said = capsys.readouterr()
    assert "unknown dataset" not in said.err and "1 image" in said.out
