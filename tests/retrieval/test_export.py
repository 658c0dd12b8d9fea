"""Items as a pandas frame: the same numbers as the representations, from every source."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tiny import tiny_config

import xmr_core as xmr
from xmr_core.base.errors import BadInput
from xmr_core.evaluation.analysis import encode_split
from xmr_core.retrieval.export import export_frame, projected, vectors_of
from xmr_core.retrieval.index import index_folder, index_split
from xmr_core.retrieval.library import example_library


@pytest.fixture(autouse=True)
def home(shared_home, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(shared_home))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dive", "vse++", "pcme"])
def test_the_frame_of_a_run_holds_its_representations(method):
    run = xmr.train_or_load(tiny_config(method, epochs=1))
    images, captions = encode_split(run.method(), run.prepared().splits["test"])
    frame = export_frame(run)
    assert export_frame(run.id).drop(columns="embedding").equals(frame.drop(columns="embedding"))
    assert (np.stack(frame["embedding"]) == np.concatenate([vectors_of(images), vectors_of(captions)])).all()
    corpus, of_images = run.prepared().corpus, frame["modality"] == "image"
    rows = corpus.captions.loc[frame["id"][~of_images]]
    assert (rows["text"].to_numpy() == frame["text"][~of_images]).all() and (frame["text"][of_images] == "").all()
    assert (rows["image_id"].to_numpy() == frame["image_id"][~of_images]).all() and set(frame["split"]) == {"test"}
    assert frame["uncertainty"].notna().all() == (method != "vse++")
    assert np.allclose(np.linalg.norm(np.stack(frame["embedding"]), axis=1), 1, atol=1e-5)
    wide = export_frame(run, wide=True)
    assert (wide.filter(regex="^e[0-9]+$").to_numpy() == np.stack(frame["embedding"])).all()


@pytest.mark.slow
def test_elements_of_sets_have_rows_of_their_own():
    run = xmr.train_or_load(tiny_config("dive", epochs=1))
    images, captions = encode_split(run.method(), run.prepared().splits["test"])
    frame = export_frame(run, elements=True)
    assert len(frame) == int(images.mask.sum() + captions.mask.sum()) and frame["element"].max() == 3
    third = frame[(frame["modality"] == "image") & (frame["element"] == 2)]
    assert (np.stack(third["embedding"]) == images.x[:, 2].numpy()).all()


@pytest.mark.slow
def test_an_index_gives_what_its_run_gives_and_the_files_of_a_folder(tmp_path):
    run = xmr.train_or_load(tiny_config("dive", epochs=1))
    frame = export_frame(index_split(run, tmp_path / "index"))
    pd.testing.assert_frame_equal(frame, export_frame(run).assign(embedding=frame["embedding"]))
    assert np.abs(np.stack(frame["embedding"]) - np.stack(export_frame(run)["embedding"])).max() < 1e-6
    (tmp_path / "images").mkdir()
    for name, colour in (("a.png", "red"), ("b.png", "blue")):
        Image.new("RGB", (40, 30), colour).save(tmp_path / "images" / name)
    frame = export_frame(index_folder(run, tmp_path / "images", tmp_path / "own"))
    assert [Image.open(file).size for file in frame["file"]] == [(40, 30)] * 2
    assert frame["id"].tolist() == ["a.png", "b.png"]
    model = xmr.load(run.id)
    own = export_frame(model, images=frame["file"].tolist(), texts=["a red circle"])
    assert np.abs(np.stack(own["embedding"][:2]) - np.stack(frame["embedding"])).max() < 1e-6
    assert own["modality"].tolist() == ["image", "image", "caption"] and own["text"][2] == "a red circle"


def test_projections_keep_what_they_promise():
    points = np.random.default_rng(0).normal(size=(30, 5)) * [9, 4, 1, 1, 1]
    xy = projected(points, "pca")
    centred = points - points.mean(0)
    largest = np.linalg.eigvalsh(centred.T @ centred)[::-1][:2]
    assert np.allclose((xy.astype(float) ** 2).sum(0), largest) and abs((xy[:, 0] * xy[:, 1]).sum()) < 1e-2
    assert np.allclose(projected(points[:, ::-1], "pca"), xy, atol=1e-5), "the sign is fixed"
    frame = export_frame(example_library(), project="tsne")
    assert frame[["x", "y"]].notna().all(axis=None) and len(frame) == 6


def test_an_unknown_projection_is_refused():
    with pytest.raises(BadInput, match="globe"):
        export_frame(example_library(), project="globe")
