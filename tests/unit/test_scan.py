"""SCAN in every form: against the loop, against the authors, and what its attention is."""

from functools import partial

import pytest
import reference
import torch
from golden import ATOL, CHAIN, RTOL, Case, cases, close_gradient, lengths_mask
from test_similarities import ragged, rows_of, with_x
from torch.testing import assert_close

from xmr_core.base.types import EmbeddingSet
from xmr_core.losses.scores import hinge_triplet
from xmr_core.similarities import scan, scan_attention
from xmr_core.similarities.base import DIRECTIONS
from xmr_core.similarities.pairs import NORMALISATIONS
from xmr_core.similarities.scan import AGGREGATIONS
from xmr_core.similarities.sgraf import JointSgraf, Sgraf

close = partial(assert_close, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("leak", [0.1, 0.0])
@pytest.mark.parametrize("normalise", NORMALISATIONS)
@pytest.mark.parametrize("aggregate", AGGREGATIONS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_form_equals_the_loop(direction, aggregate, normalise, leak):
    images, captions = ragged(4, 5, seed=1), ragged(5, 6, seed=2)
    form = {
        "direction": direction,
        "aggregate": aggregate,
        "normalise": normalise,
        "leak": leak,
        "sharpness": 3.0,
        "lse_scale": 20.0,
    }
    wanted = reference.scores(rows_of(images), rows_of(captions), partial(reference.scan, **form))
    assert_close(scan(images, captions, **form), torch.tensor(wanted), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gradients_of_every_form(direction, normalise):
    images, captions = ragged(2, 3, seed=3), ragged(2, 4, seed=4)
    f = lambda x, y: scan(with_x(images, x), with_x(captions, y), direction, normalise=normalise)  # noqa: E731
    assert torch.autograd.gradcheck(f, (images.x.requires_grad_(), captions.x.requires_grad_()))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_attention_sums_to_one_over_real_elements_and_is_that_of_the_loop(direction):
    images, captions = ragged(3, 4, seed=5), ragged(2, 5, seed=6)
    maps = scan_attention(images, captions, direction, sharpness=5.0)
    queries, contexts = (captions, images) if direction == "t2i" else (images, captions)
    assert maps.shape == (3, 2, queries.x.shape[1], contexts.x.shape[1])
    for i in range(3):
        for t in range(2):
            q, c = (t, i) if direction == "t2i" else (i, t)
            found = maps[i, t][queries.mask[q]][:, contexts.mask[c]]
            wanted = reference.scan_attention(rows_of(contexts)[c], rows_of(queries)[q], 5.0, "clipped_l2norm")
            assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=1e-10, atol=1e-10)
            assert (maps[i, t][:, ~contexts.mask[c]] == 0).all()


def test_a_query_that_finds_nothing_scores_zero_with_a_finite_gradient():
    zero = EmbeddingSet(torch.zeros(1, 2, 3, requires_grad=True), torch.ones(1, 2, dtype=torch.bool))
    other = EmbeddingSet(torch.zeros(1, 3, 3, requires_grad=True), torch.ones(1, 3, dtype=torch.bool))
    score = scan(zero, other, aggregate="mean")
    assert score.item() == 0
    assert all(g.isfinite().all() for g in torch.autograd.grad(score.sum(), (zero.x, other.x)))


@pytest.mark.parametrize("name", cases("scan", "t2i") + cases("scan", "i2t"))
def test_the_authors_scores_attention_and_gradients(name):
    case = Case(name)
    cfg = case.cfg
    form = {"direction": cfg["cross_attn"], "sharpness": cfg["lambda_softmax"], "normalise": cfg["raw_feature_norm"]}
    how = {"LogSumExp": "lse", "Mean": "mean", "Max": "max", "Sum": "sum"}[cfg["agg_func"]]
    x, y = case["in.images"].requires_grad_(), case["in.captions"].requires_grad_()
    images = EmbeddingSet(x, torch.ones(x.shape[:2], dtype=torch.bool))
    captions = EmbeddingSet(y, lengths_mask(case["in.cap_lens"], y.shape[1]))
    scores = scan(images, captions, aggregate=how, lse_scale=cfg["lambda_lse"] or 6.0, **form)
    close(scores, case["out.scores"])
    match = torch.eye(len(scores), dtype=torch.bool)
    close(hinge_triplet(scores, match, cfg["margin"], "all", "sum"), case["out.loss_sum"])
    loss = hinge_triplet(scores, match, cfg["margin"], "hardest", "sum")
    close(loss, case["out.loss_max_violation"])
    loss.backward()
    close_gradient(x.grad, case["out.grad_images_of_loss_max"])
    close_gradient(y.grad, case["out.grad_captions_of_loss_max"])
    first = int(case["in.cap_lens"][0])
    maps = scan_attention(images, captions[0], **form)[:, 0].mT  # i c q
    t2i = form["direction"] == "t2i"
    close(maps[:, :, :first] if t2i else maps[:, :first], case["out.cap0_attn"])
    attended = maps[:, :, :first].mT @ x if t2i else maps[:, :first].mT @ y[0, :first]
    close(attended, case["out.cap0_attended"], rtol=CHAIN)


def test_many_captions_of_unequal_length_keep_their_places():
    """More captions than are taken together: groups of similar length are scored, and put back in the order given."""
    torch.manual_seed(0)
    n, longest = 70, 9
    lengths = torch.randint(2, longest + 1, (n,))  # SGRAF reads the first element as the whole
    mask = torch.arange(longest)[None] < lengths[:, None]
    mask[5] = torch.tensor([True, False, True, False, False, False, False, True, False])  # words dropped in between
    captions = EmbeddingSet(
        torch.nn.functional.normalize(torch.randn(n, longest, 6, dtype=torch.float64), dim=-1), mask
    )
    images = EmbeddingSet(
        torch.nn.functional.normalize(torch.randn(3, 4, 6, dtype=torch.float64), dim=-1),
        torch.ones(3, 4, dtype=torch.bool),
    )
    for score in (
        partial(scan, direction="t2i"),
        partial(scan, direction="i2t", aggregate="mean"),
        Sgraf(6, "saf", m=5).double().eval(),
        Sgraf(6, "sgr", m=5).double().eval(),
        JointSgraf(6, m=5).double().eval(),
    ):
        together, alone = score(images, captions), [score(images, captions[t]) for t in range(n)]
        torch.testing.assert_close(together, torch.cat(alone, 1), rtol=1e-10, atol=1e-12)
