"""Scoring without gradients takes other paths than training: both must give what the equations give."""

import math
from functools import partial

import pytest
import reference
import torch
import torch.nn.functional as F
from test_similarities import ALL_SIMILARITIES, GRAPHS, LOOPS, SETS, SETWISE, example, ragged, rows_of
from torch.testing import assert_close

from xmr_core.base.types import EmbeddingSet, GaussianEmbedding
from xmr_core.similarities import DISTANCES, JointSgraf, MatchLogit, MatchProbability, Scan, Sgraf, SmoothChamfer, scan
from xmr_core.similarities.base import DIRECTIONS
from xmr_core.similarities.kernels import attention as attention_file
from xmr_core.similarities.kernels import sgraf as node_blocks_file
from xmr_core.similarities.kernels.attention import attention_blocks
from xmr_core.similarities.pairs import NORMALISATIONS, attend
from xmr_core.similarities.scan import AGGREGATIONS
from xmr_core.similarities.sets import pair_matrices

exact = partial(assert_close, rtol=1e-10, atol=1e-10)


def full(n, k, seed, dtype=torch.float64):
    """Sets without padding."""
    x = ragged(n, k, seed=seed, dtype=dtype).x
    return EmbeddingSet(x, torch.ones(n, k, dtype=torch.bool))


@pytest.fixture(params=["as it is", "tiny blocks"])
def block_sizes(request, monkeypatch):
    if request.param == "tiny blocks":
        for file in (attention_file, node_blocks_file):
            monkeypatch.setattr(file, "_COLUMNS", 7)
            monkeypatch.setattr(file, "_ROWS", 5)
        monkeypatch.setattr(attention_file.attention_blocks, "__defaults__", (7, 5))


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("sizes", [(3, 4), (1, 4), (4, 1), (1, 1)])
def test_every_similarity_of_whole_and_of_ragged_sets_equals_the_loop(name, sizes):
    if name in ("cosine", "order"):
        sizes = (1, 1)
    for make in (full, ragged):
        images, captions = make(5, sizes[0], seed=1), make(7, sizes[1], seed=2)
        given = (
            [example(name, len(s), s.x.shape[1], seed) for s, seed in ((images, 1), (captions, 2))]
            if sizes == (1, 1)
            else [images, captions]
        )
        wanted = reference.scores(*map(rows_of, given), LOOPS[name])
        exact(ALL_SIMILARITIES[name].score(*given), torch.tensor(wanted))


@pytest.mark.parametrize("alpha", [0.5, 16.0, 39.0, 64.0, 300.0])
@pytest.mark.parametrize("k, l", [(4, 4), (1, 3), (8, 2)])
def test_smooth_chamfer_at_every_alpha_and_in_float32(alpha, k, l):
    """Products of sums, sums of logarithms and shifted sums take turns as alpha and the sets grow."""
    images, captions = full(5, k, 1), full(6, l, 2)
    wanted = torch.tensor(
        reference.scores(rows_of(images), rows_of(captions), partial(reference.smooth_chamfer, alpha=alpha))
    )
    exact(SmoothChamfer(alpha).score(images, captions), wanted)
    single = [EmbeddingSet(s.x.float(), s.mask) for s in (images, captions)]
    assert_close(SmoothChamfer(alpha).score(*single).double(), wanted, rtol=0, atol=2e-6 / min(alpha, 1))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_match_probability_with_scale_and_shift(reduction):
    images, captions = full(3, 2, 1), full(4, 3, 2)
    similarity = MatchProbability(3.0, -1.0, reduction=reduction).double()
    wanted = reference.scores(
        rows_of(images), rows_of(captions), partial(reference.mp, a=3.0, b=-1.0, reduction=reduction)
    )
    exact(similarity.score(images, captions), torch.tensor(wanted))


