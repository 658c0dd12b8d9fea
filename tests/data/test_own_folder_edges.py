"""What people run into with data of their own and the command line: paths, chance, ports, what a failure leaves."""

import re
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import xmr_core as xmr
from xmr_core.base.errors import BadInput
from xmr_core.data.config import DataConfig
from xmr_core.data.prepare import prepare
from xmr_core.data.readers.folder import hash_split
from xmr_core.training.runs import run_table
from xmr_study import base_config
from xmr_study.cli import main

TRAIN = ["vse++", "--dataset", "folder", "features=cells", "d=8", "epochs=1", "batch_images=4", "device=cpu"]


pytestmark = pytest.mark.usefixtures("own_home")


def photos(folder, n=12, splits=True):
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    for i in range(n):
        Image.fromarray(draw.integers(0, 255, (64, 64, 3), np.uint8)).save(folder / f"{i}.png")
    table = pd.DataFrame({"image": [f"{i}.png" for i in range(n)], "caption": [f"a thing {i % 3}" for i in range(n)]})
    if splits:
        table["split"] = ["train"] * (n - 4) + ["val"] * 2 + ["test"] * 2
    table.to_csv(folder / "captions.csv", index=False)
    return folder


@pytest.mark.slow
def test_a_run_on_a_relative_folder_is_read_from_any_other(tmp_path, monkeypatch, capsys):
    photos(tmp_path / "one" / "data")
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    assert main(["train", *TRAIN, "--data-root", "data"]) == 0
    said = capsys.readouterr().out
    name = said.splitlines()[1].split()[1]
    (rsum,) = re.findall(r"RSUM    ([\d.]+) of 600 \(annotated; [\d.]+ to [\d.]+ by the choice of images\)", said)
    (chance,) = re.findall(r"chance  ([\d.]+) \(a random ranking, annotated\)", said)
    assert 400 <= float(rsum) <= 600 and float(chance) == 500, "two images: R@5 is certain, R@1 is half"
    monkeypatch.chdir(tmp_path / "two")
    model = xmr.load(name)
    assert len(model.encode_texts(["a thing 1"])) == 1
    assert main(["index", name, str(tmp_path / "index"), "--folder", "../one/data"]) == 0
    shutil.rmtree(tmp_path / "one")
    sys.modules["xmr_core.data.prepare"]._recent.clear()
    with pytest.raises(BadInput, match=r"does not exist"):
        xmr.load(name)


@pytest.mark.slow
def test_what_no_model_can_exceed_is_printed_beside_chance(tmp_path, capsys):
    folder = photos(tmp_path / "data")
    table = pd.read_csv(folder / "captions.csv")
    table.loc[10:, "caption"] = "a thing 1"
    table.to_csv(folder / "captions.csv", index=False)
    for line in (["train", *TRAIN, "--data-root", str(folder)], ["check", "folder", str(folder)]):
        assert main(line) == 0
        assert "R@1 0.0 image to text and 50.0 text to image, RSUM 450.0" in capsys.readouterr().out


@pytest.mark.parametrize(("images", "batch"), [(44, 10), (12, 8)])
def test_quick_takes_enough_steps_for_few_images(images, batch, tmp_path):
    own = {"dataset": "folder", "data_root": str(photos(tmp_path / "own", images)), "device": "cpu"}
    config = base_config("vse++", **own)
    steps = max(1, (images - 4) // config.batch_images)
    assert config.batch_images == batch and steps * config.train.epochs >= 140 > steps * (config.train.epochs - 1)
    assert base_config("vse++", **own, epochs=3).train.epochs == 3, "what is asked for is done"
    assert base_config("vse++", **own, batch_images=4).train.epochs == 3
    gone = own | {"data_root": str(tmp_path / "gone")}
    assert base_config("vse++", **gone).train.epochs == 3, "refused where it is read"


def test_paths_become_absolute_and_other_names_do_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("data", "net"):
        (tmp_path / name).mkdir()
    config = DataConfig("folder", "data", image_model="net", text_model="minilm").absolute()
    assert config.data_root == str(tmp_path / "data")
    assert (config.image_model, config.text_model, config.vocabulary) == (str(tmp_path / "net"), "minilm", "")
    assert DataConfig("mine:reader", "s3://bucket/photos").absolute().data_root == "s3://bucket/photos"


def test_a_split_that_chance_left_empty_is_named_as_such(tmp_path):
    folder = photos(tmp_path / "data", 1, splits=False)
    every = [f"{n}.png" for n in range(99)]
    names = [n for n in every if hash_split(n) == "train"][:8] + [n for n in every if hash_split(n) == "val"][:2]
    for name in names:
        shutil.copy(folder / "0.png", folder / name) if name != "0.png" else None
    pd.DataFrame({"image": names, "caption": "a thing"}).to_csv(folder / "captions.csv", index=False)
    with pytest.raises(BadInput, match="test split .by a hash"):
        prepare(DataConfig("folder", str(folder), features="cells"))


@pytest.mark.parametrize(
    ("place", "port", "said"),
    [("photos", "-1", "a port lies from 1"), ("photos", "99999", "got 99999"), ("file.py", "0", "is no folder"),
     ("empty", "0", "no image")],
)  # fmt: skip
def test_explore_refuses_what_it_cannot_serve(tmp_path, monkeypatch, capsys, place, port, said):
    pytest.importorskip("voila")
    monkeypatch.setattr("subprocess.call", lambda *a, **k: pytest.fail("the server was started"))
    photos(tmp_path / "photos")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.py").write_text("")
    assert main(["explore", str(tmp_path / place), "--port", port]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_training_that_saved_nothing_is_no_interrupted_run(tmp_path, capsys):
    folder = photos(tmp_path / "data")
    (folder / "5.png").write_bytes((folder / "5.png").read_bytes()[:500])
    words = [*TRAIN[:3], "features=pixels", *TRAIN[4:], "--data-root", str(folder)]
    assert main(["train", *words]) == 2
    assert "5.png" in capsys.readouterr().err and run_table().empty
    photos(tmp_path / "whole")
    shutil.copy(tmp_path / "whole" / "5.png", folder / "5.png")
    assert main(["train", *words]) == 0 and list(run_table()["state"]) == ["finished"]
