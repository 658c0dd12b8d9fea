"""xmr.load gives one object for every source, and a folder that travels."""

import io
import json
import shutil
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from test_checkpoints import outer, scan_file
from tiny import tiny_config

import xmr_core as xmr
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.inputs import listed, regions
from xmr_core.evaluation.analysis import encode_split
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.features.cells import CellDescriptor
from xmr_core.models.model_folder import read_model, write_model
from xmr_core.retrieval.library import example_library, example_model
from xmr_core.retrieval.ranking import search
from xmr_core.training.runs import train_or_load

METHODS = ("vse++", "dive", "pcme", "scan")


@pytest.fixture(scope="module")
def runs(shared_home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(shared_home))
        yield {name: train_or_load(tiny_config(name, epochs=1)) for name in METHODS}


def raw(run, n=6):
    """The first images and captions of the test split, and the run's own scores of them."""
    prepared = run.prepared()
    split, corpus = prepared.splits["test"], prepared.corpus
    images, captions = encode_split(run.method(), split)
    scores = score_matrix(run.method().similarity, images, captions)[:n, :n]
    texts = corpus.captions["text"].iloc[split.caption_rows[:n]].tolist()
    return corpus.read_pixels(split.image_rows[:n]), texts, scores


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_folder_gives_the_scores_of_its_run_from_files_and_sentences(runs, name, tmp_path, monkeypatch):
    pixels, texts, expected = raw(runs[name])
    files = []
    for n, image in enumerate(pixels):
        files.append(tmp_path / f"{n}.png")
        Image.fromarray(image).save(files[-1])
    folder = xmr.load(runs[name].id).save_pretrained(tmp_path / "model")
    shutil.move(folder, tmp_path / "elsewhere")
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "empty"))  # no run, no cache
    model = xmr.load(tmp_path / "elsewhere")
    assert model.similarity(files, texts).numpy() == pytest.approx(expected, abs=1e-6)
    best = model.rank(texts, files, k=2)
    assert [table["item"].tolist() for table in best] == np.argsort(-expected, axis=0, kind="stable")[:2].T.tolist()
    best = model.rank(files[:1], texts, k=6, queries_are="images")[0]
    assert best["item"].tolist() == np.argsort(-expected[0], kind="stable").tolist()


@pytest.mark.slow
def test_the_card_and_the_config_say_what_the_model_is(runs, tmp_path):
    from huggingface_hub import ModelCard

    folder = xmr.load(runs["dive"]).save_pretrained(tmp_path / "model")
    card = ModelCard.load(folder / "README.md")
    assert card.data.library_name == "xmr_core" and card.data.eval_results[0].metric_type == "rsum"
    rsum = runs["dive"].metrics.query("metric == 'rsum' and relevance == 'annotated'")["value"].iloc[0]
    assert card.data.eval_results[0].metric_value == pytest.approx(100 * rsum, abs=0.05)
    config = json.loads((folder / "config.json").read_text())
    assert set(config["files"]) == {"model.safetensors"}
    assert "Kim, Kim & Kwak, CVPR 2023" in card.text and "## Licence" in card.text and card.data.license is None
    assert not [path for path in folder.rglob("*") if path.suffix in (".pkl", ".pt", ".pth", ".bin")]


@pytest.mark.slow
@pytest.mark.parametrize("spoil", ["byte", "missing", "foreign", "format", "torn"])
def test_a_damaged_folder_is_refused_in_one_line(runs, tmp_path, spoil):
    folder = xmr.load(runs["vse++"]).save_pretrained(tmp_path / "model")
    weights, config = folder / "model.safetensors", folder / "config.json"
    values = json.loads(config.read_text())
    if spoil == "byte":
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    elif spoil == "missing":
        weights.unlink()
    elif spoil == "torn":
        del values["files"]
    else:
        values["model_type" if spoil == "foreign" else "format"] = "bert" if spoil == "foreign" else 9
    config.write_text(json.dumps(values))
    with pytest.raises((BadInput, DamagedFile)) as error:
        read_model(folder)
    assert "\n" not in str(error.value) and str(folder) in str(error.value)


def test_a_checkpoint_of_the_authors_reads_regions(tmp_path):
    torch.save(outer(scan_file()), tmp_path / "model_best.pth.tar")
    words = ["<pad>", "<start>", "<end>", "<unk>", "a", "dog"]
    numbers = {word: n for n, word in enumerate(words)}
    content = {"word2idx": numbers, "idx2word": {str(n): word for word, n in numbers.items()}, "idx": len(words)}
    (tmp_path / "vocab.json").write_text(json.dumps(content))
    theirs = {"method": "scan", "vocabulary": tmp_path / "vocab.json", "direction": "t2i"}
    model = xmr.load(tmp_path / "model_best.pth.tar", **theirs)
    regions = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    assert model.similarity(regions, ["a dog", "dog"]).shape == (2, 2)
    for wrong in (regions[..., :4], np.zeros((2, 8, 8, 3), np.uint8)):
        with pytest.raises(BadInput, match="regions"):
            model.encode_images(wrong)
    with pytest.raises(BadInput, match="say whose"):
        xmr.load(tmp_path / "model_best.pth.tar")
    with pytest.raises(BadInput, match="not trained"):
        model.save_pretrained(tmp_path / "model")


