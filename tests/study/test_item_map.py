"""The map: coordinates that are cached, colours that mean something, and a selection that restricts answers."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from xmr_core.base.errors import BadInput
from xmr_core.retrieval.index import index_folder
from xmr_core.retrieval.library import example_library, example_model
from xmr_study.cli import page_of
from xmr_study.explorer import item_map, views
from xmr_study.explorer.item_map import coordinates, map_frame
from xmr_study.explorer.screen import Explorer, explore
from xmr_study.explorer.views import folder_models


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))


def test_every_item_has_a_place_and_its_facts():
    library = example_library("pcme")
    frame = map_frame(library)
    assert frame["modality"].tolist() == ["images"] * 3 + ["captions"] * 3
    assert np.isfinite(frame[["x", "y"]].to_numpy()).all()
    assert frame["text"].tolist()[3:] == library.texts.tolist() and set(frame["split"]) == {""}
    for modality, own in frame.groupby("modality"):
        assert np.allclose(own[["x", "y"]].mean(), 0, atol=1e-5), f"the mean of the {modality} is subtracted"


def test_coordinates_are_made_once_and_damage_is_repaired(tmp_path, monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    first = coordinates(vectors)
    centred = vectors - vectors.mean(0)
    directions = np.linalg.svd(centred)[2][:2]
    assert np.allclose(np.abs(first), np.abs(centred @ directions.T), atol=1e-4)
    monkeypatch.setattr(item_map, "projected", None)
    assert np.array_equal(coordinates(vectors), first), "from the disk"
    monkeypatch.undo()
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    (file,) = (tmp_path / "cache" / "maps").glob("pca-*.npy")
    file.write_bytes(b"damaged")
    assert np.allclose(coordinates(vectors), first)
    assert coordinates(vectors, "tsne").shape == (40, 2)
    with pytest.raises(BadInput, match="globe"):
        map_frame(example_library(), "globe")


def test_a_lasso_gives_a_frame_and_restricts_the_answers(tmp_path):
    pytest.importorskip("plotly")
    pytest.importorskip("anywidget")
    library = example_library()
    explorer = Explorer(lambda _: library, ["dive"], k=3, judgments=str(tmp_path / "judgments.jsonl"))
    explorer.tell("sentence", value="a red circle")
    assert explorer.map.figure is None, "nothing is drawn before it is shown"
    explorer.tell("panel", name="Map")
    figure = explorer.map.figure
    assert [len(trace.x) for trace in figure.data] == [3, 3]
    page = explorer.map.page
    assert [mark["text"] for mark in page.marks] == ["3", "2", "1"], "the first above the others"
    page.selected = {"points": {"0": [0, 2], "1": [1]}, "time": 1}
    assert explorer.selection["item"].tolist() == ["0.png", "2.png", "1.txt"]
    assert "2 of 3 images ranked" in explorer.gallery.said["text"] and len(page.marks) == 2
    assert explorer.state.filter.images == ("0.png", "2.png") and explorer.state.filter.captions == ("1.txt",)
    explorer.tell("draw", name="Random image")
    assert "1 of 3 captions ranked" in explorer.gallery.said["text"]
    place = page.marks[-1]["x"], page.marks[-1]["y"]
    own = explorer.map.frame.query("modality == 'images' and item == @explorer.state.query.item").iloc[0]
    assert np.allclose(place, (own["x"], own["y"])), "the star is where the query is"
    page.selected = {"points": None, "time": 2}
    assert explorer.selection is None and explorer.state.filter.captions == ()
    explorer.map.colour.value = "modality"
    assert len({*explorer.map.figure.data[0].marker.color}) == 1
    assert "captions" in explorer.map.legend.value
    page.hovered = {"trace": 0, "point": 2, "time": 3}
    assert "a green ring" in explorer.map.item.value


def test_the_page_of_the_command_has_one_cell(tmp_path):
    page = page_of(Path("my photos"), ["dive-1"])
    assert json.loads(json.dumps(page)) == page and len(page["cells"]) == 1
    compile(page["cells"][0]["source"], "cell", "exec")
    (tmp_path / "photos").mkdir()
    with pytest.raises(BadInput, match="no finished run"):
        explore(tmp_path / "photos")
    for n in range(2):
        Image.fromarray(np.full((64, 64, 3), 90 * n, np.uint8)).save(tmp_path / "photos" / f"{n}.png")
    index = index_folder(example_model(), tmp_path / "photos", tmp_path / "index")
    explorer = explore(index)  # it holds its model, so no run is needed
    explorer.begin()
    assert (
        "2 images ranked by" in explorer.gallery.said["text"]
        and "<img" in explorer.gallery.columns[0]["items"][0]["html"]
    )


def test_a_folder_takes_models_of_photographs_and_never_one_of_drawings(tmp_path, monkeypatch):
    names = ["dive-1", "vse++-1", "vse++-2", "pcme-1"]
    data, states = ["scenes quick", "folder", "flickr8k", "flickr8k"], ["finished"] * 3 + ["interrupted"]
    runs = pd.DataFrame({"name": names, "method": [n[:-2] for n in names], "data": data, "state": states})
    monkeypatch.setattr(views, "run_table", lambda: runs)
    cache = tmp_path / "hub"
    for name, kind in (("openai--clip", "clip"), ("google--bert", "bert")):
        (cache / f"models--{name}" / "snapshots" / "abc").mkdir(parents=True)
        (cache / f"models--{name}" / "snapshots" / "abc" / "config.json").write_text(json.dumps({"model_type": kind}))
    monkeypatch.setattr(views.constants, "HF_HUB_CACHE", str(cache))
    assert folder_models(tmp_path) == ["vse++-2", "openai/clip"]
    monkeypatch.setattr(views, "run_table", lambda: runs[:1])
    monkeypatch.setattr(views.constants, "HF_HUB_CACHE", str(tmp_path / "none"))
    with pytest.raises(BadInput, match="not taken for photographs unless it is named.*--run shipped:dive"):
        folder_models(tmp_path)
    assert folder_models(tmp_path, ["shipped:dive"]) == ["shipped:dive"]
