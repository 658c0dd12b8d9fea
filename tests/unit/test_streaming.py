"""Ranks and best items from streamed scores: those of exact arithmetic, whatever the blocks, the device or the
precision.
"""

import copy
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from xmr_core.base.errors import BadInput
from xmr_core.base.machine import matrix_precision
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding, Relevance
from xmr_core.data.readers.assembly import TwoWayRelevance
from xmr_core.evaluation.evaluate import evaluate, evaluate_scores
from xmr_core.evaluation.metrics import Protocol
from xmr_core.evaluation.ranks import (
    MatrixScores,
    MeanScores,
    RankQuery,
    Scoring,
    as_matrix,
    at_least,
    best,
    blocks,
    ranks,
    relevant_ranks,
    score_matrix,
    take,
    top_k,
)
from xmr_core.similarities import Sgraf, chamfer, cosine, scan, smooth_chamfer
from xmr_core.similarities.gaussian import kl, reverse_kl

LAWS = partial(settings, derandomize=True, deadline=None, max_examples=25)
BUDGETS = (1, 40, 300, 1 << 23)


def sets(n, k, seed, ragged=False, d=8):
    g = torch.Generator().manual_seed(seed)
    x = F.normalize(torch.randn(n, k, d, generator=g), dim=-1)
    mask = (
        torch.arange(k)[None] < torch.randint(1, k + 1, (n, 1), generator=g)
        if ragged
        else torch.ones(n, k, dtype=torch.bool)
    )
    return EmbeddingSet(x, mask)


def some_relevance(n_queries, n_gallery, seed, most=3):
    rng = np.random.default_rng(seed)
    pairs = [(q, g) for q in range(n_queries) for g in rng.choice(n_gallery, rng.integers(1, most + 1), replace=False)]
    return Relevance.from_positions(*np.array(pairs).T, np.arange(n_queries), np.arange(n_gallery))


def in_float64(similarity, images, captions):
    double = [
        EmbeddingSet(s.x.double(), s.mask) if isinstance(s, EmbeddingSet) else Embedding(s.x.double())
        for s in (images, captions)
    ]
    return similarity(*double).numpy()


def loop(scores, relevance, tie=1e-12):
    """Ranks by definition: n + the number of irrelevant items scoring at least as high as the nth best relevant one."""
    out = []
    for q in range(len(relevance)):
        mine = relevance[q]
        others = np.delete(scores[q], mine)
        out += [n + int((others >= s - tie).sum()) for n, s in enumerate(sorted(scores[q][mine], reverse=True), 1)]
    return np.array(out)


def coarse(images, captions):
    """A similarity that is right in float64 and off by up to 1 % in float32, as a fast product of few bits is."""
    exact = chamfer(images, captions)
    return exact if exact.dtype == torch.float64 else exact.bfloat16().float()


@pytest.mark.slow
@LAWS()
@given(
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(["smooth", "scan", "coarse", "cosine"]),
)
def test_law_ranks_are_those_of_exact_arithmetic_whatever_the_budget(seed, ragged, k, name):
    similarity = {"smooth": smooth_chamfer, "scan": scan, "coarse": coarse, "cosine": cosine}[name]
    k = 1 if name == "cosine" else k
    images, captions = sets(9, k, seed, ragged and name != "cosine"), sets(17, k, seed + 1, ragged and name != "cosine")
    captions = captions[
        torch.randint(0, 17, (17,), generator=torch.Generator().manual_seed(seed))
    ]  # some captions stand there twice
    t2i = some_relevance(17, 9, seed)
    questions = [RankQuery(t2i, "captions"), RankQuery(some_relevance(9, 17, seed, most=9), "images")]
    scores = in_float64(similarity, images, captions)
    wanted = loop(scores.T, t2i), loop(scores, questions[1].relevance)
    for budget in BUDGETS:
        found = ranks(Scoring(similarity, images, captions, budget), questions).ranks
        for mine, right in zip(found, wanted, strict=True):
            assert (mine.ranks == right).all()


@LAWS()
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 20))
def test_law_counting_equals_the_loop(seed, p, g):
    rng = np.random.default_rng(seed)
    values = rng.choice([-np.inf, -1.0, 0.0, 0.5, 1.0, np.inf], (4, g))
    limits = np.sort(rng.choice([-np.inf, -1.0, 0.25, 0.5, np.inf], (4, p)), 1)
    wanted = (values[:, None] >= limits[..., None]).sum(2)
    for v in (torch.tensor(values), torch.tensor(values.T.copy()).T):
        assert (at_least(v, torch.tensor(limits)).numpy() == wanted).all()