@pytest.mark.parametrize("sharpness", [3.0, 90.0])
@pytest.mark.parametrize("normalise", NORMALISATIONS)
@pytest.mark.parametrize("aggregate", AGGREGATIONS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_form_of_scan_equals_the_loop(direction, aggregate, normalise, sharpness, block_sizes):
    form = {
        "direction": direction,
        "aggregate": aggregate,
        "normalise": normalise,
        "sharpness": sharpness,
        "lse_scale": 20.0,
    }
    for make in (full, ragged):
        images, captions = make(4, 5, seed=1), make(5, 6, seed=2)
        wanted = reference.scores(rows_of(images), rows_of(captions), partial(reference.scan, **form))
        exact(Scan(**form).score(images, captions), torch.tensor(wanted))


@pytest.mark.parametrize("junk", [1e30, math.nan, math.inf])
@pytest.mark.parametrize("name", SETWISE)
def test_padding_has_no_say(name, junk):
    images, captions = example(name, 4, 4, 7), example(name, 5, 5, 8)
    spoilt = [EmbeddingSet(torch.where(s.mask[..., None], s.x, junk), s.mask) for s in (images, captions)]
    exact(SETWISE[name].score(*spoilt), SETWISE[name].score(images, captions))


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_are_those_of_training_in_eval_mode(name, block_sizes):
    images, captions = example(name, 5, 4, 1), example(name, 40, 6, 2)
    trained = GRAPHS[name](images, captions)
    exact(GRAPHS[name].score(images, captions), trained)


@pytest.mark.parametrize("sharpness", [60.0, 200.0])
@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_sharp_attention_neither_overflows_nor_vanishes_in_float32(sharpness, normalise):
    """Every region is opposite to the word: beside padding, which is not, all weights would be 0."""
    x = F.normalize(torch.tensor([[[1.0, 0.1], [1.0, -0.2], [7.0, 7.0]]], dtype=torch.float64), dim=-1)
    images = EmbeddingSet(x, torch.tensor([[True, True, False]]))
    for side in (-1.0, 1.0):
        captions = EmbeddingSet(torch.tensor([[[side, 0.0]]], dtype=torch.float64), torch.ones(1, 1, dtype=torch.bool))
        wanted = scan(images, captions, sharpness=sharpness, normalise=normalise)
        single = [EmbeddingSet(s.x.float(), s.mask) for s in (images, captions)]
        scores = Scan(sharpness=sharpness, normalise=normalise).score(*single)
        assert_close(scores.double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [lambda: Sgraf(6, "saf", 5), lambda: JointSgraf(6, 5)])
def test_statistics_of_a_batch_are_taken_without_gradients_too(make, block_sizes):
    """A module in train mode reads the batch as a whole, whether or not anyone asks for gradients."""
    images, captions = (
        EmbeddingSet(s.x.float(), s.mask)
        for s in (example("sgraf saf t2i", 4, 4, 1), example("sgraf saf t2i", 5, 5, 2))
    )
    torch.manual_seed(0)
    with_gradient = make().train()
    wanted = with_gradient(images, captions)
    torch.manual_seed(0)
    without = make().train()
    assert_close(without.score(images, captions), wanted.detach())
    for a, b in zip(with_gradient.buffers(), without.buffers(), strict=True):
        assert_close(a, b)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_attention_blocks_are_attention_before_its_division(normalise, block_sizes):
    contexts, queries = ragged(4, 5, seed=3), ragged(6, 4, seed=4)
    products, attention = attend(contexts, queries, 4.0, normalise)
    seen = torch.zeros(4, 6)
    with torch.inference_mode():
        for part, lengths in attention_blocks(contexts, queries, 4.0, normalise, 0.1):
            seen[part.contexts, part.queries] += 1
            mine, real = attention[part.contexts][:, :, part.queries], queries.mask[part.queries]
            exact((part.weights / part.weights.sum(1)[:, None]).transpose(2, 3)[..., real].clone(), mine[..., real])
            exact(part.products.transpose(2, 3).clone(), products[part.contexts][:, :, part.queries])
            x = torch.where(contexts.mask[..., None], contexts.x, 0.0)[part.contexts]
            found = torch.einsum("bcaq,bcd->baqd", mine, x).norm(dim=-1)
            exact((lengths / part.weights.sum(1)).transpose(1, 2)[:, real].clone(), found[:, real])
    assert (seen == 1).all()


@pytest.mark.parametrize("i, t", [(40, 30), (3, 30), (40, 3)])
def test_pair_matrices_and_what_reads_them_for_galleries_and_for_single_queries(i, t):
    """Many against many, and few against many on either side, are multiplied in different orders."""
    images, captions = full(i, 3, 1), full(t, 4, 2)
    products = torch.einsum("ikd,tld->kilt", images.x, captions.x).transpose(1, 2)  # k l i t
    with torch.inference_mode():
        p = pair_matrices(images, captions, 3.0)
        exact(torch.stack([torch.stack(row) for row in p]).clone(), 3 * products)
        for alpha in (16.0, 64.0):
            inside = (alpha * products).logsumexp(1).mean(0) + (alpha * products).logsumexp(0).mean(0)
            exact(SmoothChamfer(alpha).score(images, captions), inside / (2 * alpha))
        exact(SETS["mil"].score(images, captions), products.amax((0, 1)))
        exact(SETS["chamfer"].score(images, captions), (products.amax(1).mean(0) + products.amax(0).mean(0)) / 2)
        exact(MatchProbability().double().score(images, captions), products.sigmoid().mean((0, 1)))


def distributions(n, seed, d=6, samples=4, isotropic=False):
    g = torch.Generator().manual_seed(seed)
    mean, log_std = (torch.randn(n, d, generator=g, dtype=torch.float64) for _ in range(2))
    log_std = log_std[:, :1].expand(-1, d).clone() if isotropic else log_std
    draws = mean[:, None] + log_std.exp()[:, None] * torch.randn(n, samples, d, generator=g, dtype=torch.float64)
    return GaussianEmbedding(mean, log_std, draws)


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("isotropic", [True, False])
def test_a_product_for_one_sigma_is_the_sum_over_dimensions(name, isotropic):
    """With one σ per item some are matrix products; σ moved in one dimension by nothing that shows takes the general
    way.
    """
    images, captions = (distributions(n, seed, isotropic=isotropic) for n, seed in ((4, 1), (5, 2)))
    moved = GaussianEmbedding(
        images.mean, images.log_std + torch.eye(1, 6, dtype=torch.float64) * 1e-13, images.samples
    )
    with torch.inference_mode():
        exact(DISTANCES[name](images, captions).clone(), DISTANCES[name](moved, captions).clone())


@pytest.mark.parametrize("a, b", [(1.0, 2.0), (15.0, 15.0), (300.0, 5.0)])
def test_match_logit_is_the_same_for_scoring(a, b):
    images, captions = (distributions(n, seed) for n, seed in ((4, 1), (5, 2)))
    images, captions = (GaussianEmbedding(s.mean, s.log_std, s.samples / 20) for s in (images, captions))
    similarity = MatchLogit(a, b).double()
    wanted = similarity(images, captions).detach()
    with torch.no_grad():
        assert_close(similarity.score(images, captions), wanted, rtol=1e-9, atol=1e-9)
        assert (similarity._fast_scores(images, captions) is None) == (a == 300.0), (
            "sums that would vanish are taken the long way"
        )
