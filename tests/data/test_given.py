"""What a user may give is taken as meant, or refused in one sentence; it never gives a wrong answer silently."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import xmr_core as xmr
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import named
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Embedding, RelevantRanks
from xmr_core.data.config import DataConfig
from xmr_core.data.raw_inputs import listed, regions
from xmr_core.evaluation import metrics
from xmr_core.evaluation.ranks import best
from xmr_core.evaluation.scoring import MatrixScores
from xmr_core.evaluation.stats import paired_permutation
from xmr_core.features.cache import cached_array
from xmr_core.retrieval.export import export_frame
from xmr_core.retrieval.judgments import Judgments
from xmr_core.retrieval.library import example_library, example_model
from xmr_core.retrieval.search import pixels_of, search
from xmr_core.similarities.vectors import cosine
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


def test_the_best_of_scores_that_are_no_numbers_are_refused():
    for scores in (np.array([[0.1, np.nan, 0.3]]), np.full((1, 3), np.nan)):
        with refused("is not a number"):
            best(MatrixScores(scores), 3, "images")
    with refused("unknown modality of the queries 'image'"):
        best(MatrixScores(np.eye(2)), 1, modality="image")
    for k in ("3", 1.5, 0, True):
        with refused("k must be at least 1 and a whole number"):
            best(MatrixScores(np.eye(2)), k)


def test_a_permutation_test_needs_numbers_and_knows_no_unit():
    a, b = np.arange(8.0), np.arange(8.0)[::-1] - 5
    with refused("must be finite"):
        paired_permutation(np.array([0.1, np.nan, 0.3]), np.array([0.1, 0.2, 0.3]), np.arange(3))
    usual, small = (paired_permutation(s * a, s * b, np.arange(8), resamples=499)[1] for s in (1.0, 1e-11))
    assert usual == small < 0.5


def test_features_beyond_the_stored_type_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))

    def work(start):
        yield np.arange(2), np.full((2, 3), 1e6, np.float32)

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


def test_the_ks_may_come_one_by_one():
    table = xmr.rank_metrics(np.eye(3), [[0], [1], [2]], ks=(k for k in (1, 5)))
    assert {"R@1", "R@5"} <= table.keys()


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
    ("option", "message"),
    [({"nested": "true"}, "nested must be of type bool, got 'true'"), ({"slots": 999_999}, "slots must be")],
)
def test_an_option_says_what_it_takes(option, message):
    with refused(message):
        xmr.base_config("dive", device="cpu", **option)


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
    with refused("got list"):
        search(library, ["a red square"])
    for k in ("3", 1.5, 0):
        with refused("k must be at least 1 and a whole number"):
            search(library, "a red square", k=k)


def test_nothing_to_rank_is_said_so():
    model = example_model()
    images = model.encode_images(np.zeros((2, 64, 64, 3), np.uint8))
    with refused("there is no image to be ranked"):
        model.rank(["a red square"], images[:0])
    with refused("k must be at least 1 and a whole number"):
        model.rank(["a red square"], images, k=1.5)


def test_a_model_is_loaded_as_it_is_and_another_object_is_named_shortly():
    model = example_model()
    assert xmr.load(model, device="cpu") is model
    with pytest.raises(BadInput) as error:
        xmr.load(xmr.base_config("dive", device="cpu"))
    assert len(str(error.value)) < 200 and "RunConfig" in str(error.value)


def test_a_device_is_named_as_everywhere():
    items, relevance = Embedding(torch.eye(2)), {"annotated": Relevance.from_pairs([(0, 0), (1, 1)], [0, 1], [0, 1])}
    table = xmr.evaluate(cosine, items, items, relevance, device="auto").summary()
    assert table["value"].tolist() == xmr.evaluate(cosine, items, items, relevance).summary()["value"].tolist()
    with refused("unknown device 'gpu'"):
        xmr.evaluate(cosine, items, items, relevance, device="gpu")
    with refused("images and captions must be representations, such as"):
        xmr.evaluate(cosine, np.eye(2), np.eye(2), relevance)


def test_scores_of_any_kind_are_evaluated():
    relevance = Relevance.from_pairs([(0, 0), (1, 1)], [0, 1], [0, 1])
    for scores in (np.eye(2, dtype=int), torch.eye(2).bfloat16(), torch.eye(2, requires_grad=True), [[1, 0], [0, 1]]):
        table = xmr.evaluation.evaluate_scores(scores, {"annotated": relevance}).per_query
        assert table["first_rank"].tolist() == [1, 1, 1, 1]
    for relevances in (relevance, {"annotated": [[0], [1]]}):
        with refused("relevances must be a mapping such as"):
            xmr.evaluation.evaluate_scores(np.eye(2), relevances)


def test_one_sentence_is_exported_as_one():
    frame = export_frame(example_model(), texts="a red square")
    assert frame["text"].tolist() == ["a red square"]


def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with refused("path of the index is empty"):
        named("", "index")
    with refused("the path of the model's folder is empty"):
        example_model().save_pretrained("")
    assert main(["check", "folder", ""]) != 0 and "is empty" in "".join(capsys.readouterr())
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_image_is_named_once(tmp_path):
    (tmp_path / "notes.txt").write_text("no image")
    with pytest.raises(DamagedFile) as error:
        search(example_library(), image=tmp_path / "notes.txt")
    assert "BufferedReader" not in str(error.value)
