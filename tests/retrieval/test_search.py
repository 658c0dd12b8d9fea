"""Indexes on disk: the same bits, the same answers, nothing read before it is needed, nothing half-built taken for
whole.
"""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from test_gallery import tensors
from tiny import tiny_config

from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.prepare import _recent
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.models.load import load as load_model
from xmr_core.retrieval import example_library, example_model
from xmr_core.retrieval import index as building
from xmr_core.retrieval.explain import relative_uncertainty
from xmr_core.retrieval.index import index_folder, index_split, open_index
from xmr_core.retrieval.library import open_folder, open_library
from xmr_core.retrieval.ranking import Query, Settings, encode, rank, search
from xmr_core.training.runs import train_or_load
from xmr_study.cli import main

pytestmark = pytest.mark.slow

METHODS = ("dive", "pcme", "pcme++", "scan", "maxsim", "chan", "vse++")
FLAT = ("rank", "item", "score")


@pytest.fixture(scope="module")
def runs(shared_home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(shared_home))
        yield {name: train_or_load(tiny_config(name, epochs=1)) for name in METHODS}


@pytest.fixture(scope="module")
def libraries(runs):
    return {name: open_library(run) for name, run in runs.items()}


@pytest.fixture(scope="module")
def indexes(runs, tmp_path_factory):
    base = tmp_path_factory.mktemp("indexes")
    return {name: index_split(run, base / name) for name, run in runs.items()}


@pytest.fixture
def folder(tmp_path, libraries):
    """Six pictures of the tiny corpus as files."""
    place = tmp_path / "pictures"
    (place / "more").mkdir(parents=True)
    for n in range(6):
        Image.fromarray(libraries["dive"].pixels(n)).save(place / ("more" if n % 2 else "") / f"{n}.png")
    return place


@pytest.fixture
def built(indexes, tmp_path):
    """A copy of dive's index, to be spoilt."""
    import shutil

    return Path(shutil.copytree(indexes["dive"], tmp_path / "index"))


# ---------------------------------------------------------------------------------------------------------------- index


@pytest.mark.parametrize("name", METHODS)
def test_an_index_answers_as_the_library_it_was_made_of(indexes, libraries, name):
    live, stored = libraries[name], open_index(indexes[name], verify=True)
    for side in ("images", "captions"):
        for field, tensor in tensors(live.items(side)).items():
            assert torch.equal(tensors(stored.items(side))[field], tensor)
    assert stored.texts.tolist() == live.texts.tolist() and list(stored.relevance_sets) == list(live.relevance_sets)
    for query in (
        Query("text", live.texts[0] + " zeppelin"), Query("caption", item=live.caption_ids[7]),
        Query("image", item=live.image_ids[3]),
        Query("upload", pixels=live.pixels(5)),
    ):  # fmt: skip
        a, b = (rank(library, query, Settings(k=6)) for library in (live, stored))
        assert np.array_equal(a.scores, b.scores) and a.table.equals(b.table) and a.relevant.equals(b.relevant)
        assert a.unknown_words == b.unknown_words
    assert search(stored, live.texts[4], k=3).equals(rank(live, Query("text", live.texts[4]), Settings(k=3)).table)
    assert np.array_equal(stored.pixels(4), live.pixels(4))
    assert np.array_equal(stored.inputs(np.arange(2)).mask, live.inputs(np.arange(2)).mask)
    if live.uncertainty("images") is not None:
        assert relative_uncertainty(stored, "images", stored.images[3]) == relative_uncertainty(
            live, "images", live.images[3]
        )


def test_opening_reads_no_gallery(indexes, monkeypatch):
    read = []
    monkeypatch.setattr(
        fingerprint, "file_hash", lambda path, real=fingerprint.file_hash: read.append(Path(path).name) or real(path)
    )
    monkeypatch.setattr(fingerprint, "LARGE", 20_000)
    open_index(indexes["dive"])
    assert "captions.safetensors" not in read and "relevance.safetensors" in read
    open_index(indexes["dive"], verify=True)
    assert {"images.safetensors", "captions.safetensors"} <= set(read)


@pytest.mark.parametrize("name", ["dive", "pcme"])
def test_a_folder_of_pictures_is_indexed_in_pieces(runs, folder, tmp_path, monkeypatch, name):
    live = open_folder(runs[name], folder)
    monkeypatch.setattr("xmr_core.retrieval.library._ENCODED", 4)
    stored = open_index(index_folder(runs[name], folder, tmp_path / "i"))
    assert stored.captions is None and stored.image_ids.tolist() == live.image_ids.tolist()
    assert all(torch.allclose(tensors(stored.images)[f], t, atol=1e-6) for f, t in tensors(live.images).items())
    a, b = (search(library, "a red circle", k=9) for library in (live, stored))
    assert a["item"].tolist() == b["item"].tolist() and np.allclose(a["score"], b["score"], atol=1e-5) and len(a) == 6
    assert np.array_equal(stored.pixels(3), live.pixels(3))