def test_an_error_larger_than_on_the_sample_is_noticed_and_the_pass_made_again():
    images, captions = sets(40, 2, 1), sets(100, 2, 2)
    relevance = Relevance.from_positions(np.arange(100), np.arange(100) % 40, np.arange(100), np.arange(40))
    calls = []

    def wrong_at_one_place(x, y):
        scores = chamfer(x, y)
        if scores.dtype == torch.float32 and len(y) == 100:  # a whole block, not the sample
            calls.append(1)
            scores = scores.clone()
            scores[:, 7] += 0.05 * (-1.0) ** torch.arange(len(scores))
        return scores

    found = ranks(Scoring(wrong_at_one_place, images, captions), [RankQuery(relevance, "captions")])
    assert (found.ranks[0].ranks == loop(in_float64(chamfer, images, captions).T, relevance)).all()
    assert found.error > 0.05 and len(calls) == 2


def test_a_sample_that_happens_to_be_exact_does_not_make_the_rest_exact():
    """Coordinates of 0 and 1 are multiplied without rounding, and the sample is made of them alone."""
    images, captions = sets(200, 1, 1), sets(400, 1, 2)
    for s, most in ((images, 32), (captions, 64)):
        s.x[np.unique(np.linspace(0, len(s) - 1, most).astype(int))] = torch.eye(8)[0]

    def rough(x, y):
        found = chamfer(x, y)
        return found if found.dtype == torch.float64 else (found * 2**12).round() / 2**12

    relevance = Relevance.from_positions(np.arange(400), np.arange(400) % 200, np.arange(400), np.arange(200))
    found = ranks(Scoring(rough, images, captions), [RankQuery(relevance, "captions")])
    assert (found.ranks[0].ranks == loop(in_float64(rough, images, captions).T, relevance)).all() and found.error > 1e-5


def test_a_collapsed_model_ranks_last_among_ties():
    images, captions = (EmbeddingSet(torch.ones(n, 2, 3), torch.ones(n, 2, dtype=torch.bool)) for n in (300, 600))
    relevance = Relevance.from_positions(np.arange(600), np.arange(600) % 300, np.arange(600), np.arange(300))
    found = ranks(Scoring(smooth_chamfer, images, captions, 10_000), [RankQuery(relevance, "captions")])
    assert (found.ranks[0].ranks == 300).all() and found.exact_blocks > 0


def test_what_float64_cannot_tell_apart_is_a_tie_in_whole_blocks_too():
    noise = torch.Generator().manual_seed(0)

    def equal_up_to_rounding(x, y):
        return 1 + 1e-14 * torch.randn(len(x), len(y), generator=noise, dtype=torch.float64).to(x.x.dtype)

    relevance = Relevance.from_positions(np.arange(600), np.arange(600) % 300, np.arange(600), np.arange(300))
    found = ranks(
        Scoring(equal_up_to_rounding, sets(300, 1, 1), sets(600, 1, 2), 30_000), [RankQuery(relevance, "captions")]
    )
    assert found.exact_blocks == found.blocks and (found.ranks[0].ranks == 300).all()


def test_a_learned_similarity_is_settled_with_its_own_numbers_in_double():
    torch.manual_seed(0)
    similarity = Sgraf(8, "saf", 5).eval()
    images, captions, relevance = sets(30, 3, 1), sets(60, 3, 2), some_relevance(60, 30, 3)
    for form in (similarity, partial(similarity)):
        found = ranks(Scoring(form, images, captions), [RankQuery(relevance, "captions")])
        double = copy.deepcopy(similarity).double()
        exact = in_float64(lambda x, y, double=double: double(x, y).detach(), images, captions).T
        assert (found.ranks[0].ranks == loop(exact, relevance)).all()
    assert next(similarity.parameters()).dtype == torch.float32, "the one that was form must stay as it was"


def test_the_mean_of_finished_matrices_is_not_rounded():
    first, second = np.ones((1, 2), np.float32), np.array([[1 + 2**-23, 1]], np.float32)
    mean = MeanScores([MatrixScores(first), MatrixScores(second)])
    assert ranks(mean, [RankQuery(Relevance.from_positions([0], [0], [0], range(2)), "images")]).ranks[
        0
    ].ranks.tolist() == [1]


