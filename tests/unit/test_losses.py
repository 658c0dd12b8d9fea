"""Losses against their equations, with several positives per row and rows without negatives."""

import math
from functools import partial

import pytest
import reference
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.tensors import unchecked
from xmr_core.base.types import Batch, Embedding, EmbeddingSet, GaussianEmbedding
from xmr_core.losses.adaptive_clustering import AdaptiveClustering
from xmr_core.losses.gaussian import mean_kl_to_normal, soft_contrastive
from xmr_core.losses.objective import Objective
from xmr_core.losses.regularisers import gram_diversity, mmd, pairwise_diversity
from xmr_core.losses.scores import LEFT_OUT, InfoNCE, PairwiseSigmoid, hinge_triplet
from xmr_core.methods.method import Method

FORMS = [(m, r) for m in ("hardest", "all", "semi-hard") for r in ("sum", "mean", "batch_mean")]
FORMS.remove(("semi-hard", "batch_mean"))  # PVSE has no such form
LAWS = settings(derandomize=True, deadline=None, max_examples=40)


def problem(i: int = 4, t: int = 7, seed: int = 0, density: float = 0.3):
    g = torch.Generator().manual_seed(seed)
    match = torch.rand(i, t, generator=g) < density
    match[0, 0] = True
    return torch.randn(i, t, generator=g, dtype=torch.float64) * 0.3, match


def sets(n: int, k: int, seed: int, mask: bool = False) -> EmbeddingSet:
    g = torch.Generator().manual_seed(seed)
    x = F.normalize(torch.randn(n, k, 5, generator=g, dtype=torch.float64), dim=-1)
    m = torch.ones(n, k, dtype=torch.bool)
    if mask:
        m[1:, -1] = False
    return EmbeddingSet(x, m)


