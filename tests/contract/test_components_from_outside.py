"""Objectives, extractors, similarities and readers of a user stand beside the package's own."""

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from own_method import RIGHT, TINY_RUN
from PIL import Image
from tiny import tiny_config
from torch import nn
from toy_method import SPEC as TOY

from xmr_core.base.errors import BadInput
from xmr_core.data.scenes import load_scenes
from xmr_core.features.cache import cached_features
from xmr_core.methods import registry
from xmr_core.methods.method import Method
from xmr_core.methods.registry import method_spec, register
from xmr_core.models.load import load as load_model
from xmr_core.training.runs import folder, load, train_or_load
from xmr_study import base_config, protocol
from xmr_study.cli import main
from xmr_study.tidy import study_rows

ITS_OPTION = 'k: int = option(3, "how many", least=1)'
OWN_LOSS = RIGHT.replace(ITS_OPTION, 'objective: str = option("own", "its loss", choices=("own",))')


def test_a_method_with_an_objective_of_its_own_leaves_the_study_whole(written, monkeypatch):
    before = protocol.labels()
    monkeypatch.setattr(registry, "_registered", {})
    register(method_spec(written("own_loss", OWN_LOSS)))
    assert protocol.labels() == [*before, "Mine"] and protocol.in_common_form("Mine").method == "mine"
    assert protocol.base_of("Mine") == "Mine" and protocol.in_common_form("Mine", lr=4e-3).train.lr == 4e-3
    assert len(study_rows()), "the study's own rows are read beside it"


@pytest.mark.parametrize(("made", "message"), [(np.zeros((4, 3, 9)), "shape"), (torch.zeros(16, 3, 2), "array")])
def test_what_an_extractor_returns_is_checked(made, message, own_home):
    class Own:
        identity, shape, dtype, batch, resolution = "own", (3, 2), np.float16, 16, 0

        def __call__(self, pixels):
            return made

    with pytest.raises(BadInput, match=message):
        cached_features(load_scenes("tiny"), Own(), progress=iter)


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


class Projected(nn.Module):
    """A head before a layer that it shares with the other modality."""

    def __init__(self, head: nn.Module, layer: nn.Linear):
        super().__init__()
        self.head, self.layer = head, layer

    def forward(self, features, *more):
        elements = self.head(features, *more)
        return replace(elements, x=self.layer(elements.x))


def siamese(inputs, o):
    made, layer = TOY.build(inputs, d=o.d), nn.Linear(o.d, o.d)
    heads = (Projected(head, layer) for head in (made.image_head, made.caption_head))
    return Method("siamese", made.image_encoder, made.caption_encoder, *heads, made.similarity, made.objective)


@pytest.mark.slow
def test_a_method_that_uses_one_layer_for_images_and_captions_is_saved_and_loaded(tmp_path, own_home, monkeypatch):
    spec = replace(TOY, id="siamese", label="Siamese", matched=siamese, variants={"Siamese": {}})
    monkeypatch.setitem(registry._registered, "siamese", spec)
    run = train_or_load(tiny_config("siamese", epochs=1))
    method = load_model(run.export(tmp_path / "model.safetensors")).method
    assert method.image_head.layer is method.caption_head.layer, "the builder ties them again"
    assert all(torch.equal(t, run.method().state_dict()[name]) for name, t in method.state_dict().items())