@pytest.mark.parametrize("budget", BUDGETS)
def test_best_items_are_those_of_a_full_sort(budget):
    images, captions = sets(23, 3, 1), sets(31, 3, 2, ragged=True)
    images = images[torch.tensor([*range(20), 4, 4, 4])]  # four equal pictures: file order decides
    exact = in_float64(smooth_chamfer, images, captions)
    for by, matrix in (("captions", exact.T), ("images", exact)):
        scores, items = best(Scoring(smooth_chamfer, images, captions, budget), 5, by)
        order = np.argsort(-matrix.round(11), axis=1, kind="stable")[:, :5]
        assert (items == order).all()
        assert np.allclose(scores, np.take_along_axis(matrix, order, 1), atol=1e-6)


def test_more_ties_than_are_kept_are_still_in_file_order():
    images = EmbeddingSet(torch.ones(60, 1, 3), torch.ones(60, 1, dtype=torch.bool))
    _, items = top_k(chamfer, sets(3, 1, 1, d=3), images, 4)
    assert (items == np.arange(4)).all()


def test_items_that_score_minus_infinity_are_items():
    matrix = np.full((3, 30), -np.inf)
    matrix[1, [4, 9]] = 1.0, 2.0
    scores, items = best(MatrixScores(matrix), 4, "images")
    assert items.tolist() == [[0, 1, 2, 3], [9, 4, 0, 1], [0, 1, 2, 3]] and scores[1, :2].tolist() == [2.0, 1.0]


def test_best_items_settle_what_fast_scores_confuse():
    images, captions = sets(50, 3, 1), sets(20, 3, 2)
    exact = in_float64(coarse, images, captions).T
    order = np.argsort(-exact, axis=1, kind="stable")[:, :6]
    assert (np.argsort(-coarse(images, captions).numpy().T, axis=1, kind="stable")[:, :6] != order).any()
    assert (best(Scoring(coarse, images, captions), 6)[1] == order).all()


def test_an_ensemble_is_the_mean_of_its_members_block_by_block():
    images, captions, relevance = sets(12, 3, 1), sets(40, 3, 2, ragged=True), some_relevance(40, 12, 3)
    vectors = Embedding(images.x[:, 0]), Embedding(captions.x[:, 0])
    both = MeanScores([Scoring(smooth_chamfer, images, captions, 200), Scoring(cosine, *vectors)])
    exact = (in_float64(smooth_chamfer, images, captions) + in_float64(cosine, *vectors)) / 2
    assert np.allclose(as_matrix(both), exact, atol=1e-6)
    assert (ranks(both, [RankQuery(relevance, "captions")]).ranks[0].ranks == loop(exact.T, relevance)).all()
    files = MeanScores(
        [MatrixScores(score_matrix(smooth_chamfer, images, captions)), MatrixScores(score_matrix(cosine, *vectors))]
    )
    assert (ranks(files, [RankQuery(relevance, "captions")]).ranks[0].ranks == loop(exact.T, relevance)).all()


def test_several_judges_of_other_ids_are_asked_in_one_pass_and_folds_for_themselves():
    images, captions = sets(20, 3, 1), sets(100, 3, 2)
    own = Relevance.from_positions(
        np.arange(100), np.repeat(np.arange(20), 5), [f"c{n}" for n in range(100)], [f"i{n}" for n in range(20)]
    )
    rng = np.random.default_rng(0)
    few_t, few_i = rng.permutation(100)[:30], rng.permutation(20)[:9]
    pairs = [(f"c{few_t[n]}", f"i{few_i[2 + n % 7]}") for n in range(5, 30)]  # the first ones ask in vain
    few = Relevance.from_pairs(pairs, [f"c{n}" for n in few_t], [f"i{n}" for n in few_i])
    back = some_relevance(20, 100, 5)  # judged when asked from the other side
    apart = TwoWayRelevance.join(own, Relevance(back.indptr, back.indices, own.gallery_ids, own.query_ids))
    kinds, matrix = {"annotated": own, "few": few, "apart": apart}, in_float64(smooth_chamfer, images, captions)
    for protocol in (Protocol("whole", 20, 1, ""), Protocol("folds", 20, 4, "")):
        streamed = evaluate(smooth_chamfer, images, captions, kinds, protocol)
        kept = evaluate_scores(matrix, kinds, protocol)
        assert streamed.per_query.equals(kept.per_query) and streamed.dropped == kept.dropped


