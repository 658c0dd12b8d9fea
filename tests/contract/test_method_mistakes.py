"""What the author of a method gets wrong in its one file is named: when it is read, by check_method, or at its first
step."""

import re
from dataclasses import replace

import pytest
from own_method import RIGHT, TINY_RUN
from tiny import TINY

import xmr_core as xmr
import xmr_study as study
from xmr_core.base.errors import BadInput
from xmr_core.methods.registry import _registered, method_spec, methods, papers, register
from xmr_study.cli import main

MISTAKES = {  # what is written, what is written in its place, a word of the error
    "syntax": ("def loss(scores, match):", "def loss(scores, match)", "SyntaxError"),
    "while importing": ("SPEC = ", "1 / 0\nSPEC = ", "ZeroDivisionError"),
    "no dataclass": ("@dataclass(frozen=True)", "", "dataclass"),
    "no option": ('option(3, "how many", least=1)', "3", "plain default"),
    "returns nothing": ("return Method(", "Method(", "return a Method"),
    "transposed": ("images.x @ captions.x.T", "captions.x @ images.x.T", "image, caption"),
    "not a number": ("InfoNCE(0.1)(scores, match)", "scores.mean() * torch.nan", "nan"),
    "no gradient": ("InfoNCE(0.1)(scores, match)", "scores.mean() + (scores - scores).abs().sqrt().sum()", "nan"),
    "a setting": ('k: int = option(3, "how many"', 'clip: int = option(3, "how many"', "clip"),
    "of a paper": ('variants={"Mine": {}}', 'variants={"DivE": {}}', "dive"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["none", *MISTAKES])
def test_a_mistake_is_named_in_one_line(mistake, written, own_home, capsys):
    old, new, word = MISTAKES.get(mistake, ("", "", ""))
    assert old in RIGHT
    status = main(["train", written("author", RIGHT.replace(old, new)), *TINY_RUN])
    errors = capsys.readouterr().err
    if mistake == "none":
        assert status == 0
        return
    (line,) = [text for text in errors.splitlines() if text.startswith("error:")]
    assert status == 2 and "Traceback" not in errors and word in line


PARTS = "parts = like.image_encoder, like.caption_encoder, like.image_head, like.caption_head"
HEAD = """class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.project = torch.nn.Linear(like.caption_encoder.local_width, o.d)

        def forward(self, features):
            x = {x}
            return Embedding(torch.nn.functional.normalize(self.project(x) + features.global_feat, dim=-1){after})

    parts = like.image_encoder, like.caption_encoder, like.image_head, Head()"""
IMPORTS = "import torch\nfrom xmr_core.base.tensors import masked_mean\nfrom xmr_core.base.types import Embedding\n"


def with_head(x: str, after: str = "") -> str:
    head = HEAD.replace("{x}", x).replace("{after}", after)
    return RIGHT.replace(PARTS, head).replace("import torch\n", IMPORTS, 1)


MEAN = "masked_mean(features.local_feats, features.mask[..., None], dim=1)"
SCORES = "images.x @ captions.x.T"
SILENT = {  # what trains without an error and gives wrong numbers
    "nothing": (with_head(MEAN), None),
    "padding": (with_head("features.local_feats.mean(1)"), "padding"),
    "noise": (with_head(f"{MEAN} + torch.randn(())"), "call to call"),
    "detached": (with_head(MEAN, ".detach()"), "no gradient reaches caption_encoder"),
    "no way at all": (RIGHT.replace(SCORES, f"({SCORES}).detach()"), "no gradient reaches"),
    "infinite": (RIGHT.replace("InfoNCE(0.1)(scores, match)", MISTAKES["no gradient"][1]), "not finite"),
    "softmax": (RIGHT.replace(SCORES, f"({SCORES}).softmax(0)"), "pairs beside it"),
}


@pytest.mark.parametrize("mistake", SILENT)
def test_a_silent_mistake_is_found_before_training(mistake, written, capsys):
    text, said = SILENT[mistake]
    address = written("looked_at", text)
    found = xmr.check_method(address, d=8)
    assert found == [] if said is None else any(re.search(said, sentence) for sentence in found), found
    if mistake in ("padding", "nothing"):  # the command says the same
        assert main(["check-method", address]) == len(found)
        assert "padding" in capsys.readouterr().out or not found


@pytest.mark.parametrize("method", papers())
def test_methods_of_the_package_are_right(method):
    found = xmr.check_method(method, **TINY.get(method, {}), d=16)
    assert found == [] or (method == "sgraf" and len(found) == 1 and ".key.bias" in found[0])


def test_padding_that_the_authors_read_is_found():
    assert any("padding" in sentence for sentence in xmr.check_method("dive", "published", d=32))


def test_a_label_of_another_method_is_not_taken_over():
    thief = replace(method_spec("vse++"), id="thief", label="DivE", variants={"DivE": {}})
    with pytest.raises(BadInput, match="dive"):
        register(thief)
    assert "thief" not in methods() and study.comparison()["DivE"][0] == "dive"
    first = register(replace(thief, label="Mine", variants={"Mine": {}}))
    try:
        register(first)  # the same once more, as a cell that is run again does
        with pytest.raises(BadInput, match="thief"):
            register(replace(first, id="other"))
    finally:
        _registered.pop("thief")
