"""What trains without an error and gives wrong numbers is found before it is trained."""

import re
import sys

import pytest
from test_author_errors import RIGHT
from tiny import TINY

import xmr_core as xmr
from xmr_core.base.errors import BadInput
from xmr_core.methods.registry import papers
from xmr_study.cli import main

PARTS = "parts = like.image_encoder, like.caption_encoder, like.image_head, like.caption_head"
HEAD = """class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.project = torch.nn.Linear(like.caption_encoder.local_width, o.d)

        def forward(self, features):
            x = {x}
            return Embedding(torch.nn.functional.normalize(self.project(x) + features.global_feat, dim=-1){after})

    parts = like.image_encoder, like.caption_encoder, like.image_head, Head()"""
IMPORTS = """import torch

from xmr_core.base.masked import masked_mean
from xmr_core.base.types import Embedding
"""


def with_head(x: str, after: str = "") -> str:
    head = HEAD.replace("{x}", x).replace("{after}", after)
    return RIGHT.replace(PARTS, head).replace("import torch\n", IMPORTS, 1)


MEAN = "masked_mean(features.local_feats, features.mask[..., None], dim=1)"
MISTAKES = {
    "nothing": (with_head(MEAN), None),
    "padding": (with_head("features.local_feats.mean(1)"), "padding has a say"),
    "noise": (with_head(f"{MEAN} + torch.randn(())"), "encoded differently from call to call"),
    "detached": (with_head(MEAN, ".detach()"), "no gradient reaches caption_encoder"),
    "no way at all": (
        RIGHT.replace("images.x @ captions.x.T", "(images.x @ captions.x.T).detach()"),
        "no gradient reaches",
    ),
    "infinite": (
        RIGHT.replace("InfoNCE(0.1)(scores, match)", "scores.mean() + (scores - scores).abs().sqrt().sum()"),
        "the gradient of .* is not finite",
    ),
    "softmax": (
        RIGHT.replace("images.x @ captions.x.T", "(images.x @ captions.x.T).softmax(0)"),
        "neither on the pairs beside it",
    ),
}


@pytest.fixture
def own(tmp_path, monkeypatch, request):
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"looked_at_{abs(hash(request.node.name)):x}"

    def write(text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
        return f"{name}:SPEC"

    return write


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_silent_mistake_is_found(own, mistake):
    text, said = MISTAKES[mistake]
    address = own(text)
    found = xmr.check_method(address, d=8)
    if said is None:
        assert found == []
    else:
        assert any(re.search(said, sentence) for sentence in found), found
        assert not any("\n" in sentence for sentence in found)


def test_the_command_says_the_same(own, capsys):
    assert main(["check-method", own(MISTAKES["padding"][0])]) == 1
    assert capsys.readouterr().out.startswith("- padding has a say")
    assert main(["check-method", own(MISTAKES["nothing"][0])]) == 0
    assert capsys.readouterr().out == "Nothing was found that is wrong.\n"


@pytest.mark.parametrize("method", papers())
def test_methods_of_the_package_are_right(method):
    found = xmr.check_method(method, **TINY.get(method, {}), d=16)
    assert found == [] or (method == "sgraf" and len(found) == 1 and ".key.bias (3 in all)" in found[0])


def test_padding_that_the_authors_read_is_found():
    assert any("padding has a say" in sentence for sentence in xmr.check_method("dive", "published", d=32))
    with pytest.raises(BadInput, match="unknown option"):
        xmr.check_method("dive", nothing=1)
