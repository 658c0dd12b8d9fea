"""Data of a user's own: arrays in memory, readers and frozen extractors by name, and any method trained on them."""

import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import xmr_core as xmr
from xmr_core import data
from xmr_core.base.errors import BadInput
from xmr_core.data import corpora
from xmr_core.evaluation.analysis import encode_split
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.features.cells import CellDescriptor
from xmr_core.methods.registry import papers
from xmr_core.training.runs import train_or_load
from xmr_core.training.runs.config import base_config
from xmr_study.cli import main

WORDS = ("dog", "cat", "ball", "house", "tree")


pytestmark = pytest.mark.usefixtures("own_home")


def arrays(n=40, l=3, e=12):
    """Features that say which word the two captions of each image hold."""
    rng = np.random.default_rng(0)
    kinds = np.arange(n) % len(WORDS)
    features = rng.normal(size=(n, l, e)).astype(np.float32) + 3 * np.eye(e, dtype=np.float32)[kinds][:, None]
    captions = [f"{article} {WORDS[k]} number {i}" for i, k in enumerate(kinds) for article in ("a", "the")]
    return features, captions, np.arange(2 * n) // 2


@pytest.mark.slow
@pytest.mark.parametrize("method", list(papers()))
def test_five_lines_train_any_method_on_own_tensors(method):
    features, captions, image_of = arrays()
    corpus = data.from_arrays(torch.from_numpy(features), captions, image_of, name="mine")
    config = base_config(method, device="cpu").replace(data=data.config_for(corpus), epochs=1, d=8, batch_images=8)
    state = torch.get_rng_state()
    run = train_or_load(config)
    assert torch.equal(torch.get_rng_state(), state), "random numbers of the caller are left alone"
    assert run.id.startswith(method.replace("+", "p") + "-mine-") and run.metrics["value"].notna().all()
    assert {"i2t", "t2i"} <= set(run.metrics["direction"]) and len(run.per_query) == 4 + 8


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series])
def test_captions_may_be_given_as_lists_for_each_image(kind):
    features = np.random.default_rng(0).normal(size=(10, 3, 4))
    flat = data.from_arrays(features, ["a", "b", "c"] * 5, image_of=np.repeat(np.arange(10), [2, 1] * 5))
    nested = data.from_arrays(features, [kind(["a", "b"]), kind(["c"])] * 5)
    assert nested.fingerprint == flat.fingerprint
    for wrong in ([["a"]] * 9, [["a"]] * 9 + [[]], [["a"]] * 9 + ["b"]):
        with pytest.raises(BadInput, match="caption"):
            data.from_arrays(features, wrong)
    with pytest.raises(BadInput, match="as many elements"):
        data.from_arrays([np.ones((2, 3)), np.ones((3, 3))] * 5, ["a"] * 10)


def test_the_corpus_of_arrays_holds_what_was_given():
    features, captions, image_of = arrays(10)
    order = np.random.default_rng(1).permutation(len(captions))
    names = ["train"] * 6 + ["val", "test"] * 2
    corpus = data.from_arrays(features.astype(np.float16), [captions[i] for i in order], image_of[order], names)
    prepared = data.prepare(corpus)
    assert corpus.images["split"].tolist() == names and prepared.inputs.resolution == 224
    for split, n in (("train", 6), ("val", 2), ("test", 2)):
        part = prepared.splits[split]
        assert len(part.image_rows) == n and len(part.caption_rows) == 2 * n
        read = part.images_at(np.arange(n))
        assert read.local_feats.dtype == torch.float16
        assert (read.local_feats.numpy() == features.astype(np.float16)[part.image_rows]).all()
        assert (part.image_rows[part.owners] == image_of[order][part.caption_rows]).all()


def test_one_vector_an_image_is_one_local_element():
    corpus = data.from_arrays(torch.eye(10, dtype=torch.bfloat16), [f"number {n}" for n in range(10)])
    assert corpus.features.shape == (10, 1, 10)
    assert [len(corpus.rows(s)[0]) for s in ("train", "val", "test")] == [8, 1, 1]
    assert not data.prepare(corpus).inputs.ordered_cells
    assert data.prepare(data.from_arrays(np.eye(10), list("abcdefghij"), ordered=True)).inputs.ordered_cells


