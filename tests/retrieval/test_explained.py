"""Answers are explained in words and cells, whatever the method; what is said is what the score does."""

import numpy as np
import pytest
from PIL import Image

from xmr_core.methods.registry import methods
from xmr_core.retrieval.explain import TERM, WITHOUT, explained
from xmr_core.retrieval.library import example_library, example_model, open_folder
from xmr_core.retrieval.ranking import Query, search
from xmr_study.cli import main


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_is_explained_in_words_and_cells(name):
    library, query = example_library(name), Query("text", "a red square")
    found = search(library, query.text, k=2)
    told = explained(library, query, found, cells=4)
    assert told.columns.tolist() == ["rank", "item", "score", "part", "name", "adds", "how"]
    for answer, own in told.groupby("rank"):
        words = own[own["part"] == "word"]
        assert words["name"].tolist()[:3] == ["a", "red", "square"] and np.isfinite(own["adds"]).all()
        assert own["item"].eq(found["item"][answer - 1]).all() and own["score"].eq(found["score"][answer - 1]).all()
        if (words["how"] == TERM).all():
            assert words["adds"].sum() == pytest.approx(found["score"][answer - 1], abs=1e-5)
        else:
            assert (words["how"] == WITHOUT).all() and len(words) == 3
        cells = own[own["part"] == "cell"]
        assert cells["name"].str.fullmatch(r"row [12], column [12] of 2 × 2").all() and len(cells) > 0
        assert (np.diff(cells["adds"].abs()) <= 0).all(), "the cell that counts most comes first"


def test_single_vectors_say_what_the_score_loses_without_a_word():
    library = example_library("vse++")
    found = search(library, "a red square", k=1)
    told = explained(library, Query("text", "a red square"), found).set_index("name")["adds"]
    shorter = search(library, "a square", k=3).set_index("item")["score"][found["item"][0]]
    assert told["red"] == pytest.approx(found["score"][0] - shorter, abs=1e-5)


@pytest.fixture
def folder(tmp_path):
    """Three images of which two have a caption."""
    photos = tmp_path / "photos"
    photos.mkdir()
    noise = np.random.default_rng(0)
    for n in range(3):
        Image.fromarray(noise.integers(0, 255, (64, 64, 3), np.uint8)).save(photos / f"{n}.png")
    (photos / "captions.csv").write_text("image,caption\n0.png,a red circle\n1.png,a blue square\n2.png,a red ring\n")
    return photos


@pytest.mark.parametrize("name", ["vse++", "pcme", "scan", "sgraf"])
def test_an_image_from_elsewhere_is_explained_like_one_of_the_library(name, folder):
    library = open_folder(example_model(name), folder)
    pixels = np.asarray(Image.open(folder / "1.png"))
    found = search(library, image=pixels, k=2)
    queries = Query("upload", pixels=pixels), Query("image", item="1.png")
    tables = [explained(library, query, found) for query in queries]
    texts = dict(zip(library.caption_ids, library.texts, strict=True))
    for answer, own in tables[0].groupby("rank"):
        words = own.loc[own["part"] == "word", "name"].tolist()
        assert words[:3] == texts[found["item"][answer - 1]].split() and (own["part"] == "cell").any()
    assert tables[0]["name"].tolist() == tables[1]["name"].tolist()
    np.testing.assert_allclose(tables[0]["adds"], tables[1]["adds"], atol=1e-5)


def test_similar_images_have_cells_and_no_words(folder):
    (folder / "captions.csv").unlink()
    library = open_folder(example_model("vse++"), folder)
    pixels = np.asarray(Image.open(folder / "1.png"))
    told = explained(library, Query("upload", pixels=pixels), search(library, image=pixels, k=2))
    assert set(told["part"]) == {"cell"} and told["rank"].nunique() == 2


def test_images_that_are_gone_leave_the_words(folder, tmp_path, capsys):
    from xmr_core.retrieval.index import index_folder

    index_folder(example_model("vse++"), folder, tmp_path / "index")
    folder.rename(tmp_path / "moved")
    assert main(["search", str(tmp_path / "index"), "a red circle", "-k", "1", "--explain"]) == 0
    said = capsys.readouterr().out
    assert "what adds to the scores" in said and "red " in said and "cells" not in said and "element" not in said
