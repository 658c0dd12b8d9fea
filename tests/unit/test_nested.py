"""Nested sets: the loss over prefixes, scores at a budget, and runs that are trained so."""

from functools import partial

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_similarities import ragged, rows_of
from torch import nn
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Batch, Embedding, EmbeddingSet
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.losses.objective import Objective
from xmr_core.losses.regularisers import mmd, pairwise_diversity
from xmr_core.losses.scores import hinge_triplet
from xmr_core.methods.common import Inputs, on_both
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build
from xmr_core.similarities import (
    Chamfer,
    Cosine,
    MatchLogit,
    MatchProbability,
    MaxPairwise,
    Nested,
    SmoothChamfer,
    SumMax,
    Truncated,
)

INPUTS = Inputs(5, 3, 9, word_dim=4)
LOOPS = {
    "smooth-Chamfer": (SmoothChamfer(7.0), partial(reference.smooth_chamfer, alpha=7.0)),
    "Chamfer": (Chamfer(), reference.chamfer),
    "MIL": (MaxPairwise(), reference.mil),
    "MP": (MatchProbability(3.0, -0.5), partial(reference.mp, a=3.0, b=-0.5)),
    "sum-max": (SumMax(), reference.sum_max),
}
every = pytest.mark.parametrize("name", LOOPS)


def firsts(sets: EmbeddingSet, k: int) -> list[list[np.ndarray]]:
    """The first k real rows of every item."""
    return [rows[:k] for rows in rows_of(sets)]


def with_residual(sets: EmbeddingSet, seed: int) -> EmbeddingSet:
    return EmbeddingSet(sets.x, sets.mask, torch.randn(sets.x.shape, generator=torch.Generator().manual_seed(seed)))


class SetMethod(Method):
    """A method whose inputs are the representations themselves."""

    def __init__(self, similarity, objective):
        super().__init__("sets", *(nn.Identity() for _ in range(4)), similarity, objective)


@every
def test_the_loss_is_the_mean_over_prefixes_and_regularisers_count_once(name):
    similarity, loop = LOOPS[name]
    images, captions = with_residual(ragged(5, 4, seed=1), 3), with_residual(ragged(6, 4, seed=2), 4)
    match = torch.eye(5, 6, dtype=torch.bool)
    match[0, 5] = True
    regularisers = {"diversity": (0.3, partial(on_both, regulariser=pairwise_diversity)), "mmd": (0.7, mmd)}
    hinge = partial(hinge_triplet, margin=0.2, mining="hardest", reduction="mean")
    method = SetMethod(Nested(similarity, (1, 2, 4)), Objective(hinge, regularisers)).double()
    loss, terms, scores = method.loss(Batch(images, captions, match, torch.arange(5), torch.arange(6)))

    by_prefix = [reference.scores(firsts(images, k), firsts(captions, k), loop) for k in (1, 2, 4)]
    score = sum(reference.hinge(s, match.numpy(), 0.2, "hardest", "mean") for s in by_prefix) / 3
    spread = sum(reference.pairwise_diversity(sets.residual.double().numpy()) for sets in (images, captions))
    distance = reference.mmd(rows_of(images), rows_of(captions))
    assert loss.item() == pytest.approx(score + 0.3 * spread + 0.7 * distance, rel=1e-6)
    assert terms["score"].item() == pytest.approx(score, rel=1e-10)
    assert terms["mmd"].item() == pytest.approx(distance, rel=1e-6)
    assert_close(scores, torch.tensor(sum(by_prefix) / 3), rtol=1e-10, atol=1e-12)


@every
@pytest.mark.parametrize("budget", [(1, 1), (1, 3), (4, 2), (2, 5), (3, None)])
def test_scores_at_a_budget_equal_the_loop(name, budget):
    similarity, loop = LOOPS[name]
    images, captions = ragged(4, 4, seed=1), ragged(6, 5, seed=2)
    wanted = torch.tensor(reference.scores(firsts(images, budget[0]), firsts(captions, budget[1] or 5), loop))
    cut = Truncated(similarity.double(), *budget)
    assert_close(cut(images, captions), wanted, rtol=1e-10, atol=1e-12)
    assert_close(cut.score(images, captions), wanted, rtol=1e-10, atol=1e-12)
    assert_close(cut(images.x, captions.x, image_mask=images.mask, caption_mask=captions.mask), wanted)
    parts = cut.contributions(images[2], captions[3])
    assert parts.images.sum() + parts.captions.sum() == pytest.approx(wanted[2, 3].item(), abs=1e-12)
    assert len(parts.images) <= budget[0]


