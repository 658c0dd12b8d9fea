"""What people plausibly hand over by mistake is refused in one sentence, and empty galleries are no mistake."""

import json
import unicodedata
from functools import partial

import pandas as pd
import pytest
import torch
from PIL import Image

from xmr_core import losses
from xmr_core import similarities as s
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import Embedding, GaussianEmbedding
from xmr_core.data.readers import FaultLog, photograph_corpus
from xmr_core.data.readers.assembly import read_lines
from xmr_core.data.readers.folder import load_folder
from xmr_core.methods.method import Method


def refused(call, said):
    with pytest.raises(BadInput, match=said) as refusal:
        call()
    assert "\n" not in str(refusal.value)


# ---- empty galleries

SETS = {
    "scan t2i": lambda: s.Scan(),
    "scan i2t": lambda: s.Scan("i2t", aggregate="mean"),
    "chan vha": lambda: s.Chan(),
    "chan vsa": lambda: s.Chan("vsa", "softmax"),
    "sum_max": lambda: s.SumMax("both"),
    "chamfer": lambda: s.Chamfer(),
    **{
        f"sgraf {r} {d}": partial(s.Sgraf, 4, r, 3, direction=d) for r in ("sgr", "saf", "mean") for d in ("t2i", "i2t")
    },
    "sgraf joint": lambda: s.JointSgraf(4, 3),
}


@pytest.mark.parametrize("images, captions", [(0, 2), (3, 0), (0, 0)])
@pytest.mark.parametrize("make", SETS.values(), ids=SETS.keys())
def test_sets_of_an_empty_gallery_have_an_empty_matrix(make, images, captions):
    similarity, x, y = make(), torch.rand(images, 2, 4), torch.rand(captions, 5, 4)
    for mode in (True, False):
        similarity.train(mode)
        assert similarity(x, y).shape == similarity.score(x, y).shape == (images, captions)
    wanted = x.requires_grad_()
    scorings = similarity.train().scorings(wanted, y)
    sum(scores.sum() for scores in scorings).backward()
    assert {scores.shape for scores in scorings} == {(images, captions)} and wanted.grad.shape == x.shape
    assert (make().double()(x.double(), y.double())).dtype == torch.float64


@pytest.mark.parametrize("images, captions", [(0, 2), (3, 0), (0, 0)])
@pytest.mark.parametrize("name", s.DISTANCES)
def test_distributions_of_an_empty_gallery_have_an_empty_matrix(name, images, captions):
    one, two = (GaussianEmbedding(torch.rand(n, 4), torch.rand(n, 4), torch.rand(n, 3, 4)) for n in (images, captions))
    assert s.GaussianDistance(name)(one, two).shape == s.GaussianDistance(name).score(one, two).shape
    assert s.GaussianDistance(name)(one, two).shape == (images, captions)


# ---- losses