@pytest.mark.parametrize(("mining", "reduction"), FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_hinge_equals_the_loop(mining, reduction, seed):
    scores, match = problem(seed=seed)
    if seed == 3:
        match[1] = True  # an image that every caption describes: no negatives in its row
    got = hinge_triplet(scores, match, 0.2, mining, reduction)
    assert_close(got.item(), reference.hinge(scores.numpy(), match.numpy(), 0.2, mining, reduction))


@pytest.mark.parametrize(("mining", "reduction"), FORMS)
def test_hinge_gradient(mining, reduction):
    scores, match = problem(seed=5)
    match[1] = True
    f = lambda s: hinge_triplet(s, match, 0.25, mining, reduction)  # noqa: E731
    assert torch.autograd.gradcheck(f, scores.requires_grad_())


def _without(scores, match, left):
    """(score, scores of its negatives in the row) of every positive pair, without the pairs left out."""
    return [(scores[i, p].item(), scores[i][~match[i] & ~left[i]].tolist()) for i, p in match.nonzero().tolist()]


_LEFT_OUT = {
    "InfoNCE": (InfoNCE(0.1), lambda s, ns: math.log1p(sum(math.exp((n - s) / 0.1) for n in ns)), 2.0),
    "hinge, hardest": (partial(hinge_triplet, reduction="sum"), lambda s, ns: max(0.2 + max(ns) - s, 0.0), 0),
    "hinge, all": (
        partial(hinge_triplet, mining="all", reduction="sum"), lambda s, ns: sum(max(0.2 + n - s, 0.0) for n in ns), 0
    ),
    "hinge, mean of all": (
        partial(hinge_triplet, mining="all", reduction="mean"), lambda s, ns: sum(max(0.2 + n - s, 0.0) for n in ns), 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _LEFT_OUT)
def test_a_pair_that_is_left_out_is_neither_positive_nor_negative(name):
    loss, cost, mean = _LEFT_OUT[name]
    scores, match = problem(6, 9, seed=2)
    match[:, 0], match[range(6), range(6)] = False, True
    left = (torch.rand(6, 9, generator=torch.Generator().manual_seed(1)) < 0.3) & ~match
    method = Method("m", *[nn.Identity()] * 4, lambda images, captions: images.x @ captions.x.T, Objective(loss))
    images, captions = Embedding(scores.clone().requires_grad_()), Embedding(torch.eye(9, dtype=torch.float64))
    given = match.to(torch.int8) - left.to(torch.int8)
    got, _, whole = method.loss_of(images, captions, given)
    assert torch.equal(whole, scores), "what watches a training sees all scores"
    wanted = 0.0
    for pairs in (_without(scores, match, left), _without(scores.T, match.T, left.T)):
        total = sum(cost(s, ns) for s, ns in pairs)
        wanted += total / {0: 1, 1: sum(len(ns) for _, ns in pairs) or 1, 2.0: 2 * len(pairs)}[mean]
    assert got.item() == pytest.approx(wanted, rel=1e-6)
    got.backward()
    assert images.x.grad.isfinite().all() and not images.x.grad[left].any() and images.x.grad[~left].any()


def test_adopt_leaves_nothing_out():
    scores, match = problem(6, 6, seed=2)
    match[:] = torch.eye(6, dtype=torch.bool)
    similarity = lambda images, captions: images.x @ captions.x.T  # noqa: E731
    method = Method("m", *[nn.Identity()] * 4, similarity, Objective(AdaptiveClustering()))
    with pytest.raises(BadInput, match="none can be left out"):
        method.loss_of(Embedding(scores), Embedding(torch.eye(6, dtype=torch.float64)), match.to(torch.int8))


def test_what_mixes_images_leaves_nothing_out():
    batch = Batch(None, None, torch.eye(2, dtype=torch.int8), None, None)
    method = Method("m", *[nn.Identity()] * 4, lambda images, captions: images.x @ captions.x.T, Objective(InfoNCE()))
    assert method.mixed(batch) is batch
    method.mix = lambda batch: batch
    with pytest.raises(BadInput, match="none can be left out"):
        method.mixed(batch)


def test_the_first_bias_of_siglip_does_not_see_what_is_left_out():
    scores, match = problem(6, 9, seed=2)
    match[range(6), range(6)] = True
    left = (torch.rand(6, 9, generator=torch.Generator().manual_seed(1)) < 0.3) & ~match
    loss = PairwiseSigmoid(0.1).train()
    loss(scores.masked_fill(left, LEFT_OUT), match)
    share = match.sum() / (~left).sum()
    assert loss.bias.item() == pytest.approx((share.logit() - 10 * scores[~left].mean()).item(), rel=1e-5)


def test_a_collapsed_model_sits_on_the_known_plateau():
    # all scores equal, 128 pairs, margin 0.2, summed: the 51.2 that users of the official code report
    loss = hinge_triplet(torch.zeros(128, 128), torch.eye(128, dtype=torch.bool), 0.2, "hardest", "sum")
    assert_close(loss.item(), 51.2, rtol=1e-5, atol=0)


@LAWS
@given(st.integers(0, 10**6), st.sampled_from(FORMS), st.floats(0, 0.5))
def test_law_transposing_everything_changes_nothing(seed, form, margin):
    scores, match = problem(seed=seed)
    assert_close(hinge_triplet(scores, match, margin, *form), hinge_triplet(scores.T, match.T, margin, *form))


@LAWS
@given(st.integers(0, 10**6), st.sampled_from(FORMS))
def test_law_no_violation_costs_nothing(seed, form):
    scores, match = problem(seed=seed)
    separated = torch.where(match, 1.0 + 0.1 * scores, -1.0 + 0.1 * scores)
    assert hinge_triplet(separated, match, 0.2, *form).item() == 0.0


@LAWS
@given(st.integers(0, 10**6), st.floats(-3, 3))
def test_law_losses_ignore_a_common_shift(seed, shift):
    scores, match = problem(seed=seed)
    for loss in (hinge_triplet, InfoNCE().double()):
        assert_close(loss(scores + shift, match), loss(scores, match), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_info_nce_equals_the_loop(seed, temperature):
    scores, match = problem(seed=seed)
    if seed == 3:
        match[1] = True
    got = InfoNCE(temperature).double()(scores, match)
    assert_close(got.item(), reference.info_nce(scores.numpy(), match.numpy(), temperature), rtol=1e-6, atol=1e-9)


def test_info_nce_gradient_of_scores_and_temperature():
    scores, match = problem(seed=6)
    match[1] = True
    loss = InfoNCE(0.2).double()
    f = lambda s, scale: torch.func.functional_call(loss, {"log_scale": scale}, (s, match))  # noqa: E731
    assert torch.autograd.gradcheck(f, (scores.requires_grad_(), loss.log_scale.detach().clone().requires_grad_()))


def test_the_scale_is_bounded_and_can_come_back():
    loss = InfoNCE(temperature=0.05, max_scale=100.0)
    with torch.no_grad():
        loss.log_scale.fill_(9.0)
    wrong = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # every positive loses: the loss wants a smaller scale
    loss(wrong, torch.eye(2, dtype=torch.bool)).backward()
    assert_close(loss.log_scale.exp().item(), 100.0, rtol=1e-5, atol=0)
    assert loss.log_scale.grad.item() > 0


def test_info_nce_computes_in_float32_on_half_precision_scores():
    scores, match = problem(seed=7)
    half = scores.to(torch.bfloat16)
    got = InfoNCE()(half, match)
    assert got.dtype == torch.float32
    assert_close(got, InfoNCE()(half.float(), match))


@pytest.mark.parametrize("k", [2, 4])
def test_diversities_equal_the_loops(k):
    given = sets(6, k, 1)
    residual = given.x * torch.linspace(0.5, 3, k)[None, :, None]  # not of unit length
    rows = reference.real(residual, given.mask)
    assert_close(gram_diversity(residual).item(), reference.gram_diversity(rows))
    assert_close(pairwise_diversity(residual).item(), reference.pairwise_diversity(rows))
    assert_close(pairwise_diversity(residual, t=0.7).item(), reference.pairwise_diversity(rows, 0.7))
    # the paper's form: ordered pairs summed, rows as they are; equal here to pairs × mean once rows are of unit length
    paper = pairwise_diversity(given.x, normalise=False, reduction="sum")
    assert_close(paper.item(), k * (k - 1) * reference.pairwise_diversity(rows))


@pytest.mark.parametrize("loss", [gram_diversity, pairwise_diversity])
def test_diversity_is_zero_for_one_element_largest_for_equal_ones_and_differentiable(loss):
    assert loss(sets(3, 1, 2).x).item() == 0.0
    equal = sets(3, 1, 3).x.repeat(1, 4, 1)
    assert loss(equal).item() > loss(sets(3, 4, 4).x).item()
    nothing = torch.zeros(1, 3, 4, dtype=torch.float16)  # 1e-12, the least norm to divide by, is 0 in half precision
    for x in (equal, torch.eye(4, 5, dtype=torch.float64)[None], nothing):  # orthogonal: the Gram norm is 0 there
        x = x.clone().requires_grad_()
        loss(x).backward()
        assert x.grad.isfinite().all()
    assert torch.autograd.gradcheck(loss, sets(2, 3, 5).x.requires_grad_())


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_mmd_equals_the_loop(gamma):
    v, t = sets(3, 3, 6, mask=True), sets(5, 2, 7, mask=True)
    wanted = reference.mmd(reference.real(v.x, v.mask), reference.real(t.x, t.mask), gamma)
    assert_close(mmd(v, t, gamma).item(), wanted, rtol=1e-6, atol=1e-9)


def test_mmd_of_equal_sets_is_zero_with_a_finite_gradient():
    v = sets(20, 4, 8)  # enough rows for torch.cdist to compute by a matrix product, which rounds 0 to 3e-4
    x = v.x.float().requires_grad_()
    loss = mmd(EmbeddingSet(x, v.mask), EmbeddingSet(x.detach().clone(), v.mask))
    loss.backward()
    assert_close(loss.item(), 0.0, rtol=0, atol=1e-6)
    assert x.grad.isfinite().all()
    collapsed = torch.ones(20, 4, 5).requires_grad_()
    mmd(EmbeddingSet(collapsed, v.mask), EmbeddingSet(torch.ones(20, 4, 5), v.mask)).backward()
    assert collapsed.grad.isfinite().all()


def test_mmd_gradient():
    v, t = sets(2, 2, 9), sets(3, 2, 10)
    f = lambda x, y: mmd(EmbeddingSet(x, v.mask), EmbeddingSet(y, t.mask))  # noqa: E731
    assert torch.autograd.gradcheck(f, (v.x.requires_grad_(), t.x.requires_grad_()))


def test_objective_adds_its_terms_and_warms_up():
    scores, match = problem(seed=8)
    v, t = sets(4, 3, 11), sets(7, 3, 12)
    every = partial(hinge_triplet, mining="all", reduction="mean")
    objective = Objective(hinge_triplet, {"mmd": (0.5, mmd), "off": (0.0, mmd)}, warmup_loss=every, warmup_epochs=2)
    for epoch, score_loss in ((0, every), (1, every), (2, hinge_triplet), (9, hinge_triplet)):
        total, terms = objective(scores, match, v, t, epoch)
        assert_close(terms["score"], score_loss(scores, match))
        assert_close(total, score_loss(scores, match) + 0.5 * mmd(v, t))
        assert set(terms) == {"score", "mmd"}


def test_objective_has_nothing_to_keep_apart_in_single_vectors():
    scores, match = problem(seed=9)
    v, t = Embedding(sets(4, 1, 13).x[:, 0]), Embedding(sets(7, 1, 14).x[:, 0])
    total, terms = Objective(hinge_triplet, {"mmd": (0.5, mmd)})(scores, match, v, t)
    assert_close(total, hinge_triplet(scores, match))
    assert set(terms) == {"score"}


SCORE_LOSSES = {
    "hinge": hinge_triplet,
    "infonce": InfoNCE(),
    "siglip": PairwiseSigmoid(bias=-1.0),
    "soft contrastive": soft_contrastive,
    "adaptive clustering": AdaptiveClustering(own_negatives=False),
    "adaptive clustering, paper": AdaptiveClustering("paper"),
}
every_loss = pytest.mark.parametrize("loss", SCORE_LOSSES.values(), ids=SCORE_LOSSES)
needs_pairs = pytest.mark.parametrize(
    "loss", [hinge_triplet, InfoNCE(), PairwiseSigmoid()], ids=["hinge", "infonce", "siglip"]
)


@every_loss
@settings(derandomize=True, deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_contract_of_score_losses(loss, seed):
    """One finite number; the order of items and the naming of the sides do not matter; the gradient is that of the
    formula.
    """
    match = torch.eye(4, dtype=torch.bool).repeat_interleave(2, 1)
    scores = torch.randn(4, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 0.3
    rows, columns = torch.randperm(4), torch.randperm(8)
    whole = loss(scores, match)
    assert whole.ndim == 0 and whole.isfinite()
    assert_close(loss(scores[rows][:, columns], match[rows][:, columns]), whole)
    assert_close(loss(scores.T.contiguous(), match.T), whole)
    assert torch.autograd.gradcheck(lambda s: loss(s, match), scores.requires_grad_())
    for extreme in (-1.0, 1.0):
        s = torch.full((4, 8), extreme).requires_grad_()
        (grad,) = torch.autograd.grad(loss(s, match), s)
        assert grad.isfinite().all()


@every_loss
def test_match_of_another_shape_or_type_is_refused(loss):
    scores, match = problem()
    nan = scores.index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(math.nan, dtype=scores.dtype))
    for s, m in ((scores, match.T), (scores, match.long()), (scores[0], match), (scores.cfloat(), match), (nan, match)):
        with pytest.raises(BadInput, match="must|NaN"):
            loss(s, m)
    square, eye = scores[:4, :4], torch.eye(4, dtype=torch.bool)
    assert_close(loss(square.numpy(), eye.numpy()), loss(square, eye), rtol=0, atol=0)


def test_losses_that_take_degrees_of_matching():
    scores, match = problem()
    degrees = torch.rand(match.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    degrees[1] = 0.0  # an image that nothing matches
    p = scores.sigmoid()
    wanted = -(degrees * p.log() + (1 - degrees) * (1 - p).log())
    assert_close(soft_contrastive(scores, degrees), 2 * wanted.sum())
    assert torch.equal(soft_contrastive(scores, match.double()), soft_contrastive(scores, match))

    def one_way(s, m):
        rows = [(r / r.sum() * q.log_softmax(0)).sum() for q, r in zip(s, m, strict=True) if r.sum()]
        return -torch.stack(rows).mean()

    wanted = (one_way(scores / 0.1, degrees) + one_way(scores.T / 0.1, degrees.T)) / 2
    assert_close(InfoNCE(0.1).double()(scores, degrees), wanted, rtol=1e-6, atol=1e-9)
    eye, square = torch.eye(4, dtype=torch.bool), scores[:4, :4]
    assert_close(InfoNCE(0.1)(square, eye.double()), InfoNCE(0.1)(square, eye))
    for wrong in (degrees + 1, degrees - 1, degrees * math.nan):
        with pytest.raises(BadInput, match=r"must lie in \[0, 1\]"):
            soft_contrastive(scores, wrong)


@pytest.mark.parametrize("loss", [hinge_triplet, AdaptiveClustering()])
def test_losses_that_count_pairs_refuse_degrees(loss):
    scores, match = problem()
    with pytest.raises(BadInput, match="match must be Boolean"):
        loss(scores, match.double())


@needs_pairs
def test_a_batch_without_a_pair_is_refused(loss):
    scores, match = problem()
    with pytest.raises(BadInput, match="no image of this batch"):
        loss(scores, torch.zeros_like(match))


def test_mmd_keeps_its_digits_under_autocast():
    x = sets(5, 2, 3).x.float()
    given = (x, F.normalize(x + 1e-3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0)), dim=-1))
    with torch.autocast("cpu", torch.bfloat16):
        half = mmd(*given)
    assert half.dtype == torch.float32 and half.item() == pytest.approx(mmd(*given).item(), rel=1e-6)


@pytest.mark.parametrize("mining", ["all", "semi-hard"])
def test_a_hinge_of_infinite_scores(mining):
    scores, match = problem()
    negative, positive = ((~match).nonzero()[0], match.nonzero()[0])
    worst = scores.index_put(tuple(negative), torch.tensor(torch.inf, dtype=scores.dtype))
    best = scores.index_put(tuple(positive), torch.tensor(torch.inf, dtype=scores.dtype))
    assert mining == "semi-hard" or hinge_triplet(worst, match, mining=mining).isinf()
    assert hinge_triplet(best, match, mining=mining).isfinite()


def test_a_divergence_that_is_left_out_has_no_gradient():
    log_std = torch.full((3, 4), 50.0).requires_grad_()
    given = (GaussianEmbedding(torch.zeros(3, 4), s) for s in (log_std, log_std * 0))
    with pytest.warns(UserWarning, match="left out"):
        mean_kl_to_normal(*given, most=1e4).backward()
    assert (log_std.grad == 0).all()


def test_a_compiled_adopt_is_compiled_once():
    loss = torch.compile(AdaptiveClustering(), fullgraph=True, backend="eager")
    for _ in range(12):
        with unchecked():
            loss(torch.randn(4, 4, requires_grad=True), torch.eye(4, dtype=torch.bool))