def test_a_fingerprint_is_content():
    features, captions, image_of = arrays(10)
    same, other = features.copy(), features.copy()
    other[3, 1, 2] += 1
    made = [data.from_arrays(f, captions, image_of).fingerprint for f in (features, same, other)]
    assert made[0] == made[1] != made[2]
    assert (
        data.from_arrays(features, captions, image_of, {"train": 0.6, "val": 0.2, "test": 0.2}).fingerprint != made[0]
    )
    assert data.from_arrays(features, [*captions[:-1], "a bird"], image_of).fingerprint != made[0]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"features": np.zeros((4, 2, 3, 1))}, "must be floats of shape"),
        ({"features": np.full((10, 3), np.nan)}, "finite"),
        ({"image_of": np.arange(1, 11)}, "image_of"),
        ({"captions": list("abcdefghi")}, "9 captions of 10 images.*for each caption the row"),
        ({"captions": list("abcde") * 10}, r"50 captions of 10 images.*image_of.*np.repeat\(np.arange\(10\), 5\)"),
        ({"splits": 0.8}, "splits"),
        ({"splits": ["train"] * 10}, "at least once"),
        ({"splits": {"train": 0.5, "test": 0.4}}, "sum to 1"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused_in_one_line(changes, message):
    with pytest.raises(BadInput, match=message) as error:
        data.from_arrays(**{"features": np.eye(10), "captions": list("abcdefghij"), **changes})
    assert "\n" not in str(error.value)


def test_a_corpus_of_another_process_is_named():
    config = data.config_for(data.from_arrays(np.eye(10), list("abcdefghij"), name="gone"))
    with pytest.raises(BadInput, match="the corpus gone is not in the memory of this process"):
        data.corpus_of(replace(config, corpus="0" * 16))


OWN = """
from xmr_core.data.scenes import load_scenes
from xmr_core.features.cells import CellDescriptor

def load(data_root):
    assert data_root == "somewhere"
    return load_scenes("tiny", 0, 0.05)

class Doubled(CellDescriptor):
    def __init__(self):
        super().__init__()
        self.identity = "doubled-1"

    def __call__(self, pixels):
        return 2 * super().__call__(pixels)

class Nameless:
    pass
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_pieces.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_pieces"
    sys.modules.pop("own_pieces", None)


@pytest.mark.slow
def test_readers_and_extractors_of_a_users_own_are_found_by_name(own_module):
    config = data.DataConfig(f"{own_module}:load", "somewhere", features=f"{own_module}:Doubled")
    prepared = data.prepare(config)
    split = prepared.splits["test"]
    pixels = prepared.corpus.read_pixels(split.image_rows[:3])
    assert (split.images_at(np.arange(3)).local_feats.numpy() == 2 * CellDescriptor()(pixels)).all()
    assert prepared.identity["features"].startswith("doubled-1-code-") and prepared.inputs.image_width == 92
    own = base_config("vse++", dataset=f"{own_module}:load", data_root="somewhere", device="cpu")
    run = train_or_load(own.replace(data=config, epochs=1, d=8, batch_images=16))
    assert len(run.per_query) and ":" not in run.id
    for changes, message in (
        ({"dataset": "no_such_module:load"}, "cannot be imported"),
        ({"features": f"{own_module}:Nameless"}, "is no extractor: it has no attribute 'identity'"),
    ):
        with pytest.raises(BadInput, match=message):
            data.prepare(replace(config, **changes))


def test_a_registered_reader_is_a_data_set(monkeypatch):
    monkeypatch.setattr("xmr_core.data.corpora.READERS", dict(data.READERS))
    monkeypatch.setattr(sys.modules["xmr_core.data.prepare"], "READERS", corpora.READERS)
    seen = []
    for seed in (0, 1):  # the second time it is read anew
        data.register_reader("holiday", lambda data_root, seed=seed: data.load_scenes("tiny", seed, 0.05))
        seen.append(data.prepare(data.DataConfig("holiday", features="cells"), progress=iter).corpus.fingerprint)
    assert seen[0] != seen[1]
    assert base_config(dataset="holiday", device="cpu").data.dataset == "holiday"
    for name in ("coco", "scenes", "a/b", "package:load", ""):
        with pytest.raises(BadInput, match="name"):
            data.register_reader(name, data.load_folder)
    with pytest.raises(BadInput, match="Did you mean 'holiday'"):
        data.prepare(data.DataConfig("holidays", "x"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dive", "scan"])
def test_fit_trains_in_one_call_and_returns_a_model(method, tmp_path):
    features, captions, image_of = arrays()
    own = {"images": torch.from_numpy(features), "captions": captions, "image_of": image_of, "device": "cpu"}
    events = []
    model = xmr.fit(method, **own, d=8, epochs=1, batch_images=8, report=events.append)
    run = xmr.training.runs.load(model.about["run"])
    assert events[-1]["run"] == run.id and run.config.batch_images == 8 and model.about["results"][0]["images"] == 4
    part = run.prepared().splits["test"]
    scores = model.similarity(features[part.image_rows], [captions[n] for n in part.caption_rows])
    expected = score_matrix(run.method().similarity, *encode_split(run.method(), part))
    assert np.abs(scores.numpy() - expected).max() < 1e-6
    again = xmr.fit(method, **own, d=8, epochs=1, batch_images=8, report=events.append)
    assert again.about["run"] == run.id and sum(e.get("epoch_done", False) for e in events) == 1, "loaded"
    folder = model.save_pretrained(tmp_path / "model")
    assert torch.equal(xmr.load(folder).similarity(features[:2], ["a dog"]), model.similarity(features[:2], ["a dog"]))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pcme++"])
def test_a_program_in_double_precision_gets_the_same_model(method, monkeypatch, tmp_path):
    features, captions, image_of = arrays()
    scores = []
    for dtype in (torch.float32, torch.float64):
        monkeypatch.setenv("XMR_HOME", str(tmp_path / str(dtype)))
        torch.set_default_dtype(dtype)
        try:
            model = xmr.fit(method, images=features, captions=captions, image_of=image_of, d=8, epochs=1, device="cpu")
            scores.append(model.similarity(features[:4], captions[:4]))
            assert torch.get_default_dtype() == dtype
        finally:
            torch.set_default_dtype(torch.float32)
    assert torch.equal(*scores)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"alhpa": 8.0}, "unknown option of dive 'alhpa'. Did you mean 'alpha'"),
        ({"method": "div"}, "unknown method 'div'. Did you mean 'dive'"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"dataset": "flickr8k", "data_root": "x"}, "leave out dataset, data_root"),
    ],
)
def test_fit_refuses_in_one_line(changes, message):
    given = {"method": "dive", "images": np.eye(40), "captions": list(map(str, range(40))), "device": "cpu"} | changes
    with pytest.raises(BadInput, match=message) as error:
        xmr.fit(given.pop("method"), **given)
    assert "\n" not in str(error.value)


def test_what_a_corpus_does_not_read():
    assert data.DataConfig().unread(["fold", "size", "data_root"]) == ["fold", "data_root"]
    assert data.DataConfig("cub", "x").unread(["fold", "size"]) == ["size"]
    assert main(["train", "dive", "fold=9"]) == 2


def test_captions_of_any_kind_and_features_of_any_order_of_bytes_are_taken():
    features, captions, _ = arrays(20)
    plain = data.from_arrays(features, captions[:20])
    for given in (iter(captions[:20]), pd.Series(captions[:20], index=range(100, 120))):
        assert data.from_arrays(features, given).fingerprint == plain.fingerprint
    assert data.from_arrays(features.astype(">f4"), captions[:20]).features.dtype.isnative


def test_images_that_stand_several_times_in_a_row_are_told():
    features, captions, _ = arrays(20)
    with pytest.warns(UserWarning, match="every image stands 5 times in a row"):
        data.from_arrays(np.repeat(features[:20], 5, axis=0), [*captions[:20]] * 5)
    model, drawn = xmr.load("shipped:vse++", device="cpu"), data.load_scenes("tiny")
    pixels = drawn.read_pixels(range(4))
    with pytest.warns(UserWarning, match="every image stands 5 times in a row"):
        model.evaluate(images=np.repeat(pixels, 5, axis=0), captions=drawn.captions["text"].iloc[:20])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.from_arrays(np.concatenate([features[:1], features[:19]]), captions[:20])  # two that are alike


def test_a_dotted_name_in_a_folder_of_a_model_runs_no_code(tmp_path, monkeypatch):
    """An address without a colon is importable too, by other functions than ours."""
    (tmp_path / "evil.py").write_text("import sys; sys.evil = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadInput, match="is no address"):
        corpora.import_named("evil.X", "features")
    assert "evil" not in sys.modules