EYE = torch.eye(3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("x", [torch.eye(4)[None], torch.zeros(1, 2, 4)], ids=["apart", "zeros"])
@pytest.mark.parametrize("autocast", [False, True])
def test_the_diversity_of_a_gram_matrix_is_finite_in_every_precision(x, dtype, autocast):
    x = x.to(dtype, copy=True).requires_grad_()
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        loss = losses.gram_diversity(x)
    loss.backward()
    assert loss.isfinite() and x.grad.isfinite().all()


# ---- similarities and heads

# ---- methods


class Head(torch.nn.Linear):
    def forward(self, x):
        return Embedding(super().forward(x))


def method(similarity=None, objective=None, **parts):
    parts = {"image_encoder": torch.nn.Identity(), "caption_encoder": torch.nn.Identity()} | parts
    parts = {"image_head": Head(4, 4), "caption_head": Head(4, 4)} | parts
    return Method("mine", **parts, similarity=similarity or s.Cosine(), objective=objective or losses.Objective(each))


def each(scores, match):
    return (scores - match.float()).square().mean()


def objective_of(change):
    def objective(scores, match, images, captions, epoch):
        return change(each(scores, match))

    return objective


MADE = {
    "a loss": ({"objective": losses.InfoNCE()}, "objective of mine .* as Objective"),
    "a plain loss": ({"objective": each}, "as Objective"),
    "the class Objective": ({"objective": losses.Objective}, "objective of mine .* got the class Objective"),
    "the class SumMax": ({"similarity": s.SumMax}, "SumMax"),
}


@pytest.mark.parametrize("parts, said", MADE.values(), ids=MADE.keys())
def test_a_part_of_a_method_is_refused_when_it_is_made(parts, said):
    refused(lambda: method(**parts), said)


def test_a_loss_without_a_gradient_is_fine_where_nothing_is_trained():
    measured = method(objective=objective_of(lambda loss: (loss.detach(), {"score": loss})))
    items = Embedding(torch.ones(3, 4, requires_grad=True))
    with torch.no_grad():
        assert measured.loss_of(items, items, EYE > 0)[0].ndim == 0
    assert measured.eval().loss_of(items, items, EYE > 0)[0].ndim == 0
    fixed = Embedding(torch.ones(3, 4))
    assert measured.train().loss_of(fixed, fixed, EYE > 0)[0].ndim == 0


# ---- readers


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "photos"
    place.mkdir()
    Image.new("RGB", (9, 9)).save(place / "dog.png")
    return place


def read_tables(folder, without="", text="A dog.", faults=None):
    images = pd.DataFrame({"split": ["test"], "path": [str(folder / "dog.png")]}, index=["i1"])
    captions = pd.DataFrame({"image_id": ["i1"], "text": [text]}, index=["c1"])
    images, captions = (table.drop(columns=without, errors="ignore") for table in (images, captions))
    return photograph_corpus("mine", images, captions, faults or FaultLog())


@pytest.mark.parametrize("column", ["split", "path", "image_id", "text"])
def test_a_table_without_a_column_is_named(folder, column):
    refused(lambda: read_tables(folder, column), f"must be a DataFrame with columns .*{column}")


@pytest.mark.parametrize("text", [float("nan"), None, 3])
def test_a_caption_that_is_no_string_is_refused(folder, text):
    refused(lambda: read_tables(folder, text=text), "captions whose text is no string .* the first is 'c1'")
    faults = FaultLog(collect=True)
    assert not len(read_tables(folder, text=text, faults=faults).captions) and len(faults.refused) == 1


ACCENTED = "été/Zoë.png"


@pytest.mark.parametrize("form, other", [("NFD", "NFC"), ("NFC", "NFD")])
@pytest.mark.parametrize("written", [ACCENTED, "Zoë.png", f"photos/{ACCENTED}"])
def test_names_with_accents_are_matched_in_both_forms(folder, form, other, written):
    stored = folder / unicodedata.normalize(form, ACCENTED)
    stored.parent.mkdir()
    Image.new("RGB", (9, 9)).save(stored)
    (folder / "captions.csv").write_text(
        f"image,caption\ndog.png,A dog.\n{unicodedata.normalize(other, written)},Zoë.\n", encoding="utf-8"
    )
    corpus = load_folder(folder)
    assert corpus.captions["image_id"].tolist() == ["dog.png", stored.relative_to(folder).as_posix()]


def test_metadata_of_a_folder_names_its_own_image_in_another_form(folder):
    for place in ("a", "b"):
        (folder / place).mkdir()
        Image.new("RGB", (9, 9)).save(folder / place / unicodedata.normalize("NFD", "é.png"))
        (folder / place / "metadata.jsonl").write_text(json.dumps({"file_name": "\u00e9.png", "text": f"In {place}."}))
    captions = load_folder(folder).captions
    assert [image_id[0] for image_id in captions["image_id"]] == ["a", "b"] and len(captions) == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_unicode_is_read_with_and_without_a_mark_and_refused_where_it_breaks(folder, encoding):
    (folder / "captions.csv").write_bytes(content := "image,caption\r\ndog.png,Ein früher ഒ Hund\r\n".encode(encoding))
    assert load_folder(folder).captions["text"].tolist() == ["Ein früher ഒ Hund"]
    (folder / "captions.csv").write_bytes(content[:-1])
    with pytest.raises(DamagedFile, match=rf"begins as {encoding[:6].upper()}.*and does not go on"):
        load_folder(folder)


@pytest.mark.parametrize("content", [b"", b"a", b"\xef\xbb\xbfa\n", "日本\n".encode()])
def test_short_and_foreign_files_are_read(folder, content):
    (folder / "lines.txt").write_bytes(content)
    assert read_lines(folder / "lines.txt", FaultLog()) == content.decode("utf-8-sig").splitlines()