@every
def test_all_elements_are_the_similarity_itself_to_the_last_bit(name):
    inner = LOOPS[name][0].float()
    images, captions = ragged(8, 4, seed=1, dtype=torch.float32), ragged(9, 5, seed=2, dtype=torch.float32)
    solid = [EmbeddingSet(s.x, torch.ones_like(s.mask)) for s in (images, captions)]
    for other in (
        Truncated(inner, 4, 5),
        Truncated(inner),
        Nested(inner, (1, 2, 4)),
        Truncated(Nested(inner, (1, 4)), 4),
    ):
        for pair in ((images, captions), solid):
            assert torch.equal(other(*pair), inner(*pair)) and torch.equal(other.score(*pair), inner.score(*pair))
        assert (other.name, other.direction, other.compares) == (inner.name, inner.direction, inner.compares)
        assert np.array_equal(score_matrix(other, *solid), score_matrix(inner, *solid))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), r=st.integers(1, 4), q=st.integers(1, 5), name=st.sampled_from(sorted(LOOPS)))
def test_law_no_element_beyond_the_budget_has_a_say(seed, r, q, name):
    similarity = LOOPS[name][0].double()
    images, captions = ragged(3, 4, seed=seed), ragged(4, 5, seed=seed + 1)
    for sets in (images, captions):  # padding last, as heads give it, so that a column is an element's number
        sets.mask.copy_(sets.mask.sort(dim=1, descending=True).values)
    other = [EmbeddingSet(s.x.clone(), s.mask) for s in (images, captions)]
    other[0].x[:, r:], other[1].x[:, q:] = 1e3, -1e3
    cut = Truncated(similarity, r, q)
    assert torch.equal(cut(images, captions), cut(*other)) and torch.equal(
        cut.score(images, captions), cut.score(*other)
    )
    first = Nested(similarity, (min(r, q),)).scorings(*other)[0]
    assert torch.equal(first, Truncated(similarity, min(r, q), min(r, q))(images, captions))


def test_smooth_chamfer_has_an_offset_of_its_budget():
    """Where all cosines are c, the score is c + ½ (ln r + ln q)/α."""
    x = torch.tensor([0.6, 0.8], dtype=torch.float64).expand(1, 4, 2)
    for r, q in ((1, 1), (2, 1), (4, 2), (4, 4)):
        score = Truncated(SmoothChamfer(16.0), r, q)(x, torch.tensor([1.0, 0.0]).double().expand(1, 4, 2)).item()
        assert score == pytest.approx(0.6 + (np.log(r) + np.log(q)) / 32, abs=1e-12)


def test_symmetry_and_settings_are_those_of_the_similarity_inside():
    nested = Nested(SmoothChamfer(8.0), (1, 2))
    assert nested.symmetric and Truncated(nested, 2, 2).symmetric and not Truncated(nested, 2, 1).symmetric
    assert nested.settings == {"alpha": 8.0} and nested.replace() is nested
    other = Truncated(nested, 2, 1).replace(alpha=4.0)
    assert (other.settings, other.images, other.captions) == ({"alpha": 4.0}, 2, 1)
    assert nested.replace(alpha=4.0).prefixes == (1, 2) and "prefixes=(1, 2)" in repr(nested)
    vectors = torch.eye(3)
    assert torch.equal(Truncated(Chamfer(), 1, 1)(Embedding(vectors), vectors), torch.eye(3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Nested(Cosine()), "Cosine compares vectors, which have no first elements"),
        (lambda: Truncated(MatchLogit(), 1), "compares samples"),
        (lambda: Nested(Chamfer(), ()), "must be increasing"),
        (
            lambda: Truncated(Chamfer(), 5)(*[torch.ones(2, 4, 3)] * 2),
            "budget of 5 elements is more than the 4 .* images",
        ),
        (lambda: build("dive", INPUTS, d=8, slots=1, nested=True), "nested sets need at least 2 slots, got 1"),
    ],
)
def test_what_cannot_be_nested_is_refused(call, message):
    with pytest.raises(BadInput, match=message) as refusal:
        call()
    assert "\n" not in str(refusal.value)
