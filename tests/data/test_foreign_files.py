"""What is written never takes the place of files of someone else, and a failure leaves nothing behind."""

import json
import warnings

import pytest
from PIL import Image
from tiny import tiny_config

from xmr_core import retrieval as search
from xmr_core.base.errors import BadInput
from xmr_core.models.model_folder import read_model
from xmr_core.retrieval.index import index_split, open_index
from xmr_core.retrieval.library import example_model
from xmr_core.training.runs import train_or_load
from xmr_study.cli import main

pytestmark = pytest.mark.usefixtures("own_home")


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", ["README.md", "config.json", "model.safetensors", "image_model/pytorch_model.bin"])
def test_a_model_is_not_written_over_files_of_someone_else(tmp_path, name):
    place = tmp_path / "mine"
    (place / name).parent.mkdir(parents=True)
    (place / name).write_text(json.dumps({"model_type": "bert"}))
    before = contents(place)
    with pytest.raises(BadInput, match="of no model"):
        example_model().save_pretrained(place)
    assert contents(place) == before


def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="the path of the model's folder is empty"):
        example_model().save_pretrained("")
    assert main(["check", "folder", ""]) != 0 and "is empty" in "".join(capsys.readouterr())
    assert not list(tmp_path.iterdir())


def test_a_card_that_its_owner_completed_is_left(tmp_path):
    place = tmp_path / "model"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        example_model().save_pretrained(place)
        made = (place / "README.md").read_text()
        example_model().save_pretrained(place)  # as it was written: nothing to say
    (place / "README.md").write_text(made + "Do not use it for passports.\n")
    with pytest.warns(UserWarning, match="changed by its owner"):
        example_model().save_pretrained(place)
    assert (place / "README.md").read_text().endswith("passports.\n")
    with pytest.warns(UserWarning, match="changed by its owner"):  # also the next time
        example_model().save_pretrained(place)
    assert read_model(place).label


@pytest.mark.slow
def test_an_index_is_not_written_over_files_of_someone_else(tmp_path, shared_home, monkeypatch, capsys):
    monkeypatch.setenv("XMR_HOME", str(shared_home))
    run = train_or_load(tiny_config("vse++", epochs=1))
    for name in ("index.json", "images.safetensors", "model/config.json"):
        place = tmp_path / name.replace("/", "-")
        (place / name).parent.mkdir(parents=True)
        (place / name).write_text('"mine"')
        with pytest.raises(BadInput, match=f"holds {name.split('/')[0]}, of no index"):
            index_split(run, place)
        assert main(["index", run.id, str(place)]) == 2 and "Choose another folder" in capsys.readouterr().err
        assert contents(place) == {name: b'"mine"'}
    own = index_split(run, tmp_path / "own")
    assert len(open_index(index_split(run, own)).images)  # an index of ours is replaced


@pytest.mark.slow
def test_a_failed_index_leaves_nothing(tmp_path, shared_home, monkeypatch, capsys):
    monkeypatch.setenv("XMR_HOME", str(shared_home))
    run = train_or_load(tiny_config("vse++", epochs=1))
    (tmp_path / "empty").mkdir()
    (tmp_path / "there").mkdir()
    for out in ("new", "there"):
        for folder in ("nosuch", "empty"):
            assert main(["index", run.id, str(tmp_path / out), "--folder", str(tmp_path / folder)]) == 2
    assert "error:" in capsys.readouterr().err
    assert not (tmp_path / "new").exists() and list((tmp_path / "there").iterdir()) == []
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (64, 64)).save(tmp_path / "photos" / "a.png")
    assert main(["index", run.id, str(tmp_path / "new"), "--folder", str(tmp_path / "photos")]) == 0
    assert search.open_index(tmp_path / "new").images is not None
