"""xmr.load gives one object for every source, and a folder that travels."""

import copy
import io
import json
import pickle
import shutil
import warnings

import numpy as np
import pandas as pd
import pytest
import tiny_models
import torch
from PIL import Image
from test_checkpoints import WORDS, bert_file, chan_file, outer, scan_file
from tiny import tiny_config

import xmr_core as xmr
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data import DataConfig, prepare
from xmr_core.data.inputs import listed, regions
from xmr_core.evaluation.analysis import encode_split
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.features.cells import CellDescriptor
from xmr_core.methods import methods
from xmr_core.methods.checkpoint import save_method
from xmr_core.models.model_folder import read_model, write_model
from xmr_core.retrieval.index import index_folder, open_index
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


@pytest.fixture
def model():
    return example_model()


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda m: m.encode_texts(["a dog", "  "]), "at least one word"),
        (lambda m: m.encode_texts("a dog \ud83d"), "at least one word"),
        (lambda m: m.raw.new_captions(["a dog \ud83d"]), "at least one word"),
        (lambda m: xmr.from_arrays(np.ones((2, 3)), ["a dog", "a \ud83d"], splits="test"), "captions must be a list"),
        (lambda m: m.encode_texts(None), "sentences must"),
        (lambda m: m.encode_images([]), "no image"),
        (lambda m: m.encode_images(None), "images must be a list"),
        (lambda m: m.encode_images({"a.png"}), "images must be a list"),
        (lambda m: m.encode_images(pd.DataFrame({"image": ["a.png"]})), "images must be a list"),
        (lambda m: m.encode_texts({"a": "a dog"}), "sentences must be a list"),
        (lambda m: m.encode_texts(pd.DataFrame({"text": ["a dog"]})), "sentences must be a list"),
        (lambda m: xmr.data.from_arrays(np.eye(10), dict.fromkeys("abcdefghij")), "captions must be a list"),
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


def test_a_method_left_in_training_gives_the_same_scores():
    model = example_model("sgraf")
    images = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), np.uint8)
    wanted = model.similarity(images, ["a red square", "a ring"])
    model.method.train()
    assert torch.equal(model.similarity(images, ["a red square", "a ring"]), wanted)
    assert all(part.training for part in model.method.modules())


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
    ragged = regions([features[0], features[1][:2], wanted[2][:1]], inputs)
    assert ragged.mask.sum(1).tolist() == [3, 2, 1] and torch.equal(ragged.local_feats[1, :2], wanted[1, :2])
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


def _source(kind: str, folder):
    """A model of this kind, with two images and two sentences that it reads."""
    pixels, regions = np.random.default_rng(0).integers(0, 256, (2, 40, 50, 3), np.uint8), np.ones((2, 3, 5), "f4")
    if kind in ("clip", "siglip"):
        return xmr.load(tiny_models.save(kind, folder / kind)), pixels, ["a dog", "the grass runs"]
    if kind.endswith(" of authors"):
        kind = kind.removesuffix(" of authors")
        content = {"scan": scan_file, "chan": chan_file, "vse-infty": lambda: bert_file("vse-infty")[0]}[kind]()
        words = {"word2idx": WORDS, "idx2word": {str(n): word for word, n in WORDS.items()}, "idx": len(WORDS)}
        (folder / "words.json").write_text(json.dumps(words))
        torch.save(outer(content), folder / "best.pth.tar")
        model = xmr.load(folder / "best.pth.tar", method=kind, vocabulary=folder / "words.json")
        return model, regions + np.arange(2.0, dtype="f4")[:, None, None], ["a dog", "runs"]
    if kind == "fit":
        x = np.random.default_rng(0).normal(size=(20, 3, 5)).astype("f4")
        return (
            xmr.fit("vse++", images=x, captions=["a dog", "cats"] * 10, d=8, epochs=1, batch_images=8),
            x[:2],
            ["dog"],
        )
    if kind == "export":
        example = example_model("scan")
        about = {"dataset": "scenes", "features": "cells"}
        words, of = example.raw.vocabulary, example.about
        save_method(
            folder / "e.safetensors", example.method, example.raw.inputs, words, of["form"], of["options"], about
        )
        return xmr.load(folder / "e.safetensors"), pixels, ["a red circle", "a ring"]
    return example_model(kind), pixels, ["a red circle", "a ring"]