@pytest.fixture
def model():
    return example_model()


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda m: m.encode_texts(["a dog", "  "]), "at least one word"),
        (lambda m: m.encode_texts(None), "sentences must"),
        (lambda m: m.encode_images([]), "no image"),
        (lambda m: search(example_library(), image=3), "got int"),
        (lambda m: search(example_library(), ["a red square"]), "one sentence or one image"),
        (lambda m: search(example_library(), "a red square", k=1.5), "k must be at least 1"),
        (lambda m: m.encode_images([np.full((4, 4, 3), 200.0)]), "from 0, black, to 1"),
        (lambda m: m.encode_images("nowhere.png"), "nowhere.png"),
        (lambda m: m.rank(["a dog"], np.zeros((2, 64, 64, 3), np.uint8), queries_are="words"), "queries_are"),
        (lambda m: m.rank(["a dog"], np.zeros((2, 64, 64, 3), np.uint8), k=0), "k must be"),
        (lambda m: m.explain(np.zeros((2, 64, 64, 3), np.uint8), "a dog"), "one image"),
        (lambda m: xmr.load("nothing"), "nothing"),
        (lambda m: xmr.load(__file__), "cannot be read as a method"),
    ],
)
def test_bad_input_gets_one_clear_line(model, call, word):
    with pytest.raises((BadInput, DamagedFile), match=word) as error:
        call(model)
    assert "\n" not in str(error.value)


def test_images_of_any_size_and_kind_are_read_alike(model, tmp_path):
    array = np.random.default_rng(0).integers(0, 256, (40, 70, 3), np.uint8)
    Image.fromarray(array).save(tmp_path / "a.png")
    forms = [array, Image.fromarray(array), tmp_path / "a.png", str(tmp_path / "a.png"), array[None], [array]]
    content, first = (tmp_path / "a.png").read_bytes(), torch.from_numpy(array).permute(2, 0, 1)
    forms += [torch.from_numpy(array), first, [first / 255], first[None], content, [content], io.BytesIO(content)]
    forms += [{"bytes": content, "path": None}, ({"bytes": None, "path": str(tmp_path / "a.png")},), iter([array])]
    forms += [{"a": array}.values(), pd.Series([str(tmp_path / "a.png")])]
    encoded = [model.encode_images(form).x for form in forms]
    assert all(torch.equal(x, encoded[0]) for x in encoded[1:])
    many = model.encode_images(np.stack([array] * 70))
    assert len(many) == 70 and torch.allclose(many.x[69], encoded[0][0], atol=1e-6)


def test_regions_of_any_kind_are_read():
    inputs = type("Sizes", (), {"cells": 3, "image_width": 8})
    features = np.random.default_rng(0).normal(size=(20, 3, 8)).astype(np.float32)
    wanted = torch.from_numpy(features)
    for given in (wanted, wanted.double().requires_grad_(), features.astype(">f4"), list(wanted), features.tolist()):
        assert torch.equal(regions(listed(given, False), inputs).local_feats, wanted)
    half = regions(listed(wanted.bfloat16(), False), inputs).local_feats
    assert torch.equal(half, wanted.bfloat16().float())


def test_explanations_add_up_to_the_score(model):
    image = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    of_image = model.method.similarity.contributions(model.encode_images(image), model.encode_texts("a red square"))
    whole = model.explain(image, "a red square")["adds"].sum() + of_image.images.sum()
    assert whole == pytest.approx(float(model.similarity([image], ["a red square"])), abs=1e-6)


class Negative(CellDescriptor):
    """A user's own description of images, of the same shape as the package's."""

    def __init__(self):
        super().__init__(64)
        self.identity = "negative"

    def __call__(self, pixels):
        return super().__call__(255 - pixels)


@pytest.mark.slow
def test_an_exported_file_reads_images_only_where_their_description_is_the_packages_own(runs, tmp_path):
    images = np.random.default_rng(2).integers(0, 256, (2, 64, 64, 3), np.uint8)
    cells = xmr.load(runs["vse++"].export(tmp_path / "cells.safetensors"))
    assert torch.equal(cells.encode_images(images).x, xmr.load(runs["vse++"]).encode_images(images).x)
    negative = train_or_load(tiny_config("vse++", epochs=1, features="test_model:Negative"))
    other = xmr.load(negative.export(tmp_path / "negative.safetensors"))
    assert other.encode_texts(["a dog"]).x.shape[0] == 1
    with pytest.raises(BadInput, match="features of regions must be"):
        other.encode_images(images)


def test_what_a_killed_write_left_over_is_removed_by_the_next(tmp_path):
    """Every file is written under another name first, which a kill leaves behind."""
    model = example_model()
    folder = write_model(model, tmp_path / "model")
    left_over = [folder / ".README.md.1a_b.tmp", folder / ".model.safetensors.2cd.tmp", folder / ".config.json.3.tmp"]
    own = [folder / ".notes.tmp", folder / "README.md.tmp"]  # of its owner
    for path in left_over + own:
        path.write_text("half")
    write_model(model, folder)
    assert not any(path.exists() for path in left_over) and all(path.exists() for path in own)
    assert len(read_model(folder).encode_texts("a red circle")) == 1


def test_input_that_says_nothing_is_told():
    model = example_model()
    image = np.full((32, 32, 3), 200, np.uint8)
    with pytest.warns(UserWarning, match=r"1 of 2 sentences have no word that this model knows.*'zzz qqq'"):
        model.rank(["zzz qqq", "a red circle"], [image])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.encode_texts(["a red zzz"])  # one word is known