def test_a_folder_with_captions_brings_them_along(runs, libraries, folder, tmp_path):
    texts = libraries["dive"].texts
    (folder / "captions.csv").write_text(f"image,caption\n0.png,{texts[0]}\n1.png,{texts[5]}\n")
    stored = open_index(index_folder(runs["dive"], folder, tmp_path / "i"))
    assert stored.texts.tolist() == [texts[0], texts[5]]
    found = search(stored, image=folder / "0.png")
    assert list(found) == ["rank", "item", "text", "score"] and set(found["text"]) == set(stored.texts)
    assert rank(stored, Query("image", item="0.png")).table.set_index("text")["annotated"].to_dict() == {
        texts[0]: True,
        texts[5]: False,
    }


def test_images_that_cannot_be_read_are_left_out_of_an_index_and_listed(runs, libraries, folder, tmp_path, capsys):
    whole = open_folder(runs["dive"], folder)
    texts = libraries["dive"].texts
    (folder / "captions.csv").write_text(f"image,caption\n0.png,{texts[0]}\nbad.png,{texts[1]}\n")
    (folder / "bad.png").write_bytes((folder / "0.png").read_bytes()[:-40])
    (folder / "more" / "none.jpg").write_bytes(b"none"), (folder / "phone.HEIC").touch()
    listed = r"2 of 8 images cannot be read: bad\.png .*more/none\.jpg .* left out.* 1 .*heic"
    with pytest.warns(UserWarning, match=listed):
        index_folder(runs["dive"], folder, tmp_path / "i")
    stored = open_index(tmp_path / "i", verify=True)
    assert set(stored.about["skipped"]) == {*stored.skipped} == {"bad.png", "more/none.jpg"}
    assert stored.image_ids.tolist() == whole.image_ids.tolist() and stored.texts.tolist() == [texts[0]]
    assert torch.equal(stored.images.x, whole.images.x) and np.array_equal(stored.pixels(3), whole.pixels(3))
    assert torch.equal(stored.inputs([3]).local_feats, whole.inputs([3]).local_feats)
    with pytest.warns(UserWarning, match="2 of 8"):
        assert main(["index", runs["dive"].id, str(tmp_path / "j"), "--folder", str(folder)]) == 0
    assert "6 images, 1 captions" in capsys.readouterr().out
    for file in folder.rglob("*.png"):
        file.write_bytes(b"none")
    with pytest.raises(DamagedFile, match="8 of 8 images cannot be read"):
        index_folder(runs["dive"], folder, tmp_path / "k")


def test_pictures_like_a_picture_where_nothing_has_captions(runs, folder, tmp_path):
    for name in ("dive", "pcme", "vse++"):
        stored = open_index(index_folder(runs[name], folder, tmp_path / name))
        found = search(stored, image=folder / "more" / "3.png", k=4)
        assert tuple(found) == FLAT and len(found) == 4 and found["score"].is_monotonic_decreasing
        asked = encode(stored, Query("upload", pixels=np.asarray(Image.open(folder / "more" / "3.png"))))
        whole = score_matrix(stored.method.similarity, stored.images, asked)[:, 0]
        assert found["item"].tolist() == stored.image_ids[np.argsort(-whole, kind="stable")[:4]].tolist()
        if name == "vse++":  # a vector is most like itself
            assert found["item"].iloc[0] == "more/3.png"
    stored = open_index(index_folder(runs["scan"], folder, tmp_path / "scan"))
    with pytest.raises(BadInput, match="compares images with captions only"):
        search(stored, image=folder / "0.png")


def test_what_cannot_be_asked(indexes, libraries, tmp_path):
    stored = open_index(indexes["dive"])
    (tmp_path / "bad.png").write_bytes(b"no picture")
    for query, kind, word in (
        ({}, BadInput, "not both"),
        ({"text": "zeppelin"}, BadInput, "zeppelin"),
        ({"image": tmp_path / "absent.png"}, BadInput, "not found"),
        ({"image": tmp_path / "bad.png"}, DamagedFile, "cannot be read"),
    ):
        with pytest.raises(kind, match=word):
            search(stored, **query)


