"""What the author of a method gets wrong in its one file is named in one line, on the command line too."""

import re
import sys
import textwrap
from dataclasses import replace

import pytest

from xmr_core import study
from xmr_core.base.errors import BadInput
from xmr_core.methods.registry import _registered, method_spec, methods, register
from xmr_core.ui.cli import main

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

MISTAKES = {
    "syntax": ("def loss(scores, match):", "def loss(scores, match)", "cannot be imported: SyntaxError"),
    "while importing": ("SPEC = ", "1 / 0\nSPEC = ", "ZeroDivisionError: division by zero"),
    "not frozen": ("(frozen=True)", "", "cannot inherit non-frozen dataclass"),
    "no dataclass": ("@dataclass(frozen=True)", "", r"write @dataclass\(frozen=True\) above class Mine"),
    "no option": ('option(3, "how many", least=1)', "3", "option k of Mine has a plain default"),
    "returns nothing": ("return Method(", "Method(", "the matched builder of mine must return a Method, got NoneType"),
    "transposed": ("images.x @ captions.x.T", "captions.x @ images.x.T", r"they must be scores\[image, caption\]"),
    "a vector": ("InfoNCE(0.1)(scores, match)", "scores.mean(1)", "must be a tensor with one number, got shape"),
    "not a number": ("InfoNCE(0.1)(scores, match)", "scores.mean() * torch.nan", "at the first step, before anything"),
    "no label": ('"Mine", "Mine."', '"", "Mine."', "needs a label"),
    "no gradient": (
        "InfoNCE(0.1)(scores, match)",
        "scores.mean() + (scores - scores).abs().sqrt().sum()",
        "the gradient has norm nan at epoch 0 step 0 although the loss is finite",
    ),
    "a bare head": (
        "parts = like.image_encoder, like.caption_encoder, like.image_head, like.caption_head",
        """class Bare(torch.nn.Module):
        def forward(self, features):
            return like.image_head(features).x

    parts = like.image_encoder, like.caption_encoder, Bare(), like.caption_head""",
        r"the image_head of .*:SPEC must return an Embedding, .* wrap vectors as Embedding\(x\)",
    ),
    "over the gallery": (
        "images.x @ captions.x.T",
        "(images.x @ captions.x.T).softmax(1)",
        "neither on the pairs beside",
    ),
    "a setting": (
        'k: int = option(3, "how many"',
        'clip: int = option(3, "how many"',
        "the option clip of mine is also a",
    ),
    "of a paper": ('variants={"Mine": {}}', 'variants={"DivE": {}}', "the label 'DivE' of mine belongs to method dive"),
    "a weight alone": (
        "Objective(loss)",
        'Objective(loss, {"norm": 0.1})',
        r"given as \{name: \(weight, function of images and captions\)\}",
    ),
    "no number": (
        "Objective(loss)",
        'Objective(loss, {"norm": (0.1, lambda images, captions: 0.0)})',
        "the regulariser norm must return a tensor with one number, got float",
    ),
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
    with pytest.raises(BadInput, match="the label 'DivE' of thief belongs to method dive"):
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
    with pytest.raises(BadInput, match="the id of a method is a short name"):
        replace(method_spec("vse++"), id=name)
