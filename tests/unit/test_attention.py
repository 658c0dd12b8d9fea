"""Attention as pictures need it: rows that sum to 1, one map per round, the similarity's own weights."""

import numpy as np
import pytest
import torch
from tiny import tiny_config

from xmr_core.data.prepare import prepare
from xmr_core.evaluation.analysis.elements import node_weights, slot_attention, word_attention
from xmr_core.methods.registry import build


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(tmp_path_factory.mktemp("home")))
        yield prepare(tiny_config().data)


def method_of(prepared, name, **options):
    torch.manual_seed(0)
    return build(name, prepared.inputs, d=16, **options).eval()


@pytest.mark.parametrize(
    ("name", "options", "rounds", "elements"),
    [("dive", {"iterations": 3, "slots": 2}, 3, 2), ("dive", {"head": "transformer", "iterations": 2}, 2, 4),
     ("dive", {"head": "pie-net"}, 1, 4), ("pvse", {"slots": 3}, 1, 3)],
)  # fmt: skip
def test_every_element_shares_one_look_among_the_cells(prepared, name, options, rounds, elements):
    images = prepared.splits["test"].images_at(np.arange(5))
    maps = slot_attention(method_of(prepared, name, **options), images)
    assert maps.shape == (5, rounds, elements, 64)
    assert torch.allclose(maps.sum(-1), torch.ones(5, rounds, elements), atol=1e-4) and (maps >= 0).all()
    if rounds > 1:
        assert not torch.allclose(maps[:, 0], maps[:, -1])


@pytest.mark.parametrize(("name", "options"), [("scan", {}), ("scan", {"sharpness": 20.0}), ("sgraf", {"m": 8})])
def test_a_word_looks_at_cells_by_the_method_s_own_attention(prepared, name, options):
    split, method = prepared.splits["test"], method_of(prepared, name, **options)
    images, captions = split.images_at(np.arange(3)), split.captions_at(np.array([0, 6]))
    maps = word_attention(method, images, captions)
    assert maps.shape == (3, 2, captions.ids.shape[1], 64)
    assert torch.allclose(maps.sum(-1)[:, captions.mask], torch.ones(3, int(captions.mask.sum())), atol=1e-4)
    if options.get("sharpness"):
        assert maps.max() > word_attention(method_of(prepared, name), images, captions).max()


def _pairs(prepared, reasoner, **options):
    method, split = method_of(prepared, "sgraf", m=8, reasoner=reasoner, **options), prepared.splits["test"]
    images, captions = split.images_at(np.arange(3)), split.captions_at(np.array([0, 6]))
    assert not captions.mask.all(), "padding takes part in this test"
    with torch.no_grad():
        for weight in method.similarity.parameters():
            weight.mul_(4)  # a new model reasons so faintly that every step looks alike
        x, y = method.encode_images(images), method.encode_captions(captions)
        return (
            method,
            node_weights(method, images, captions),
            method.similarity.nodes(x, y)[0],
            method.similarity(x, y),
            captions.mask,
        )


def test_the_weights_of_filtration_make_its_score(prepared):
    method, weights, nodes, scores, mask = _pairs(prepared, "saf")
    (beta,) = weights.values()
    assert torch.allclose(beta.sum(-1), torch.ones(3, 2), atol=1e-5) and (beta[:, :, 1:][:, ~mask] == 0).all()
    summed = (beta[..., None] * nodes).sum(2)
    unit = summed / summed.norm(dim=-1, keepdim=True)
    assert torch.allclose(method.similarity._modules["score"](unit)[..., 0].sigmoid(), scores, atol=1e-5)


@pytest.mark.parametrize("steps", [1, 3])
def test_the_last_look_of_reasoning_makes_its_score(prepared, steps):
    method, weights, nodes, scores, mask = _pairs(prepared, "sgr", steps=steps)
    looks, reasoning = weights["SGR"], method.similarity.reasoner
    assert torch.allclose(looks.sum(-1), torch.ones(3, 2), atol=1e-5) and (looks[:, :, 1:][:, ~mask] == 0).all()
    whole = torch.cat([torch.ones(2, 1, dtype=torch.bool), mask], 1)[None]
    with torch.inference_mode():
        before = reasoning.after_steps(nodes, whole)[-2] if steps > 1 else nodes
        last = reasoning.steps[-1]
        for i in range(3):  # softmax over nodes of (𝒩₀ W_q + b_q) · (𝒩 W_k + b_k)
            for t in range(2):
                real = before[i, t][whole[0, t]].double()
                query = last["query"].weight.double() @ real[0] + last["query"].bias.double()
                products = [
                    float(query @ (last["key"].weight.double() @ node + last["key"].bias.double())) for node in real
                ]
                expected = np.exp(products) / np.exp(products).sum()
                assert np.allclose(looks[i, t][whole[0, t]], expected, rtol=1e-4, atol=1e-7)
        read = reasoning.steps[-1]["graph"]((looks[..., None] * before).sum(2)).relu()
        assert torch.allclose(method.similarity._modules["score"](read)[..., 0].sigmoid(), scores, atol=1e-5)
