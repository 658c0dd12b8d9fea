"""What the author of a method gets wrong in its one file is named in one line, on the command line too."""

import re
import sys
import textwrap
from dataclasses import replace

import pytest

import xmr_study as study
from xmr_core.base.errors import BadInput
from xmr_core.methods.registry import _registered, method_spec, methods, register
from xmr_study.cli import main

RIGHT = """
from dataclasses import dataclass

import torch

from xmr_core.losses.infonce import InfoNCE
from xmr_core.losses.objective import Objective
from xmr_core.methods.common import MatchedOptions, matched_encoders
from xmr_core.methods.method import Method
from xmr_core.methods.options import option
from xmr_core.methods.registry import method_spec
from xmr_core.methods.spec import MethodSpec


@dataclass(frozen=True)
class Mine(MatchedOptions):
    k: int = option(3, "how many", least=1)


def scores(images, captions):
    return images.x @ captions.x.T


def loss(scores, match):
    return InfoNCE(0.1)(scores, match)


def matched(inputs, o):
    like = method_spec("vse++").build(inputs, d=o.d)
    parts = like.image_encoder, like.caption_encoder, like.image_head, like.caption_head
    return Method("mine", *parts, scores, Objective(loss))


SPEC = MethodSpec("mine", "Mine", "Mine.", "Me, 2026", Mine, matched, variants={"Mine": {}})
"""

MISTAKES = {  # what is written, what is written in its place, what the error says
    "syntax": ("def loss(scores, match):", "def loss(scores, match)", "SyntaxError"),
    "while importing": ("SPEC = ", "1 / 0\nSPEC = ", "ZeroDivisionError"),
    "no dataclass": ("@dataclass(frozen=True)", "", "above class Mine"),
    "no option": ('option(3, "how many", least=1)', "3", "plain default"),
    "returns nothing": ("return Method(", "Method(", "must return a Method"),
    "transposed": ("images.x @ captions.x.T", "captions.x @ images.x.T", r"scores\[image, caption\]"),
    "not a number": ("InfoNCE(0.1)(scores, match)", "scores.mean() * torch.nan", "at the first step"),
    "no gradient": ("InfoNCE(0.1)(scores, match)", "scores.mean() + (scores - scores).abs().sqrt().sum()", "norm nan"),
    "over the gallery": ("images.x @ captions.x.T", "(images.x @ captions.x.T).softmax(1)", "neither on the pairs"),
    "a setting": ('k: int = option(3, "how many"', 'clip: int = option(3, "how many"', "option clip of mine"),
    "of a paper": ('variants={"Mine": {}}', 'variants={"DivE": {}}', "belongs to method dive"),
}


@pytest.fixture
def train(tmp_path, monkeypatch, request):
    """Train a method from the text of its file, on the command line; what it says on stderr."""
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"author_{abs(hash(request.node.name)):x}"

    def run(text, capsys):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        sys.modules.pop(name, None)
        words = ["size=tiny", "batch_images=8", "captions_per_image=2", "d=8", "epochs=1", "device=cpu"]
        status = main(["train", f"{name}:SPEC", *words])
        return status, capsys.readouterr().err

    return run


@pytest.mark.slow
def test_the_file_without_mistakes_trains(train, capsys):
    assert train(RIGHT, capsys)[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_in_one_line(train, capsys, mistake):
    old, new, said = MISTAKES[mistake]
    assert old in RIGHT
    status, errors = train(RIGHT.replace(old, new), capsys)
    line = [text for text in errors.splitlines() if text.startswith("error:")]
    assert status == 2 and len(line) == 1 and "Traceback" not in errors
    assert re.search(said, line[0]), line[0]


def test_a_label_of_another_method_is_not_taken_over():
    thief = replace(method_spec("vse++"), id="thief", label="DivE", variants={"DivE": {}})
    with pytest.raises(BadInput, match="belongs to method dive"):
        register(thief)
    assert "thief" not in methods() and study.comparison()["DivE"][0] == "dive"
    first = register(replace(thief, label="Mine", variants={"Mine": {}}))
    try:
        register(first)  # the same once more, as a cell that is run again does
        with pytest.raises(BadInput, match="belongs to method thief"):
            register(replace(first, id="other"))
    finally:
        _registered.pop("thief")


@pytest.mark.parametrize("name", ["..", ".", "", "a/b"])
def test_an_id_that_is_no_name_is_refused(name):
    with pytest.raises(BadInput, match="short name"):
        replace(method_spec("vse++"), id=name)
