"""What a user may give is taken as meant, or refused in one sentence; it never gives a wrong answer silently."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import xmr_core as xmr
from xmr_core.base.errors import BadInput
from xmr_core.base.files import named
from xmr_core.base.types import Relevance, RelevantRanks
from xmr_core.data.config import DataConfig
from xmr_core.data.inputs import listed, regions
from xmr_core.evaluation import metrics
from xmr_core.features.cache import cached_array
from xmr_core.retrieval.judgments import Judgments
from xmr_core.retrieval.library import example_library, example_model
from xmr_core.retrieval.ranking import pixels_of, search
from xmr_study.cli import main

FEATURES = np.random.default_rng(0).normal(size=(20, 3, 8)).astype(np.float32)
SENTENCES = ["a dog", "two cats"] * 10
IDS = {"query_ids": ["q0", "q1"], "gallery_ids": ["g0", "g1"]}


def refused(match: str):
    """Raises: AssertionError unless one line is refused that says this."""
    return pytest.raises(BadInput, match=rf"^(?!.*\n).*{match}")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Relevance.from_positions([0], [1], ["q0", "q1"], ["g0"]), "1 gallery items"),
        (lambda: Relevance.from_positions([2], [0], **IDS), "2 queries"),
        (lambda: Relevance.from_positions([-1], [0], **IDS), "-1 to -1"),
        (lambda: Relevance.from_positions([0, 1], [0], **IDS), "two positions"),
        (lambda: Relevance.from_matrix(np.array([[0, 0, 1], [0, 0, 0]]) > 0, **IDS), r"got shape \(2, 3\)"),
    ],
)
def test_a_relevant_position_outside_is_no_other_pair(build, message):
    with refused(message):
        build()


def test_a_matrix_of_torch_is_a_relevance():
    made = Relevance.from_matrix(torch.eye(2) > 0, **IDS)
    assert [made[n].tolist() for n in range(2)] == [[0], [1]]


MEASURES = [metrics.first_rank, metrics.r_precision, metrics.map_at_r, metrics.median_rank, metrics.mean_rank]
MEASURES += [lambda r: metrics.recall_at_k(r, 10), lambda r: metrics.precision_at_k(r, 10)]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("indptr", [[0, 1, 1, 2], [0, 1, 2, 2], [0, 0, 1, 2]])
def test_a_query_without_a_relevant_item_has_no_rank_of_another(measure, indptr):
    with refused("has no relevant item"):
        measure(RelevantRanks(np.array(indptr), np.array([2, 9]), 10))


def test_features_beyond_the_stored_type_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))

    def work(start):
        yield np.full((2, 3), 1e6, np.float32)

    with refused("features of image 'a' are not finite as float16"):
        cached_array("features", ["x"], (2, 3), np.float16, work, names=["a", "b"])


def test_a_line_that_cannot_be_read_changes_no_verdict(tmp_path):
    path = tmp_path / "judgments.jsonl"
    line = {"query": ["text", "a"], "item": ["images", "1.jpg"]}
    path.write_text("\n".join(json.dumps({**line, "verdict": word}) for word in ("right", "maybe")) + "\n")
    judgments = Judgments.read(path)
    assert judgments.verdict(("text", "a"), ("images", "1.jpg")) == "right"
    before = path.read_bytes()
    with refused("named by its kind and its id"):
        judgments.mark("a dog", "1.jpg", "right")
    assert path.read_bytes() == before


@pytest.mark.parametrize("names", [{"dataset": "flickr8k", "data_root": "x"}, {"size": "tiny"}, {"world_seed": 1}])
def test_fit_takes_no_name_that_it_does_not_read(names):
    with refused(f"leave out {', '.join(names)}"):
        xmr.fit("vse++", images=FEATURES, captions=SENTENCES, d=8, epochs=1, device="cpu", **names)


def test_what_a_corpus_does_not_read():
    assert DataConfig().unread(["fold", "size", "data_root"]) == ["fold", "data_root"]
    assert DataConfig("cub", "x").unread(["fold", "size"]) == ["size"]
    assert DataConfig("coco", "x").unread(["fold", "size"]) == ["fold", "size"]
    assert main(["train", "dive", "fold=9"]) == 2


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"captions": None}, "captions must"),
        ({"captions": pd.Series([*SENTENCES[:-1], np.nan], index=range(100, 120))}, "captions must"),
        ({"splits": 0.8}, "splits"),
    ],
)
def test_arrays_of_other_kinds_are_refused_in_one_sentence(arguments, word):
    with refused(word):
        xmr.from_arrays(**{"features": FEATURES, "captions": SENTENCES, **arguments})


def test_captions_of_any_kind_and_features_of_any_order_of_bytes_are_taken():
    plain = xmr.from_arrays(FEATURES, SENTENCES)
    for captions in (iter(SENTENCES), pd.Series(SENTENCES, index=range(100, 120)), tuple(SENTENCES)):
        assert xmr.from_arrays(FEATURES, captions).fingerprint == plain.fingerprint
    assert xmr.from_arrays(FEATURES.astype(">f4"), SENTENCES).features.dtype.isnative


def test_regions_of_any_kind_are_read():
    inputs = type("Sizes", (), {"cells": 3, "image_width": 8})
    wanted = torch.from_numpy(FEATURES)
    for given in (wanted, wanted.double().requires_grad_(), FEATURES.astype(">f4"), list(wanted), FEATURES.tolist()):
        assert torch.equal(regions(listed(given, False), inputs).local_feats, wanted)
    half = regions(listed(wanted.bfloat16(), False), inputs).local_feats
    assert torch.equal(half, wanted.bfloat16().float())
    frozen = FEATURES.copy()
    frozen.setflags(write=False)
    assert torch.equal(regions(listed(frozen, False), inputs).local_feats, wanted)
    one = type("Sizes", (), {"cells": 1, "image_width": 8})
    assert regions(listed(pd.DataFrame(FEATURES[:, 0]), False), one).local_feats.shape == (20, 1, 8)


def test_one_image_of_torch_is_one_image():
    model = example_model()
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    wanted = model.encode_images(pixels).x
    assert torch.equal(model.encode_images(torch.from_numpy(pixels)).x, wanted)
    assert torch.equal(model.encode_images(Image.fromarray(pixels)).x, wanted)
    with refused("got None"):
        model.encode_images(None)


def test_a_search_by_any_image_and_by_one_sentence():
    library, pixels = example_library(), np.full((64, 64, 3), 99, np.uint8)
    for image in (pixels, Image.fromarray(pixels), torch.from_numpy(pixels)):
        assert np.array_equal(pixels_of(image), pixels)
    with refused("got int"):
        search(library, image=3)
    with refused("one sentence or one image"):
        search(library, ["a red square"])
    for k in ("3", 1.5, 0):
        with refused("k must be at least 1 and a whole number"):
            search(library, "a red square", k=k)


def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with refused("path of the index is empty"):
        named("", "index")
    with refused("the path of the model's folder is empty"):
        example_model().save_pretrained("")
    assert main(["check", "folder", ""]) != 0 and "is empty" in "".join(capsys.readouterr())
    assert not list(tmp_path.iterdir())