@pytest.mark.slow
def test_every_pair_stands_in_one_block_and_hardly_any_padding_is_scored():
    images, captions = sets(50, 6, 1), sets(400, 12, 2, ragged=True)
    for budget in BUDGETS:
        seen, work = np.zeros((50, 400), int), 0
        for i, t in blocks(images, captions, budget):
            x, y = take(images, i), take(captions, t)
            seen[np.ix_(np.arange(50)[i], np.arange(400)[t])] += 1
            work += x.mask.numel() * y.mask.numel()
            assert len(x) * len(y) == 1 or x.mask.numel() * y.mask.numel() <= budget
        assert (seen == 1).all()
        assert work <= 1.05 * int(images.mask.sum()) * int(captions.mask.sum()), (
            "captions of one length belong together"
        )


def test_progress_is_told_every_pair_once_and_may_interrupt():
    images, captions, relevance = sets(9, 2, 1), sets(17, 2, 2), some_relevance(17, 9, 1)
    told = []
    ranks(Scoring(chamfer, images, captions, 40), [RankQuery(relevance, "captions")], told.append)
    assert sum(told) == 9 * 17 and len(told) > 5

    def stop(pairs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ranks(Scoring(chamfer, images, captions, 40), [RankQuery(relevance, "captions")], stop)


def test_a_score_that_is_no_number_is_named_by_its_place_in_the_whole():
    class Spoilt(nn.Module):
        def forward(self, x, y):
            return torch.where(y.x[:, 0].sum(-1)[None] > 100, torch.nan, chamfer(x, y))

    captions = sets(40, 3, 2, ragged=True)
    captions.x[33] += 1000
    with pytest.raises(BadInput, match="score of image 0 and caption 33 is not a number"):
        ranks(Scoring(Spoilt(), sets(9, 2, 1), captions, 60), [RankQuery(some_relevance(40, 9, 1), "captions")])


def test_precision_holds_inside_and_is_put_back():
    before = torch.get_float32_matmul_precision()
    with matrix_precision("bfloat16"):
        assert torch.get_float32_matmul_precision() == "medium"
    with pytest.raises(KeyError), matrix_precision("tf32"):
        raise KeyError
    assert torch.get_float32_matmul_precision() == before
    images, captions, relevance = sets(30, 3, 1), sets(60, 3, 2), some_relevance(60, 30, 3)
    for precision in ("float32", "tf32", "bfloat16"):
        found = ranks(
            Scoring(smooth_chamfer, images, captions, precision=precision), [RankQuery(relevance, "captions")]
        ).ranks[0]
        assert (found.ranks == loop(in_float64(smooth_chamfer, images, captions).T, relevance)).all()


def test_what_does_not_fit_is_refused():
    scoring = Scoring(chamfer, sets(4, 2, 1), sets(6, 2, 2))
    with pytest.raises(BadInput, match="does not fit"):
        ranks(scoring, [RankQuery(some_relevance(4, 6, 1), "captions")])
    with pytest.raises(BadInput, match="without a relevant item"):
        ranks(scoring, [RankQuery(Relevance.from_positions([0], [0], np.arange(4), np.arange(6)), "images")])
    assert (relevant_ranks(np.array([[3.0, 2, 1]]), Relevance.from_positions([0], [1], [0], range(3))).ranks == 2).all()


def test_a_score_that_overflows_on_the_way_is_taken_from_float64():
    """One image is all but a point: its divergences are finite, and float32 has ∞ − ∞ on the way to them."""
    g = torch.Generator().manual_seed(0)
    images, captions = (
        GaussianEmbedding(
            mean=F.normalize(torch.randn(n, 8, generator=g), dim=-1), log_std=torch.randn(n, 8, generator=g) - 2
        )
        for n in (12, 20)
    )
    images.log_std[3] -= 50
    images.log_std[5] -= 41  # where one term of it overflows
    i2t, t2i = some_relevance(12, 20, 1), some_relevance(20, 12, 2)
    for similarity in (kl, reverse_kl):
        double = [GaussianEmbedding(mean=r.mean.double(), log_std=r.log_std.double()) for r in (images, captions)]
        exact = similarity(*double).numpy()
        assert np.isfinite(exact).all()
        for budget in BUDGETS:
            scores = Scoring(similarity, images, captions, budget)
            found = ranks(scores, [RankQuery(i2t, "images"), RankQuery(t2i, "captions")]).ranks
            np.testing.assert_array_equal(found[0].ranks, loop(exact, i2t))
            np.testing.assert_array_equal(found[1].ranks, loop(exact.T, t2i))
    assert reverse_kl(images, captions).isnan().any() and reverse_kl(images, captions).isinf().any()