# ------------------------------------------------------------------------------------------------------ what is refused


SPOILT = ("images.safetensors", "items.json", "relevance.safetensors", "model/model.safetensors", "model/config.json")


@pytest.mark.parametrize("name", SPOILT)
@pytest.mark.parametrize("how", ["missing", "longer", "altered"])
def test_a_spoilt_file_is_named(built, name, how):
    path, raw = built / name, (built / name).read_bytes()
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(raw + b"x" if how == "longer" else raw[:-2] + bytes([raw[-2] ^ 1]) + raw[-1:])
    with pytest.raises(DamagedFile, match=rf"{name} .*build it again"):
        open_index(built, verify=True)
    with pytest.raises(DamagedFile, match=name):
        open_index(built)  # galleries of more than 1 GiB are read on request only


def test_a_list_that_was_altered_or_is_of_another_format_is_refused(built):
    path = built / "index.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "dtype": "float16"}))
    with pytest.raises(DamagedFile, match="does not match the digest"):
        open_index(built)
    told.pop("seal")
    files.write_record(path, {**told, "format": 99})
    with pytest.raises(BadInput, match="format 99, this version reads format 4.*Build it again"):
        open_index(built)
    for text in ("{}", "[]", "3", "{"):
        path.write_text(text)
        with pytest.raises(DamagedFile, match=r"index\.json"):
            open_index(built)
    path.unlink()
    with pytest.raises(BadInput, match=r"has no index\.json.*Build it"):
        open_index(built)
    with pytest.raises(BadInput, match="index not found"):
        open_index(built / "nowhere")


def test_an_index_needs_no_run_for_its_answers(libraries, built, folder, tmp_path, monkeypatch):
    live = search(libraries["dive"], "a red square", k=5)
    by_image = search(libraries["dive"], image=folder / "0.png", k=3)
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "empty"))
    _recent.clear()
    stored = open_index(built, verify=True)
    assert search(stored, "a red square", k=5)[[*FLAT]].equals(live[[*FLAT]])
    assert search(stored, image=folder / "0.png", k=3)["item"].tolist() == by_image["item"].tolist()
    with pytest.raises(BadInput, match="run dive-scenes-.* not in .*empty"):
        stored.pixels(0)


def test_a_folder_is_indexed_by_a_model_without_its_run(runs, folder, tmp_path, monkeypatch):
    expected = open_folder(runs["dive"], folder)
    model_folder = load_model(runs["dive"]).save_pretrained(tmp_path / "model")
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "empty"))
    index = open_index(index_folder(load_model(model_folder), folder, tmp_path / "i"))
    assert torch.equal(index.images.x[:], expected.images.x)
    first = expected.pixels(1)
    moved = folder.rename(tmp_path / "moved")
    with pytest.raises(BadInput, match="are not in .*Give their place"):
        open_index(tmp_path / "i").pixels(0)
    again = open_index(tmp_path / "i", images=moved)
    assert np.array_equal(again.pixels(1), first)


def test_pictures_that_changed_since_are_not_shown_under_old_names(runs, folder, tmp_path):
    stored = open_index(index_folder(runs["dive"], folder, tmp_path / "i"))
    (folder / "0.png").unlink()
    assert len(search(stored, "a red circle")) == 6, "what was encoded can still be searched"
    with pytest.raises(BadInput, match="has changed since it was indexed"):
        stored.pixels(0)


# --------------------------------------------------------------------------------------------------------------- killed


