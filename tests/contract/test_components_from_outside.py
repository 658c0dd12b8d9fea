"""Objectives, extractors, similarities and readers of a user stand beside the package's own."""

import importlib
import sys

import numpy as np
import pytest
import torch
from own_method import RIGHT, TINY_RUN
from PIL import Image
from torch import nn

from xmr_core.base.errors import BadInput
from xmr_core.data.scenes import load_scenes
from xmr_core.features.cache import cached_features
from xmr_core.methods import registry
from xmr_core.methods.registry import method_spec, register
from xmr_core.similarities import Similarity
from xmr_core.similarities.base import Range
from xmr_core.training.runs import folder, load
from xmr_study import base_config, protocol
from xmr_study.cli import main
from xmr_study.results import study_rows

ITS_OPTION = 'k: int = option(3, "how many", least=1)'
OWN_LOSS = RIGHT.replace(ITS_OPTION, 'objective: str = option("own", "its loss", choices=("own",))')


def test_a_method_with_an_objective_of_its_own_leaves_the_study_whole(written, monkeypatch):
    before = protocol.labels()
    monkeypatch.setattr(registry, "_registered", {})
    register(method_spec(written("own_loss", OWN_LOSS)))
    assert protocol.labels() == [*before, "Mine"] and protocol.in_common_form("Mine").method == "mine"
    assert [protocol.trial("Mine", n) for n in (1, 2, 6)] == [{}, {"lr": 0.001}, {}]
    assert len(study_rows()), "the study's own rows are read beside it"


@pytest.mark.parametrize(("made", "message"), [(np.zeros((4, 3, 9)), "shape"), (torch.zeros(16, 3, 2), "array")])
def test_what_an_extractor_returns_is_checked(made, message, own_home):
    class Own:
        identity, shape, dtype, batch, resolution = "own", (3, 2), np.float16, 16, 0

        def __call__(self, pixels):
            return made

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


def test_the_published_form_is_asked_for_without_options_that_it_does_not_read(written):
    lean = RIGHT.replace("variants={", "published=matched, variants={").replace(
        'k: int = option(3, "how many", least=1)', 'dropout: float = option(0.1, "share", form="matched")'
    )
    assert "dropout" not in base_config(written("lean", lean), form="published").options


@pytest.mark.slow
def test_a_run_of_a_method_that_is_not_there_is_not_called_damaged(written, own_home, tmp_path):
    address = written("gone_later", RIGHT.replace('"mine"', '"my-own"'))
    assert main(["train", address, *TINY_RUN]) == 0
    assert list(folder.short_names()) == ["my-own-1"] and load("my-own-1").config.method == address
    (tmp_path / "gone_later.py").unlink()
    sys.modules.pop("gone_later")
    importlib.invalidate_caches()
    with pytest.raises(BadInput, match="gone_later:SPEC"):
        load("my-own-1")


def test_a_reader_of_ones_own_is_checked_on_the_command_line(written, tmp_path, capsys):
    text = """
import pandas as pd
from xmr_core.data.readers.assembly import FaultLog, photograph_corpus

def read(root, faults=None):
    images = pd.DataFrame({"split": ["test"], "path": [f"{root}/dog.png"]}, index=["i1"])
    captions = pd.DataFrame({"image_id": ["i1"], "text": ["A dog."]}, index=["c1"])
    return photograph_corpus("mine", images, captions, faults or FaultLog())
"""
    written("my_reader", text)
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(tmp_path / "dog.png")
    main(["check", "my_reader:read", str(tmp_path)])
    said = capsys.readouterr()
    assert "unknown dataset" not in said.err and "1 image" in said.out
