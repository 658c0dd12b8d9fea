"""Galleries that are too large for all products at once: the same scores in blocks, where no gradient is wanted."""

import pytest
import torch
from test_similarities import FUNCTIONS, GRAPHS, SINGLE, example
from test_unchecked import SIMILARITIES, InPrecision, items
from torch.testing import assert_close

from xmr_core.similarities import Sgraf, as_similarity, base, chamfer, smooth_chamfer


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of twelve products; how many there were."""
    seen, steps_of = [], base.steps_of

    def counted(n, size):
        seen.append(steps := steps_of(n, size))
        return steps

    monkeypatch.setattr(base, "_PRODUCTS", 12)
    monkeypatch.setattr(base, "steps_of", counted)
    return seen


@pytest.mark.parametrize("name", SIMILARITIES)
def test_scores_in_blocks_are_the_same(name, small_blocks, monkeypatch):
    similarity, (images, captions) = SIMILARITIES[name], items(name, 3)
    module = similarity.module if isinstance(similarity, InPrecision) else similarity.double()
    with torch.no_grad():
        called, scored = module(images, captions), module.score(images, captions)
    assert max(map(len, small_blocks)) > 1
    monkeypatch.setattr(base, "_PRODUCTS", 1 << 26)
    with torch.no_grad():
        assert_close(called, module(images, captions))
        assert_close(scored, module.score(images, captions))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_masks_and_lists_in_blocks(name, small_blocks, monkeypatch):
    images, captions = (example(name, n, 4, n) for n in (3, 5))
    masks = {} if name in SINGLE else {"image_mask": images.mask, "caption_mask": captions.mask}
    plain = FUNCTIONS[name](images.x, captions.x, **masks)
    lists = [[x[m] for x, m in zip(s.x, s.mask, strict=True)] for s in (images, captions)] if masks else None
    ragged = FUNCTIONS[name](*lists) if lists else plain
    assert max(map(len, small_blocks)) > 1
    monkeypatch.setattr(base, "_PRODUCTS", 1 << 26)
    assert_close(plain, FUNCTIONS[name](images, captions))
    assert_close(ragged, plain)


def test_gradients_and_statistics_of_a_batch_take_all_pairs_at_once(small_blocks):
    x, y = (example("smooth_chamfer", n, 4, n).x for n in (3, 5))
    smooth_chamfer(x.requires_grad_(), y).sum().backward()
    filtration = Sgraf(6, "saf", 5).double().train()
    with torch.no_grad():
        filtration(*(example("sgraf saf t2i", n, 4, n) for n in (3, 5)))
    assert not small_blocks and "sgraf saf t2i" in GRAPHS


def test_a_function_of_which_nothing_is_known_is_not_cut(small_blocks):
    images, captions = (example("cosine", n, 4, n).x for n in (3, 5))
    similarity = as_similarity(lambda x, y: (x @ y.T).softmax(1))
    assert torch.equal(similarity(images, captions), (images @ captions.T).softmax(1)) and not small_blocks
    assert torch.equal(similarity.score(images, captions), (images @ captions.T).softmax(1))


def test_a_tangent_goes_through_the_best_partner():
    x, y = (example("chamfer", n, 4, n).x for n in (3, 5))
    _, tangent = torch.func.jvp(lambda z: chamfer(z, y), (x,), (torch.ones_like(x),))
    step = 1e-6
    assert_close(tangent, (chamfer(x + step, y) - chamfer(x - step, y)) / (2 * step), rtol=1e-4, atol=1e-6)
    with pytest.raises(TypeError):
        chamfer(x, y, None, None, False, "too many")
