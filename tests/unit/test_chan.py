"""CHAN and MaxSim: every form against the loop, what they are in terms of other similarities, and their recipes."""

import math
from functools import partial

import pytest
import reference
import torch
from test_similarities import ragged, rows_of, with_x
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet, Features, Tokens
from xmr_core.encoders.image import LinearRegions, SelfAttentionRegions
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build
from xmr_core.similarities import Chan, SumMax, chamfer, chan, max_pairwise, scan, sum_max
from xmr_core.similarities.chan import CODINGS, POOLINGS
from xmr_core.similarities.maxsim import QUERIES, SUMS

INPUTS = Inputs(image_width=5, cells=3, vocabulary=9, word_dim=4, ordered_cells=False)
exact = partial(assert_close, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("divide", [True, False])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("coding", CODINGS)
def test_every_form_of_chan_equals_the_loop(coding, pooling, divide):
    images, captions = ragged(4, 5, seed=1), ragged(5, 6, seed=2)
    form = {"coding": coding, "pooling": pooling, "alpha": 0.3, "beta": 0.2, "divide": divide}
    wanted = torch.tensor(reference.scores(rows_of(images), rows_of(captions), partial(reference.chan, **form)))
    exact(chan(images, captions, **form), wanted)
    exact(Chan(**form).score(images, captions), wanted)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("coding", CODINGS)
def test_gradients_of_every_form_of_chan(coding, pooling):
    images, captions = ragged(2, 3, seed=3), ragged(3, 4, seed=4)
    f = lambda x, y: chan(with_x(images, x), with_x(captions, y), coding, pooling, 0.5, 0.5)  # noqa: E731
    assert torch.autograd.gradcheck(f, (images.x.requires_grad_(), captions.x.requires_grad_()))


@pytest.mark.parametrize("aggregate", SUMS)
@pytest.mark.parametrize("direction", QUERIES)
def test_every_form_of_sum_max_equals_the_loop(direction, aggregate):
    images, captions = ragged(4, 5, seed=5), ragged(5, 6, seed=6)
    form = {"direction": direction, "aggregate": aggregate}
    wanted = reference.scores(rows_of(images), rows_of(captions), partial(reference.sum_max, **form))
    exact(sum_max(images, captions, **form), torch.tensor(wanted))
    assert SumMax(**form).symmetric == (direction == "both")


def test_relations_to_other_similarities():
    images, captions = ragged(5, 4, seed=7), ragged(6, 5, seed=8)
    score = partial(chan, images, captions)
    exact(sum_max(images, captions, "both", "mean"), 2 * chamfer(images, captions))
    exact((score("vha", "mean") + score("tha", "mean")) / 2, chamfer(images, captions))
    exact(score("vha", "sum"), sum_max(images, captions))
    exact(score("tha", "mean"), sum_max(images, captions, "i2t", "mean"))
    exact(score("vha", "max"), max_pairwise(images, captions))
    exact(score("tha", "max"), max_pairwise(images, captions))
    soft = partial(scan, images, captions, "i2t", normalise="no_norm", sharpness=1 / 0.3)
    exact(score("vsa", "mean", alpha=0.3), soft(aggregate="mean"))
    exact(score("vsa", "lse", alpha=0.3, beta=0.2, divide=True), soft(aggregate="lse", lse_scale=5.0))
    assert_close(score("vsa", "mean", alpha=1e-4), score("tha", "mean"), rtol=1e-6, atol=1e-6)


def test_the_two_forms_of_lse_and_the_limits_of_the_temperature():
    images, captions = ragged(5, 4, seed=9), ragged(6, 5, seed=10)
    score = partial(chan, images, captions, "vha")
    exact(score("lse", beta=0.25, divide=True), 0.25 * score("lse", beta=0.25))
    for soft in (score("lse", beta=1e-4, divide=True), score("softmax", beta=1e-4)):
        assert_close(soft, score("max"), rtol=0, atol=1e-3)
    assert_close(score("softmax", beta=1e4), score("mean"), rtol=0, atol=1e-3)
    words = captions.mask.sum(1).log()[None]
    assert (score("lse", beta=0.2, divide=True) <= score("max") + 0.2 * words + 1e-12).all()


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("coding", CODINGS)
def test_padding_counts_for_nothing_in_any_form(coding, pooling):
    """Padded captions gave the authors' softmax pooling NaN (X-86)."""
    images, captions = ragged(4, 4, seed=11), ragged(5, 6, seed=12)
    x, y = (torch.where(s.mask[..., None], s.x, math.nan).requires_grad_() for s in (images, captions))
    scores = chan(with_x(images, x), with_x(captions, y), coding, pooling)
    alone = [
        chan(i.x[i.mask][None], t.x[t.mask][None], coding, pooling) for i in items(images) for t in items(captions)
    ]
    exact(scores.flatten(), torch.cat(alone).flatten())
    scores.square().sum().backward()
    for grad, mask in ((x.grad, images.mask), (y.grad, captions.mask)):
        assert grad.isfinite().all() and not grad[~mask].any() and grad[mask].any()


def items(sets: EmbeddingSet) -> list[EmbeddingSet]:
    return [sets[n : n + 1] for n in range(len(sets))]


def test_a_cosine_of_minus_one_is_no_padding():
    """The mask says what is real; the authors take equality with −1 for padding (X-87)."""
    image = torch.tensor([[[1.0, 0.0]]])
    caption = torch.tensor([[[-1.0, 0.0], [1.0, 0.0]]])
    assert chan(image, caption, pooling="mean").item() == 0 and chan(image, caption[:, :1], pooling="sum").item() == -1
    assert chan(image, caption, pooling="lse", beta=1.0).item() == pytest.approx(math.log(math.e + 1 / math.e))


@pytest.mark.parametrize("coding", CODINGS)
def test_many_captions_of_unequal_length_keep_their_places(coding):
    images, captions = ragged(3, 4, seed=13), ragged(70, 9, seed=14)
    for similarity in (Chan(coding), Chan(coding, "softmax")):
        alone = torch.cat([similarity(images, caption) for caption in items(captions)], 1)
        exact(similarity(images, captions), alone)
        exact(similarity.score(images, captions), alone)


def test_attention_is_one_on_the_best_partner():
    images, captions = ragged(3, 4, seed=15), ragged(2, 5, seed=16)
    for similarity in (Chan("vha"), SumMax("t2i"), Chan("tha"), SumMax("i2t")):
        attention = similarity.attention(images, captions)
        words = similarity.direction == "t2i"
        assert attention.shape == ((3, 2, 5, 4) if words else (3, 2, 4, 5))
        real = captions.mask[None].expand(3, -1, -1) if words else images.mask[:, None].expand(-1, 2, -1)
        products = torch.einsum("ikd,tld->itlk" if words else "ikd,tld->itkl", images.x, captions.x)
        terms = torch.where(real, (attention * products).sum(-1), 0.0).sum(-1)
        exact(terms, sum_max(images, captions, similarity.direction))
    soft = Chan("vsa").attention(images, captions)
    exact(soft.sum(-1), torch.ones(3, 2, 4, dtype=torch.float64))
    assert soft[0, 0].max() < 1
    with pytest.raises(BadInput, match="unknown direction 'both'"):
        SumMax("both").attention(images, captions)


# ------------------------------------------------------------------------------------------ regions with self-attention


def test_regions_attend_to_real_regions_of_their_image_alone():
    torch.manual_seed(0)
    encoder = SelfAttentionRegions(5, 16).eval()
    x, mask = torch.randn(3, 4, 5), torch.tensor([[True] * 4, [True, True, False, False], [False, True, False, True]])
    spoilt = torch.where(mask[..., None], x, 7.0).requires_grad_()
    features = encoder(Features(spoilt, mask))
    for n in range(3):
        alone = encoder(Features(x[n][mask[n]][None], torch.ones(1, int(mask[n].sum()), dtype=torch.bool)))
        assert_close(features.local_feats[n][mask[n]], alone.local_feats[0], rtol=1e-5, atol=1e-6)
        assert_close(features.global_feat[n], alone.global_feat[0], rtol=1e-5, atol=1e-6)
    features.local_feats[mask].square().sum().backward()
    assert not spoilt.grad[~mask].any() and spoilt.grad[mask].any()
    assert not encoder.fc.bias.any() and encoder.fc.weight.abs().max() <= math.sqrt(6 / 21)


# ------------------------------------------------------------------------------------------------------------- methods


def test_the_published_form_is_the_authors():
    method = build("chan", INPUTS, "published", d=16)
    assert method.similarity.options == {
        "coding": "vha", "pooling": "lse", "alpha": 0.1, "beta": 0.1, "divide": False
    }  # fmt: skip
    assert isinstance(method.image_encoder, SelfAttentionRegions) and method.image_encoder.attention.num_heads == 8
    assert isinstance(build("chan", INPUTS, "published", d=16, self_attention=False).image_encoder, LinearRegions)
    hinge, warmup = method.objective.score_loss, method.objective.warmup_loss
    assert hinge.keywords == {"margin": 0.05, "reduction": "sum", "mining": "hardest"}
    assert warmup.keywords["mining"] == "all"
    assert method.objective.warmup_epochs == 1


def test_matched_lse_is_on_the_scale_of_cosines():
    assert build("chan", INPUTS, d=8).similarity.options["divide"] is True


def test_maxsim_is_chan_with_mean_pooling():
    torch.manual_seed(0)
    one, other = build("maxsim", INPUTS, d=8).eval(), build("chan", INPUTS, d=8, pooling="mean").eval()
    other.load_state_dict(one.state_dict())
    mask = torch.tensor([[True] * 3, [True, True, False]])
    images = Features(torch.randn(2, 3, 5), mask)
    captions = Tokens(torch.tensor([[1, 4, 2], [1, 2, 0]]), mask)
    scores = [m.similarity(m.encode_images(images), m.encode_captions(captions)) for m in (one, other)]
    assert_close(*scores)
