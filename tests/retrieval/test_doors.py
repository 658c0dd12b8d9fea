"""The same thing asked at every door: the command line, Python, a frame and the explorer give the same run, the same
numbers and the same order, or say why not.
"""

import io
import json
import os
import shutil
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from test_checkpoints import outer, scan_file
from tiny import tiny_config

import xmr_core as xmr
from xmr_core import commands
from xmr_core.base.errors import BadInput
from xmr_core.data import DataConfig, from_arrays, from_frame, load_folder
from xmr_core.retrieval import Query, rank, search
from xmr_core.retrieval.index import index_folder, open_index
from xmr_core.training.runs.train_run import plan_run
from xmr_study.cli import main
from xmr_study.parameters import declared_parameters
from xmr_study.running import given_parameters
from xmr_study.variants import config_from

TEXTS = ["a red dog", "two café cats", "a blue bird", "the old man"]
SMALL = {"features": "cells", "d": 8, "epochs": 1, "batch_images": 4, "device": "cpu"}


@pytest.fixture(autouse=True)
def own_folder(own_home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def photos(tmp_path):
    """Twelve images, some turned by EXIF, with captions and all splits."""
    folder, rows = tmp_path / "photos", []
    (folder / "sub").mkdir(parents=True)
    for n in range(12):
        pixels = np.random.default_rng(n).integers(0, 256, (40 + n, 60, 3), np.uint8)
        exif = Image.Exif()
        exif[0x0112] = 6 if n % 2 else 1
        name = f"sub/{n:02}.jpg" if n % 3 else f"{n:02}.png"
        Image.fromarray(pixels).save(folder / name, exif=exif)
        rows.append({"image": name, "caption": TEXTS[n % 4], "split": ("train", "val", "test")[n % 3]})
    pd.DataFrame(rows).to_csv(folder / "captions.csv", index=False)
    return folder


def command(*words) -> object:
    """The configuration that a command `train` means."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(commands.COMMANDS, "train", lambda a: seen.append(commands.train_config(a)) or 0)
        assert main(["train", *map(str, words)]) == 0
    return seen[0]


def test_a_run_has_one_name_at_every_door(photos, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(photos)
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = plan_run(xmr.base_config("dive", dataset="folder", data_root=str(photos), alpha=8.0, clip=1.0, **SMALL))
    small = [f"{name}={value}" for name, value in SMALL.items()]
    for place in (photos, "photos", "photos/", "./photos/../photos", "~/photos", tmp_path / "link", "~/link/"):
        for words in (["--dataset", "folder", "--data-root", place], ["dataset=folder", f"data_root={place}"]):
            config = command("dive", *words, "alpha=8", "clip=1", *small)
            assert plan_run(config).id == expected.id, (place, words)
    numbers = {"clip": np.float32(1), "alpha": 8, "seed": np.int64(0), "lr": np.float64(2e-3), "erase": 0}
    changed = xmr.base_config("dive", dataset="folder", data_root=str(photos), **{**SMALL, **numbers})
    assert plan_run(changed).id == expected.id
    assert plan_run(command("dive", "dataset=folder", "data_root=photos", "alpha=8.0", "clip=1.", "lr=2E-3", *small)).id
    other = command("dive", "dataset=folder", "data_root=photos", "alpha=8", "clip=1", "lr=1e-3", *small)
    assert plan_run(other).id != expected.id and other.train.lr == 0.001
    declared = declared_parameters(Path(xmr.__file__).parents[1] / "notebooks" / "train.ipynb")
    pairs = [("dataset", "folder"), ("data_root", "photos"), ("alpha", "8"), ("device", "cpu"), ("epochs", "1")]
    p = given_parameters(declared, pairs, [])
    by_notebook = config_from({n: f.default for n, f in declared.items()} | p, "dive", alpha=p["alpha"], clip=1)
    assert plan_run(by_notebook.replace(**SMALL)).id == expected.id
    with pytest.raises(BadInput, match="a parameter twice"):
        given_parameters(declared, [*pairs, ("alpha", "4")], [])
    written = tmp_path / "mine.json"
    written.write_text(json.dumps({"config": vars_of(expected.config)}))
    assert plan_run(command("--config", written)).id == expected.id
    assert plan_run(command("--config", written, "lr=1e-3")).id == plan_run(other).id


def vars_of(config) -> dict:
    return {**vars(config), "data": vars(config.data), "train": vars(config.train), "options": dict(config.options)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "dive", "alpha='8'"], "alpha must be of type float"),
        (["train", "dive", "alpha=8", "alpha=4"], "alpha is given twice"),
        (["train", "dive", "--dataset", "folder", "dataset=coco"], "dataset is given twice"),
        (["train", "--preset", "study"], "give a method"),
        (["train", "dive", "--config", "a.json"], "without a method"),
        (["train", "--config", "a.json", "--preset", "study"], "without a method"),
        (["train", "--config", "a.json"], "not found"),
        (["train", "--config", "photos/captions.csv"], "cannot be read as JSON"),
        (["train", "dive", "data_root=photos"], "scenes does not read data_root"),
        (["options", "dvie"], "Did you mean 'dive'"),
        (["rm", "dive-1"], "unknown run"),
        (["evaluate", "nope", "folder", "photos"], "no run, folder or file"),
        (["evaluate", "model"], "has no corpus of its own"),
        (["evaluate", "model", "folder", "photos", "size=tiny"], "or scenes with its options"),
        (["evaluate", "model", "folder", "photos", "more"], "a corpus is"),
        (["evaluate", "model", "photos", "method=scan"], "no checkpoint of the authors"),
        (["evaluate", "model", "photos", "--split", "tset"], "captions in: test, train, val"),
        (["evaluate", "model", "photos", "--relevance", "eccv"], "unknown relevance"),
        (["evaluate", "model", "bare"], "has no captions"),
        (["search", "index", "a red dog", "--image", "photos/00.png"], "not both"),
        (["search", "index", "a red dog", "-k", "0"], "k must be at least 1"),
        (["search", "index", "a red dog", "--fast"], "no elements.json"),
        (["explore", "index", "--run", "dive-1"], "holds its own model"),
    ],
)
def test_nothing_that_is_given_is_ignored(photos, tmp_path, capsys, words, message):
    model = xmr.retrieval.example_model()
    model.save_pretrained("model")
    (tmp_path / "bare").mkdir()
    shutil.copy(photos / "00.png", tmp_path / "bare")
    if "index" in words:
        pytest.importorskip("faiss")
        index_folder(model, photos, "index")
    if words[0] == "explore":
        pytest.importorskip("voila")
    capsys.readouterr()
    assert main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_a_search_gives_one_order_and_the_same_scores_at_every_door(photos, tmp_path, capsys):
    model = xmr.retrieval.example_model()
    index_folder(model, photos, "index")
    library = open_index("index")
    files = [photos / name for name in library.image_ids]
    decomposed = unicodedata.normalize("NFD", "a red café circle")
    for text in ("a red café circle", decomposed, "  a red café circle \n"):
        expected = search(library, text, k=12)
        (by_model,) = model.rank([text], files, k=12)
        by_explorer = rank(library, Query("text", text)).order
        assert main(["search", "index", text, "-k", "12", "--json"]) == 0
        answers = json.loads(capsys.readouterr().out)["answers"]
        assert [a["item"] for a in answers] == expected["item"].tolist()
        assert library.image_ids[by_model["item"]].tolist() == expected["item"].tolist()
        assert library.image_ids[by_explorer].tolist() == expected["item"].tolist()[:10]
        for scores in (by_model["score"], [a["score"] for a in answers]):
            np.testing.assert_allclose(scores, expected["score"], atol=1e-6)
    first = search(library, "a red café circle", k=12)["item"].tolist()
    assert search(library, decomposed, k=12)["item"].tolist() == first

    for n in (0, 1):  # the second is turned by EXIF
        opened = Image.open(files[n])
        pixels = xmr.data.inputs.pixels_of(files[n])
        tables = [search(library, image=image, k=4) for image in (files[n], str(files[n]), opened, pixels)]
        tables[1:1] = [
            model.rank([i], library.texts.tolist(), k=4, queries_are="images")[0] for i in (opened, files[n])
        ]
        for table in tables:
            np.testing.assert_allclose(table["score"], tables[0]["score"], atol=1e-6)
    assert main(["search", "index", "a red circle", "-k", "50"]) == 0
    assert "12 answers, and not 50: there are no more" in capsys.readouterr().err


def test_a_model_is_evaluated_alike_by_every_door(photos, capsys):
    model, corpus = xmr.retrieval.example_model(), load_folder(photos)
    model.save_pretrained("model")
    expected = model.evaluate(photos)
    i, t = corpus.rows("test")
    texts, files = corpus.captions["text"].iloc[t].tolist(), corpus.images["path"].iloc[i].tolist()
    doors = [
        model.evaluate(str(photos) + "/"),
        model.evaluate(corpus),
        model.evaluate(DataConfig("folder", str(photos))),
    ]
    doors += [xmr.load("model").evaluate(photos, dataset="folder"), model.evaluate(corpus, relevance="annotated")]
    owners = corpus.images.index[i].get_indexer(corpus.captions["image_id"].iloc[t])
    for images in (files, [Image.open(f) for f in files], [xmr.data.inputs.pixels_of(f) for f in files]):
        doors.append(model.evaluate(images=images, captions=texts, image_of=owners))
    own = corpus.relevance_sets["annotated"]("test")
    doors.append(model.evaluate(corpus, relevance={"mine": own}))
    for found in doors:
        annotated = found.metrics[found.metrics["relevance"].isin(["annotated", ""])].reset_index(drop=True)
        pd.testing.assert_frame_equal(annotated, expected.metrics, check_dtype=False)
        assert found.chance() == expected.chance()
    mine = doors[-1].metrics
    assert (
        mine.loc[mine["relevance"] == "mine", "value"].tolist()
        == expected.metrics["value"][: (mine["relevance"] == "mine").sum()].tolist()
    )
    for words in (["photos"], ["folder", "photos"]):
        assert main(["evaluate", "model", "--json", *words, "--per-query", "rows.csv"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["metrics"] == expected.metrics.to_dict("records") and said["id"] == expected.id
        assert (
            said["images"] == said["results"][0]["captions"] == 4 and said["splits"] == "column split of captions.csv"
        )
    assert len(pd.read_csv("rows.csv")) == len(expected.per_query) == 8
    assert main(["evaluate", "model", "photos"]) == 0
    assert (
        "R@1" in (out := capsys.readouterr().out)
        and "(a random ranking, annotated)" in out
        and "4 images, 4 captions" in out
    )


def test_a_shuffled_frame_is_read_by_position_and_relevance_by_id(photos):
    model, corpus = xmr.retrieval.example_model(), load_folder(photos)
    table = pd.read_csv(photos / "captions.csv").sample(frac=1, random_state=1)
    images, texts = table["image"].map(lambda name: str(photos / name)), table["caption"]
    wanted = model.evaluate(images=images.tolist(), captions=texts.tolist()).metrics
    arrays = [torch.from_numpy(xmr.data.inputs.pixels_of(f).copy()) for f in images]
    for given in (images, iter(images), arrays):
        found = model.evaluate(images=given, captions=texts, image_of=torch.arange(12)).metrics
        pd.testing.assert_frame_equal(found, wanted)
    mine = [[n] for n in range(12)]
    found = model.evaluate(images=images, captions=texts, relevance={"mine": mine}).metrics
    values = [found.loc[found["relevance"] == kind, "value"].tolist() for kind in ("annotated", "mine")]
    assert values[0] == values[1]
    own = corpus.relevance_sets["annotated"]("test")
    qrels = {c: {own.gallery_ids[own[n][0]]: 1} for n, c in enumerate(own.query_ids)}
    found = model.evaluate(corpus, relevance={"mine": qrels}).metrics
    values = [found.loc[found["relevance"] == kind, "value"].tolist() for kind in ("annotated", "mine")]
    assert values[0] == values[1]
    with pytest.raises(BadInput, match="needs ids"):
        model.evaluate(corpus, relevance={"mine": mine[:4]})


def test_what_reads_features_and_what_reads_images_say_so(photos, tmp_path):
    torch.save(outer(scan_file()), tmp_path / "model_best.pth.tar")
    words = ["<pad>", "<start>", "<end>", "<unk>", "a", "dog"]
    numbers = {word: n for n, word in enumerate(words)}
    content = {"word2idx": numbers, "idx2word": {str(n): word for word, n in numbers.items()}, "idx": len(words)}
    (tmp_path / "vocab.json").write_text(json.dumps(content))
    theirs = {"method": "scan", "vocabulary": tmp_path / "vocab.json", "direction": "t2i"}
    model = xmr.load(tmp_path / "model_best.pth.tar", **theirs)
    width = model.raw.inputs.image_width
    features = np.random.default_rng(0).normal(size=(6, 3, width)).astype(np.float32)
    texts = ["a dog", "dog"] * 3
    whole = model.evaluate(from_arrays(features, texts, splits="test"))
    pd.testing.assert_frame_equal(model.evaluate(images=features, captions=texts).metrics, whole.metrics)
    assert whole.setting.form == "published" and len(whole.per_query) == 12
    with pytest.raises(BadInput, match="reads features of regions"):
        model.evaluate(photos)
    with pytest.raises(BadInput, match=f"has features of .* × {width + 1} an image, and this model reads"):
        model.evaluate(from_arrays(np.ones((6, 3, width + 1)), texts, splits="test"))
    with pytest.raises(BadInput, match="brings features and no images"):
        xmr.retrieval.example_model().evaluate(from_arrays(features, texts, splits="test"))


@pytest.mark.parametrize(
    "form", ["bytes", "dictionary", "PIL", "array", "path", "dataset", "splits", "rows", "columns"]
)
def test_a_frame_with_images_is_the_folder(photos, form):
    corpus, table = load_folder(photos), pd.read_csv(photos / "captions.csv")
    files = [photos / name for name in table["image"]]
    shown = {
        "bytes": [f.read_bytes() for f in files],
        "dictionary": [{"bytes": f.read_bytes(), "path": str(f.relative_to(photos))} for f in files],
        "PIL": [Image.open(f) for f in files],
        "array": [xmr.data.inputs.pixels_of(f) for f in files],
        "path": files,
    }
    frame = table.assign(image=shown.get(form, shown["dictionary"]), caption=[[c] for c in table["caption"]])
    given = SimpleNamespace(to_pandas=lambda: frame)  # as a Dataset of Hugging Face has it
    if form == "rows":
        frame = frame.to_dict("records")
    if form == "columns":
        frame = frame.to_dict("list")
    if form == "splits":
        given = {s: SimpleNamespace(to_pandas=lambda o=o: o.drop(columns="split")) for s, o in frame.groupby("split")}
    made = from_frame(given if form in ("dataset", "splits") else frame, name="folder")
    if form in ("dictionary", "path", "dataset"):
        assert made.fingerprint == corpus.fingerprint, "the same run"
    assert len(made.images) == 12 and "path" not in made.images
    model = xmr.retrieval.example_model()
    for split in ("train", "val", "test"):
        a, b = model.evaluate(corpus, split).metrics, model.evaluate(made, split).metrics
        pd.testing.assert_frame_equal(a, b, check_dtype=False)


def test_images_in_memory_that_cannot_be_are_refused(photos):
    with pytest.raises(BadInput, match="an image is a file, bytes"):
        from_frame(pd.DataFrame({"image": [np.zeros((4, 4))], "caption": ["a dog"]}))
    with pytest.raises(BadInput, match="a frame or a list of rows is needed"):
        from_frame(str(photos / "captions.csv"))
    with pytest.raises(BadInput, match="no column image"):
        from_frame(pd.DataFrame({"picture": [b""], "caption": ["a dog"]}))
    with pytest.raises(BadInput, match="one image_id to different images"):
        from_frame(pd.DataFrame({"image": [photos / "00.png", photos / "03.png"], "image_id": 1, "caption": "a dog"}))
    with pytest.raises(xmr.base.errors.DamagedFile, match="image dog.png cannot be read"):
        from_frame(pd.DataFrame({"image": [{"bytes": b"x", "path": "dog.png"}], "caption": ["a"]})).read_pixels([0])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["vse++", "dive", "pcme", "scan"])
def test_a_runs_own_numbers_are_what_evaluate_gives(method, shared_home, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XMR_HOME", str(shared_home))
    run = xmr.train_or_load(tiny_config(method, epochs=1))
    model = xmr.load(run.id)
    moved = xmr.load(model.save_pretrained(tmp_path / "model"))
    corpus = run.prepared().corpus
    for found in (model.evaluate(), model.evaluate(corpus), moved.evaluate(corpus)):
        pd.testing.assert_frame_equal(found.metrics, run.metrics, check_dtype=False, check_exact=True)
        pd.testing.assert_frame_equal(found.per_query, run.per_query, check_dtype=False, check_exact=True)
        assert found.chance() == run.chance()
    assert main(["evaluate", run.id, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["metrics"]
    assert [row["value"] for row in said] == run.metrics["value"].tolist()


@pytest.mark.slow
def test_programs_read_one_object_and_a_run_is_removed_once_it_is_let_go(photos, own_home, capsys, monkeypatch):
    import filelock

    words = ["dive", "dataset=folder", "data_root=photos", *(f"{n}={v}" for n, v in SMALL.items())]
    assert main(["train", *words, "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)
    assert (
        trained["name"] == "dive-1"
        and [r["relevance"] for r in trained["results"]] == ["annotated"]
        and trained["chance"]["rsum"] > 0
    )
    for command in (["runs"], ["info"], ["options", "dive"], ["check", "folder", "photos"], ["evaluate", "dive-1"]):
        main([*command, "--json"])
        assert isinstance(json.loads(capsys.readouterr().out), dict), command
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["rm", "dive-1"]) == 1, "nobody said yes"
    folder = own_home / "runs" / trained["run"]
    with filelock.FileLock(folder / "lock"):
        assert main(["rm", "dive-1", "--yes"]) == 2
    assert "is being trained" in capsys.readouterr().err and (folder / "record.json").exists()
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["rm", "dive-1"]) == 0 and not folder.exists() and "MB" in capsys.readouterr().out
    (own_home / "elsewhere").mkdir()
    (own_home / "elsewhere" / "config.json").write_text("{}")
    os.symlink(own_home / "elsewhere", folder)
    assert main(["rm", folder.name, "--yes"]) == 2 and (own_home / "elsewhere" / "config.json").exists()
    assert main(["rm", "../elsewhere", "--yes"]) == 2 and (own_home / "elsewhere").exists()
