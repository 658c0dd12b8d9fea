"""SigLIP's loss: its equation, several positives per row, and where its bias starts."""

import math

import pytest
import reference
import torch
from tiny import TINY
from torch.testing import assert_close

from xmr_core.losses import PairwiseSigmoid
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build, papers

INPUTS = Inputs(image_width=8, cells=4, vocabulary=20)


def problem(seed: int, degrees: bool) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    match = torch.rand(4, 7, generator=g, dtype=torch.float64)
    return torch.randn(4, 7, generator=g, dtype=torch.float64), match if degrees else match < 0.3


@pytest.mark.parametrize("degrees", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_loop(seed, degrees):
    scores, match = problem(seed, degrees)
    got = PairwiseSigmoid(temperature=0.2, bias=-2.0).double()(scores, match)
    assert_close(got.item(), reference.pairwise_sigmoid(scores.numpy(), match.numpy(), 5.0, -2.0), rtol=1e-6, atol=1e-9)


def test_gradients_of_scores_scale_and_bias():
    scores, match = problem(3, False)
    loss = PairwiseSigmoid(temperature=0.5, bias=-1.0).double().eval()
    names = ("log_scale", "bias")
    start = tuple(getattr(loss, n).detach().clone().requires_grad_() for n in names)

    def f(s, *values):
        return torch.func.functional_call(loss, dict(zip(names, values, strict=True)), (s, match))

    assert torch.autograd.gradcheck(f, (scores.requires_grad_(), *start))


def test_a_caption_more_for_an_image_adds_its_own_terms_only():
    """Two captions of an image share no probability: the loss times N₊ is a sum over columns."""
    scores = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    match = torch.tensor([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]], dtype=torch.bool)
    loss = PairwiseSigmoid(bias=0.0).double()
    whole = 4 * loss(scores, match)
    assert_close(whole, sum(loss(scores[:, [t]], match[:, [t]]) for t in range(4)))


def test_the_bias_starts_where_the_mean_pair_has_the_odds_of_a_match():
    loss = PairwiseSigmoid(temperature=0.1)
    scores, match = torch.rand(8, 16) * 5 + 3, torch.eye(8, dtype=torch.bool).repeat_interleave(2, 1)
    loss.eval()(scores, match)
    assert loss.bias == 0  # an evaluation sets nothing
    loss.train()(scores, match)
    assert_close((10 * scores + loss.bias).mean().sigmoid().item(), 1 / 8, rtol=1e-4, atol=0)
    first = loss.bias.item()
    loss(scores - 9, match)
    assert loss.bias.item() == first  # only once
    again = PairwiseSigmoid()
    again.load_state_dict(loss.state_dict())
    again.train()(scores - 9, match)
    assert again.bias.item() == first  # a run that is continued does not start anew
    fixed = PairwiseSigmoid(bias=-10.0)
    fixed.train()(scores, match)
    assert fixed.bias == -10


@pytest.mark.parametrize("name", list(papers()))
def test_every_method_can_be_trained_with_it(name):
    method = build(name, INPUTS, d=16, objective="siglip", **TINY.get(name, {}))
    assert isinstance(method.objective.score_loss, PairwiseSigmoid)


def test_a_scale_that_training_has_carried_beyond_its_bound_is_set_back():
    loss = PairwiseSigmoid(temperature=0.1, bias=0.0, max_scale=60.0)
    with torch.no_grad():
        loss.log_scale.fill_(math.log(90.0))
    scores, match = torch.rand(3, 3), torch.eye(3, dtype=torch.bool)
    loss.eval()(scores, match)
    assert float(loss.log_scale.exp().detach()) == pytest.approx(90.0)
    loss.train()(scores, match)
    assert float(loss.log_scale.exp().detach()) == pytest.approx(60.0)