STEPS = {
    "a gallery": (building, "write_gallery"),
    "items": (files, "write_json"),
    "relevance": (files, "write_atomic"),
    "list": (building, "write_record"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("first", [True, False])
def test_a_build_that_stops_anywhere_is_no_index(runs, indexes, built, tmp_path, monkeypatch, step, when, first):
    """Whatever was written last, it is not taken for complete, building again repairs it, and the index that lay there
    stays as it was; where none lay, no folder is left.
    """
    place = tmp_path / "new" if first else built
    module, name = STEPS[step]
    real = getattr(module, name)

    def stops(*words, **more):
        if when == "after":
            real(*words, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, name, stops)
        with pytest.raises(KeyboardInterrupt):
            index_split(runs["dive"], place)
    assert not place.exists() if first else open_index(place, verify=True)
    open_index(index_split(runs["dive"], place), verify=True)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_build_leaves_no_index_and_the_next_one_cleans_up(runs, tmp_path):
    place = tmp_path / "i"
    code = f"""
import time
from xmr_core.retrieval import open_library
from xmr_core.training.runs import load
from xmr_core.retrieval import save_index
import xmr_core.retrieval.index as building
run = load({runs["dive"].id!r})
chunks = building._chunks
def slow(items):
    yield items[:3]
    print("writing", flush=True)
    time.sleep(60)
building._chunks = slow
save_index(open_library(run), {str(place)!r})
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout.readline() == "writing\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    left = {p.name for p in place.iterdir()}
    assert any(name.endswith(".tmp") for name in left) and "images.safetensors" not in left
    with pytest.raises(BadInput, match=r"index\.json|does not exist"):
        open_index(place)
    started = time.monotonic()
    open_index(index_split(runs["dive"], place), verify=True)
    assert time.monotonic() - started < 30, "the lock of a killed process does not hold"
    assert not list(place.glob(".*.tmp"))


# ------------------------------------------------------------------------------------------------- runs by id, commands


def test_commands(runs, libraries, folder, tmp_path, capsys):
    out = tmp_path / "index"
    assert main(["index", runs["dive"].id, str(out), "--folder", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "was trained on drawn scenes" in said and f"{out}: 6 images, 0 captions, " in said
    assert main(["search", str(out), "a red circle zeppelin", "-k", "3"]) == 0
    said = capsys.readouterr()
    expected = search(open_index(out), "a red circle zeppelin", k=3)
    lines = said.out.splitlines()
    assert lines[0].split() == list(FLAT) and [line.split()[1] for line in lines[1:]] == expected["item"].tolist()
    assert float(lines[1].split()[2]) == pytest.approx(expected["score"].iloc[0], abs=1e-4)
    assert "does not know: zeppelin" in said.err
    assert main(["search", str(out), "a red circlle"]) == 0
    assert "does not know: circlle (did you mean circle?)" in capsys.readouterr().err
    assert main(["search", str(out), "--image", str(folder / "0.png"), "--explain", "-k", "2"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1 + 2 + 2 + 2 * 2, "a table, a heading, and for each similar image a line and its cells"
    assert sum("cells that count most" in line and "row " in line for line in said) == 2
    assert main(["index", runs["dive"].id, str(tmp_path / "own"), "--half"]) == 0
    assert "32 images, 160 captions" in capsys.readouterr().out
    assert open_index(tmp_path / "own").about["dtype"] == "float16"


def test_no_index_is_written_among_the_images(tmp_path):
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    with pytest.raises(BadInput, match="among the images"):
        index_folder(example_model(), tmp_path, f"{tmp_path}/../{tmp_path.name}")
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_words_and_examples_are_added_as_rocchio_says():
    """A loop over the equation: the query and the words have 1, the mean of liked images .75, of unliked −.15, each a
    standard score over the gallery."""
    library = example_library("dive")
    query = Query("image", item="0.png", similar=True, words="a ring", like=("1.png", "2.png"), unlike=("2.png",))

    def standard(one: Query) -> np.ndarray:
        scores = rank(library, one).scores.astype(np.float64)
        return (scores - scores.mean()) / scores.std()

    image = [standard(Query("image", item=f"{n}.png", similar=True)) for n in range(3)]
    expected = image[0] + standard(Query("text", "a ring")) + 0.75 * (image[1] + image[2]) / 2 - 0.15 * image[2]
    found = rank(library, query)
    assert np.allclose(found.scores, expected, atol=1e-5) and found.among.tolist() == [1, 2]
    assert not {"annotated"} & {*found.table} and found.relevant.empty, "no image is a right answer to an image"
    for wrong in ({"kind": "text", "text": "a", "words": "b"}, {"kind": "caption", "item": "0.txt", "similar": True},
                  {"kind": "image", "item": "0.png", "like": ("1.png",)}):  # fmt: skip
        with pytest.raises(BadInput):
            Query(**wrong)


def test_an_image_is_encoded_once_whatever_stands_beside_it(libraries, monkeypatch):
    library, calls = replace(libraries["dive"]), []
    encoded = type(library.model).encoded
    counted = lambda self, modality, inputs: calls.append(modality) or encoded(self, modality, inputs)  # noqa: E731
    monkeypatch.setattr(type(library.model), "encoded", counted)
    query = Query("upload", pixels=np.zeros((9, 9, 3), np.uint8))
    for one in (query, replace(query, similar=True), replace(query, similar=True, words="a red circle")):
        rank(library, one)
    assert calls == ["images", "captions"]
    rank(library, Query("upload", pixels=np.ones((9, 9, 3), np.uint8)))
    assert calls.count("images") == 2
