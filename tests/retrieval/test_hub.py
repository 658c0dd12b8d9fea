"""A model goes to the hub and comes back, against a stand-in of the hub on this machine."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from PIL import Image
from tiny import tiny_config
from tiny_hub import TOKEN, tiny_hub

import xmr_core as xmr
from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.inputs import copy_model
from xmr_core.models.model_folder import push_folder, read_model
from xmr_core.retrieval.library import example_model
from xmr_core.training.runs import train_or_load

TEXTS = ["a red square", "two blue circles", "a large green ring"]
READ = """
import json, sys
import xmr_core as xmr
names, images, texts = json.loads(sys.argv[1])
print(json.dumps([xmr.load(name).similarity(images, texts).tolist() for name in names]))
"""
PUSH = """
import json, sys
import xmr_core as xmr
from xmr_core.base.errors import BadInput
model = xmr.Model.from_pretrained(sys.argv[1])
for name, options in json.loads(sys.argv[2]):
    try:
        print(model.push_to_hub(name, **options))
    except BadInput as e:
        print("refused:", str(e).replace("\\n", "(a second line)"))
"""


@pytest.fixture
def hub():
    with tiny_hub() as server:
        yield server


@pytest.fixture
def images(tmp_path):
    """Three image files of other sizes than the models'."""
    rng, names = np.random.default_rng(0), []
    for n in range(3):
        names.append(str(tmp_path / f"{n}.png"))
        Image.fromarray(rng.integers(0, 256, (40, 50 + n, 3), np.uint8)).save(names[-1])
    return names


def python(code: str, *arguments: str, hub: str, home: Path, **environment: str) -> str:
    """Output of a fresh process whose hub is `hub` and whose cache and runs lie in `home`."""
    told = {
        "HF_ENDPOINT": hub, "HF_HOME": str(home / "hf"), "XMR_HOME": str(home), "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "0", **environment,
    }  # fmt: skip
    for name in ("HF_TOKEN", "TRANSFORMERS_OFFLINE"):
        told.setdefault(name, "")
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=os.environ | told, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def networked_model(tmp_path, monkeypatch):
    """A run on the cells of a frozen network of transformers, and of frozen word states: it has every kind of file."""
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    tiny_models.save("vit", tmp_path / "vit"), tiny_models.save("bert", tmp_path / "bert")
    cropping = {"size": {"shortest_edge": 40}, "crop_size": 32, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(cropping))
    run = train_or_load(
        tiny_config("vse++", epochs=1, image_model=str(tmp_path / "vit"), text_model=str(tmp_path / "bert"))
    )
    return xmr.load(run)


@pytest.mark.slow
def test_a_model_comes_back_from_the_hub_as_it_was(hub, images, tmp_path, monkeypatch):
    model = networked_model(tmp_path, monkeypatch)
    expected = model.similarity(images, TEXTS).numpy()
    folder = model.save_pretrained(tmp_path / "model")
    (folder / "diary.txt").write_text("not for others")
    folder = model.save_pretrained(folder)
    listed = set(json.loads((folder / "config.json").read_text())["files"])
    assert {"model.safetensors", "images.safetensors", "image_model/model.safetensors", "text_model/vocab.txt"} < listed
    assert not listed & {"diary.txt", "config.json", "README.md"}
    assert not [path for path in folder.rglob("*") if path.is_file() and str(tmp_path).encode() in path.read_bytes()]
    shutil.rmtree(tmp_path / "vit"), shutil.rmtree(tmp_path / "bert")  # nobody else has them
    for place in (tmp_path / "again", folder):  # the second is where it was read from
        again = read_model(read_model(folder).save_pretrained(place))
        assert np.allclose(again.similarity(images, TEXTS), expected, atol=1e-6)
    example_model().save_pretrained(tmp_path / "again")
    assert sorted(path.name for path in (tmp_path / "again").rglob("*") if path.is_file() and path.suffix) == [
        "README.md", "config.json", "model.safetensors"
    ], "nothing of an older model stays"  # fmt: skip

    pushed = json.dumps([["someone/model", {"token": TOKEN}]])
    name = python(PUSH, str(folder), pushed, hub=hub.address, home=tmp_path / "a")
    assert hub.uploads == [sorted(listed | {"config.json", "README.md"})]
    assert name == f"someone/model@{hub.repositories['someone/model'].branches['main']}"

    asked = json.dumps([["someone/model", name], images, TEXTS])
    scores = json.loads(python(READ, asked, hub=hub.address, home=tmp_path / "b"))
    np.testing.assert_allclose(scores, [expected] * 2, atol=1e-6)
    files_sent = [request for request in hub.requests if request.startswith("GET") and "/resolve/" in request]
    assert len(files_sent) == len(set(files_sent)) > len(listed), "what is cached is not sent again"


@pytest.mark.slow
def test_branches_private_models_and_refusals(hub, tmp_path):
    folder = str(example_model().save_pretrained(tmp_path / "model"))
    pushes = [
        ("someone/other", {"token": TOKEN, "private": True, "revision": "v1"}), ("someone/public", {"token": TOKEN}),
        ("someone/public", {"token": TOKEN, "private": True}), ("someone/public", {}),
        ("someone/public", {"token": "hf_wrong"}), ("a b", {"token": TOKEN}),
    ]  # fmt: skip
    branch, main, public, *refused = python(
        PUSH, folder, json.dumps(pushes), hub=hub.address, home=tmp_path
    ).splitlines()
    repository = hub.repositories["someone/other"]
    assert repository.private and branch == f"someone/other@{repository.branches['v1']}"
    assert set(repository.commits[repository.branches["main"]]) == {".gitattributes"}
    assert main.startswith("someone/public@") and len(hub.uploads) == 2
    assert "is public" in public and len(refused) == 3
    assert all(line.startswith("refused: ") for line in refused)


def test_a_card_may_be_completed_and_other_files_not(tmp_path):
    folder = example_model().save_pretrained(tmp_path / "model")
    card = folder / "README.md"
    card.write_text(card.read_text().replace("---\n", "---\nlicense: mit\n", 1))
    assert len(read_model(folder).encode_texts("a red square")) == 1
    content = files.read_record(folder / "config.json")
    content["files"]["../secret"] = "0" * 16
    files.write_record(folder / "config.json", content)  # by somebody who seals what they forged
    for call in (lambda: read_model(folder), lambda: push_folder(folder, "someone/model")):
        with pytest.raises(DamagedFile, match="lies outside"):
            call()


def test_a_network_replaces_another_one_completely(tmp_path):
    source, folder = tiny_models.save("vit", tmp_path / "vit"), tmp_path / "copy"
    folder.mkdir()
    for name in ("processor_config.json", "model-00001-of-00002.safetensors", "notes.md"):
        (folder / name).write_text("{}")
    copy_model(str(source), folder)
    copy_model(str(folder), folder)  # onto itself
    names = {path.name for path in source.iterdir()}
    assert {path.name for path in folder.iterdir()} == names | {"notes.md"}
    assert all((folder / name).read_bytes() == (source / name).read_bytes() for name in names)


def test_without_the_hubs_package_a_folder_still_works(tmp_path, monkeypatch):
    model = example_model()
    folder = model.save_pretrained(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(BadInput, match=r"xmr-study\[hub\]"):
        model.push_to_hub("someone/model")
    again = xmr.Model.from_pretrained(folder)
    assert torch.equal(again.encode_texts(TEXTS).x, model.encode_texts(TEXTS).x)