OPENED = ("clip", "siglip", "scan of authors", "chan of authors", "vse-infty of authors", "export")


@pytest.mark.parametrize("kind", [*OPENED, pytest.param("fit", marks=pytest.mark.slow), *methods()])
def test_every_model_is_copied_pickled_and_saved_with_equal_scores_and_a_short_repr(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    model, images, texts = _source(kind, tmp_path)
    scores, buffer = model.similarity(images, texts), io.BytesIO()
    torch.save(model, buffer)
    first = model.save_pretrained(tmp_path / "saved")
    again = xmr.load(first).save_pretrained(tmp_path / "again")
    again = xmr.load(again).save_pretrained(again)  # over itself
    shutil.rmtree(first)
    copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model)), xmr.load(again, device="cpu")
    buffer.seek(0)
    for other in (*copies, torch.load(buffer, weights_only=False)):
        assert torch.equal(other.similarity(images, texts), scores) and other.label == model.label
        assert len(repr(other)) < 1200 and model.label in repr(other)
    assert not [path for path in again.rglob("*") if path.name.endswith("lock")]


def test_what_is_printed_in_a_notebook_is_short():
    library = example_library()
    prepared = prepare(DataConfig(size="tiny"), progress=iter)
    own = prepared.splits["test"].relevance
    for thing in (library, library.images, library.raw, prepared, prepared.vocabulary, own, prepared.inputs):
        assert len(repr(thing)) < 800 and repr(thing).count("\n") < 8
    assert "2 × 3" in repr(xmr.Embedding(torch.zeros(2, 3))) and "64 entries" in repr(prepared.vocabulary)


def test_a_dual_encoder_becomes_an_index(tmp_path):
    (tmp_path / "images").mkdir()
    for n in range(3):
        Image.fromarray(np.full((40, 50, 3), 80 * n, np.uint8)).save(tmp_path / "images" / f"{n}.png")
    model = xmr.load(tiny_models.save("clip", tmp_path / "clip"))
    opened = open_index(index_folder(model, tmp_path / "images", tmp_path / "index"))
    assert (
        torch.equal(opened.model.encode_texts(["a dog"]).x, model.encode_texts(["a dog"]).x) and len(opened.images) == 3
    )
    assert not [path for path in (tmp_path / "index").rglob("*") if path.name.endswith("lock")]


def test_batches_bars_and_names_of_files(model, tmp_path, capsys):
    files = [tmp_path / f"{n}.png" for n in range(3)]
    for n, file in enumerate(files):
        Image.fromarray(np.full((64, 64, 3), 80 * n, np.uint8)).save(file)
    whole = model.encode_images(files)
    parts = model.encode_images(iter(files), batch_size=2, progress=True)
    assert torch.allclose(parts.x, whole.x, atol=1e-6) and "encoding" in capsys.readouterr().err
    texts = ["a red circle", "a ring", "a"]
    assert torch.allclose(model.encode_texts(texts, batch_size=1).x, model.encode_texts(texts).x, atol=1e-6)
    with pytest.raises(BadInput, match="batch_size"):
        model.encode_texts(texts, batch_size=0)
    table = model.rank("a ring", files)[0]
    assert table["name"].tolist() == [str(files[n]) for n in table["item"]]
    assert model.rank("a ring", str(files[0]))[0]["name"].tolist() == [str(files[0])]
    for gallery in (whole, [Image.open(file) for file in files]):
        assert "name" not in model.rank("a ring", gallery)[0]
    assert "name" not in model.rank(files[0], texts, queries_are="images")[0]


@pytest.mark.parametrize("source", ["https://huggingface.co/owner/it", "https:/huggingface.co/owner/it/tree/main"])
def test_an_address_is_no_name(source):
    with pytest.raises(BadInput, match="'owner/it'"):
        xmr.load(source)


def test_explanations_name_words_where_elements_are_words(model):
    image = np.zeros((64, 64, 3), np.uint8)
    words = example_model("scan").explain(image, "a red circle")["word"].tolist()
    assert words == ["<start>", "a", "red", "circle", "<end>"]
    assert set(model.explain(image, "a red circle")["word"]) == {""}
