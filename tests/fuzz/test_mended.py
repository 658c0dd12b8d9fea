"""Defects that an attack found once, each by the input that showed it."""

import json

import numpy as np
import pytest
import torch

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.paths import plain_math, printable
from xmr_core.features.images import read_image, read_thumbnail
from xmr_core.features.words import read_vocabulary
from xmr_core.methods.checkpoint import load_method, load_official, save_method
from xmr_core.methods.registry import papers
from xmr_core.models.model_folder import read_model, write_model
from xmr_core.retrieval.library import example_model

from .others import EPS, WORDS, official, saved


@pytest.mark.parametrize("read", [read_image, lambda path: read_thumbnail(path, 10)], ids=["image", "thumbnail"])
def test_no_other_program_is_started_for_an_image(tmp_path, read):
    (tmp_path / "holiday.jpg").write_bytes(EPS)
    with pytest.raises(DamagedFile, match="image"):
        read(tmp_path / "holiday.jpg")


NUMBERED = {str(n): word for word, n in WORDS.items()}
VOCABULARIES = {
    "deep JSON": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "two directions that differ": json.dumps({"word2idx": {**WORDS, "dog": 9}, "idx2word": NUMBERED}).encode(),
    "a word twice": json.dumps({"idx2word": {**NUMBERED, "5": "dog"}}).encode(),
    "a deep pickle": b"\x80\x02" + b"]" * 100_000 + b".",
}


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_vocabularies(tmp_path, kind):
    (tmp_path / "v").write_bytes(VOCABULARIES[kind])
    with pytest.raises((DamagedFile, BadInput)):
        read_vocabulary(tmp_path / "v")


def changed(name: str, tensor: object) -> bytes:
    content = official()
    content["model"][0][name] = tensor
    return saved(content)


CHECKPOINTS = {
    "one axis": changed("fc.weight", torch.ones(4)),
    "repeated numbers": changed("fc.weight", torch.ones(1, 1).expand(30_000, 30_000)),
    "complex": changed("fc.weight", torch.ones(8, 5, dtype=torch.complex64)),
    "NaN": changed("fc.weight", torch.full((8, 5), torch.nan)),
    "sparse": changed("fc.weight", torch.eye(8)[:, :5].to_sparse()),
    "a large width": changed("fc.weight", torch.ones(300_000, 1)),
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_checkpoints_of_the_authors(tmp_path, kind):
    (tmp_path / "a.pth").write_bytes(CHECKPOINTS[kind])
    with pytest.raises((DamagedFile, BadInput)):
        load_official(tmp_path / "a.pth", "vse++")


def test_an_exported_method_is_bound_to_its_digest_and_imports_nothing(tmp_path):
    model = example_model("vse++")
    words, about = model.raw.vocabulary, model.about
    path = save_method(tmp_path / "m.safetensors", model.method, model.raw.inputs, words, "matched", about["options"])
    raw = path.read_bytes()
    path.write_bytes(raw[:-9] + bytes([raw[-9] ^ 64]) + raw[-8:])
    with pytest.raises(DamagedFile, match="it was altered"):
        load_method(path)
    model.method.address = "this_module_would_be_run:SPEC"
    save_method(path, model.method, model.raw.inputs, words, "matched", about["options"])
    with pytest.raises(BadInput, match="this_module_would_be_run:SPEC"):
        load_method(path)


def test_a_model_folder_is_sealed_and_calls_nothing_but_extractors(tmp_path):
    folder = write_model(example_model("vse++"), tmp_path / "m")
    content = files.read_record(folder / "config.json")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"label": "vse++"', '"label": "vse+-"'))
    with pytest.raises(DamagedFile, match="digest"):
        read_model(folder)
    for kind, message in (("antigravity:x", "antigravity:x"), ("os:abort", "extractor")):
        content["inputs"]["images"]["kind"] = kind
        files.write_record(folder / "config.json", content)
        with pytest.raises(BadInput, match=message):
            read_model(folder)


@pytest.mark.parametrize("option", ["dive iterations", "sgraf steps", "pcme samples"])
def test_what_is_repeated_has_a_bound(option):
    method, name = option.split()
    with pytest.raises(BadInput, match=name):
        papers()[method].make_options("matched", {name: 1_000_000})


def test_texts_of_others_steer_neither_terminal_nor_figure(tmp_path):
    import matplotlib.pyplot as plt

    from xmr_study.plots.images import with_texts

    assert str(DamagedFile("a\x1b[2J\u202e")) == "a�" and str(BadInput("\x9b31m")) == "�31m"
    assert printable("a \x1b]0;title\x07\x1b[2Jdog\u202e") == "a dog�"
    figure = with_texts(np.zeros((1, 4, 4, 3), np.uint8), ["costs $5_{"], ["$\\frac"])
    figure.savefig(tmp_path / "a.png")  # a formula that is none would raise here
    plt.close(figure)
    assert plain_math(plain_math("$1")) == r"\$1"
