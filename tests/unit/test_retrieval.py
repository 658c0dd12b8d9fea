"""Ranks, metrics, protocols: against examples by hand, loops, an independent package, and the authors' evaluators."""

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from golden import Case, cases
from hypothesis import given, settings
from hypothesis import strategies as st

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet, Relevance
from xmr_core.evaluation import metrics
from xmr_core.evaluation.evaluate import evaluate, evaluate_scores, judgment_agreement
from xmr_core.evaluation.metrics import COCO_1K, COCO_5K, FLICKR_1K, FULL, Protocol, get_protocol
from xmr_core.evaluation.ranks import MatrixScores, MeanScores, relevant_ranks, score_matrix
from xmr_core.similarities import smooth_chamfer

# Three images, two captions each. Caption 3 (of image 1) is scored like an image-0 caption; caption 5 ties with
# caption 0 for image 2.
SCORES = np.array(
    [
        [0.9, 0.2, 0.1, 0.8, 0.0, 0.3],
        [0.4, 0.5, 0.6, 0.7, 0.1, 0.2],
        [0.5, 0.1, 0.0, 0.3, 0.2, 0.5],
    ],
    np.float32,
)
OWN = Relevance.from_positions(np.arange(6), np.array([0, 0, 1, 1, 2, 2]), np.arange(6), np.arange(3))


def loop_ranks(scores, relevance):
    out = []
    for q, row in enumerate(scores):
        mine = set(relevance[q].tolist())
        best_first = sorted(mine, key=lambda j: -row[j])
        out.append(
            [
                n + sum(row[j] >= row[item] for j in range(len(row)) if j not in mine)
                for n, item in enumerate(best_first, 1)
            ]
        )
    return out


def random_case(seed, ties, q=7, g=11):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (q, g)).astype(np.float32) if ties else rng.standard_normal((q, g)).astype(np.float32)
    relevant = rng.random((q, g)) < 0.3
    relevant[np.arange(q), rng.integers(0, g, q)] = True
    return scores, Relevance.from_matrix(relevant, np.arange(q), np.arange(g))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_ranks_equal_the_loop(seed, ties):
    scores, relevance = random_case(seed, ties)
    ranks = relevant_ranks(scores, relevance)
    assert [ranks[q].tolist() for q in range(len(ranks))] == loop_ranks(scores.tolist(), relevance)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 10_000))
def test_laws(seed):
    scores, relevance = random_case(seed, ties=True)
    ranks = relevant_ranks(scores, relevance)
    order = np.random.default_rng(seed).permutation(scores.shape[1])
    turned = relevance.restrict(np.arange(len(relevance)), order)
    assert (relevant_ranks(scores[:, order], turned).ranks == ranks.ranks).all(), (
        "the gallery's order must not matter, with ties"
    )
    recalls = [metrics.recall_at_k(ranks, k) for k in range(1, 12)]
    assert all((a <= b).all() for a, b in itertools.pairwise(recalls)) and (recalls[-1] == 1).all()
    perfect = relevance.dense(np.arange(7), np.arange(11)).astype(np.float32)
    best = relevant_ranks(perfect, relevance)
    for metric in (metrics.r_precision, metrics.map_at_r, lambda r: metrics.recall_at_k(r, 1)):
        assert (metric(best) == 1).all()
    collapsed = relevant_ranks(np.zeros_like(scores), relevance)
    wanted = (relevance.counts == scores.shape[1]).astype(
        float
    )  # unless everything is relevant, a collapsed model finds nothing
    assert (metrics.recall_at_k(collapsed, 1) == wanted).all()


@pytest.mark.parametrize("seed", range(3))
def test_an_independent_package_agrees(seed):
    ir_measures = pytest.importorskip("ir_measures")
    scores, relevance = random_case(seed, ties=False)
    ranks = relevant_ranks(scores, relevance)
    run = [ir_measures.ScoredDoc(str(q), str(d), float(scores[q, d])) for q in range(7) for d in range(11)]
    truth = [ir_measures.Qrel(str(q), str(d), 1) for q in range(7) for d in relevance[q]]
    for measure, ours in (
        (ir_measures.Success @ 1, metrics.recall_at_k(ranks, 1)),
        (ir_measures.Success @ 5, metrics.recall_at_k(ranks, 5)),
        (ir_measures.Rprec, metrics.r_precision(ranks)),
    ):
        theirs = {m.query_id: m.value for m in ir_measures.iter_calc([measure], truth, run)}
        assert np.allclose([theirs[str(q)] for q in range(7)], ours)


def five_each(n):
    return Relevance.from_positions(np.arange(5 * n), np.repeat(np.arange(n), 5), np.arange(5 * n), np.arange(n))


def recalls_and_ranks(summary, direction: str) -> list[float]:
    """R@1, R@5, R@10 in percent, median rank, mean rank: the authors' order."""
    recalls = [100 * summary[direction, "recall", k] for k in (1, 5, 10)]
    return recalls + [summary[direction, f"{mean}_rank", 0] for mean in ("median", "mean")]


@pytest.mark.parametrize("name", ["evaluation/recall_N50", "evaluation/recall_N8"])
def test_golden_recalls(name):
    case = Case(name)
    scores = case["in.sims"].numpy()
    evaluation = evaluate_scores(scores, {"annotated": five_each(len(scores))})
    summary = evaluation.summary().set_index(["direction", "metric", "k"])["value"]
    for direction in ("i2t", "t2i"):
        assert np.allclose(recalls_and_ranks(summary, direction), case[f"out.{direction}"].numpy(), rtol=1e-5)
        mine = evaluation.per_query[evaluation.per_query["direction"] == direction]
        assert (mine["first_rank"].to_numpy() - 1 == case[f"out.ranks_{direction}"].numpy()).all()
    assert (scores.argmax(1) == case["out.top1_i2t"].numpy()).all() and (
        scores.argmax(0) == case["out.top1_t2i"].numpy()
    ).all()
    assert 100 * summary["both", "rsum", 0] == pytest.approx(case["out.rsum"].item(), rel=1e-5)


def test_golden_ties_are_resolved_pessimistically():
    case = Case("evaluation/recall_N30_ties")
    scores = case["in.sims"].numpy()
    summary = (
        evaluate_scores(scores, {"annotated": five_each(30)}).summary().set_index(["direction", "metric", "k"])["value"]
    )
    for direction in ("i2t", "t2i"):
        ours = np.array([100 * summary[direction, "recall", k] for k in (1, 5, 10)])
        assert np.allclose(ours, case[f"out.{direction}_pessimistic"].numpy(), rtol=1e-5)
        assert (ours <= case[f"out.{direction}_optimistic"].numpy() + 1e-4).all()


def test_golden_five_folds():
    case = Case("evaluation/five_fold_100img")
    scores = case["in.sims"].numpy()
    protocol = Protocol("test", 100, 5, "")
    evaluation = evaluate_scores(scores, {"annotated": five_each(100)}, protocol)
    for fold, stored in enumerate(case["out.per_fold"].numpy()):
        mine = (
            evaluation.per_query[evaluation.per_query["fold"] == fold]
            .groupby("direction")[["R@1", "R@5", "R@10"]]
            .mean()
        )
        recalls = [*(100 * mine.loc["i2t"]), *(100 * mine.loc["t2i"])]
        assert np.allclose([*recalls, sum(recalls)], stored, rtol=1e-5)
    whole = (
        evaluate_scores(scores, {"annotated": five_each(100)})
        .summary()
        .set_index(["direction", "metric", "k"])["value"]
    )
    for direction in ("i2t", "t2i"):
        assert np.allclose(recalls_and_ranks(whole, direction), case[f"out.full_{direction}"].numpy(), rtol=1e-5)
    assert 100 * whole["both", "rsum", 0] == pytest.approx(case["out.full_rsum"].item(), rel=1e-5)
    summary = evaluation.summary().set_index(["direction", "metric", "k"])["value"]
    ours = [100 * summary[d, "recall", k] for d in ("i2t", "t2i") for k in (1, 5, 10)]
    golden = case["out.fold_mean"].numpy()
    assert np.allclose(ours, golden[:6], rtol=1e-5) and 100 * summary["both", "rsum", 0] == pytest.approx(
        golden[6], rel=1e-5
    )


def test_golden_ensemble():
    case = Case("evaluation/ensemble_mean")
    both = MeanScores([MatrixScores(case[f"in.sims_{n}"].numpy()) for n in "ab"])
    summary = (
        evaluate_scores(both, {"annotated": five_each(100)}).summary().set_index(["direction", "metric", "k"])["value"]
    )
    for direction in ("i2t", "t2i"):
        assert np.allclose(recalls_and_ranks(summary, direction), case[f"out.{direction}"].numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", cases("evaluation", "set_eval"))
def test_golden_set_retrieval(name):
    case = Case(name)
    images, captions = (
        EmbeddingSet(case[f"in.{s}_set"], torch.ones(case[f"in.{s}_set"].shape[:2], dtype=torch.bool))
        for s in ("img", "txt")
    )
    similarity = partial(smooth_chamfer, alpha=case.cfg["alpha"])
    assert np.allclose(score_matrix(similarity, images, captions), case["out.sims"].numpy(), rtol=1e-5, atol=1e-6)
    evaluation = evaluate(similarity, images, captions, {"annotated": five_each(len(images))})
    summary = evaluation.summary().set_index(["direction", "metric", "k"])["value"]
    for direction in ("i2t", "t2i"):
        assert np.allclose(recalls_and_ranks(summary, direction), case[f"out.{direction}"].numpy(), rtol=1e-5)
    for direction in ("i2t", "t2i"):
        mine = evaluation.per_query[evaluation.per_query["direction"] == direction]
        assert (mine["first_rank"].to_numpy() - 1 == case[f"out.ranks_{direction}"].numpy()).all()


@pytest.mark.parametrize("name", cases("eccv", "metrics_small"))
def test_golden_eccv_metrics(name):
    case = Case(name)
    order = case["in.ranked_ids"].long() - case.cfg["id_offset"]
    scores = np.zeros(order.shape, np.float32)
    np.put_along_axis(
        scores, order.numpy(), -np.arange(order.shape[1], dtype=np.float32)[None].repeat(len(order), 0), 1
    )
    mask = case["in.positive_mask_by_gallery_index"].numpy()
    ranks = relevant_ranks(scores, Relevance.from_matrix(mask, np.arange(len(mask)), np.arange(mask.shape[1])))
    for label, values in (
        ("map_at_r", metrics.map_at_r(ranks)), ("rprecision", metrics.r_precision(ranks)),
        ("r1", metrics.recall_at_k(ranks, 1)), ("r5", metrics.recall_at_k(ranks, 5)),
        ("r10", metrics.recall_at_k(ranks, 10)),
        ("rprecision_alone", metrics.r_precision(ranks)),
    ):  # fmt: skip
        assert values.mean() == pytest.approx(case[f"out.{label}"].item(), rel=1e-5)


def test_queries_without_a_relevant_item_are_dropped_and_counted():
    sparse = Relevance.from_positions(np.array([0, 1]), np.array([0, 0]), np.arange(6), np.arange(3))
    evaluation = evaluate_scores(SCORES, {"annotated": OWN, "rare": sparse})
    assert evaluation.dropped["rare", "t2i"] == 4 and evaluation.dropped["rare", "i2t"] == 2
    rare = evaluation.per_query[evaluation.per_query["relevance"] == "rare"]
    assert len(rare[rare["direction"] == "t2i"]) == 2 and (rare["image"] == 0).all()


def test_queries_behind_dropped_ones_keep_their_scores():
    scores = np.random.default_rng(0).normal(size=(8, 16))
    own = Relevance.from_positions(np.arange(16), np.arange(16) // 2, np.arange(16), np.arange(8))
    late = Relevance.from_positions(np.array([9, 14, 15]), np.array([6, 6, 7]), np.arange(16), np.arange(8))
    table = evaluate_scores(scores, {"annotated": own, "late": late}).per_query
    mine = table[table["relevance"] == "late"].set_index(["direction", "query"])["first_rank"]
    for caption, picture in ((9, 6), (14, 6), (15, 7)):
        assert mine["t2i", caption] == (scores[:, caption] >= scores[picture, caption]).sum()
    assert mine["i2t", 7] == (scores[7] >= scores[7, 15]).sum()
    assert mine["i2t", 6] == (np.delete(scores[6], [9, 14]) >= scores[6, [9, 14]].max()).sum() + 1


def test_a_relevance_over_fewer_ids_in_another_order_ranks_these_only():
    """PMRP takes pictures without a label out of the gallery and of the queries."""
    rng = np.random.default_rng(1)
    scores, own = (
        rng.normal(size=(6, 12)),
        Relevance.from_positions(np.arange(12), np.arange(12) // 2, [f"c{n}" for n in range(12)], list("abcdef")),
    )
    captions, pictures = ["c9", "c0", "c4", "c1", "c8"], ["e", "c", "a"]
    pairs = [("c9", "e"), ("c0", "a"), ("c0", "c"), ("c4", "c"), ("c1", "a"), ("c8", "e"), ("c8", "a")]
    few = Relevance.from_pairs(pairs, captions, pictures)
    table = evaluate_scores(scores, {"annotated": own, "few": few}).per_query
    mine = table[table["relevance"] == "few"].set_index(["direction", "query"])
    for caption in captions:
        column = scores[:, int(caption[1:])]
        right = [p for c, p in pairs if c == caption]
        ahead = [
            sum(column["abcdef".index(q)] >= column["abcdef".index(p)] for q in pictures if q not in right)
            for p in right
        ]
        assert mine.loc[("t2i", caption), "first_rank"] == min(ahead) + 1 and mine.loc[
            ("t2i", caption), "n_relevant"
        ] == len(right)
        assert mine.loc[("t2i", caption), "image"] == int(caption[1:]) // 2, (
            "resampled with the picture it was written for"
        )
    for picture in pictures:
        row, right = scores["abcdef".index(picture)], [c for c, p in pairs if p == picture]
        ahead = [sum(row[int(q[1:])] >= row[int(c[1:])] for q in captions if q not in right) for c in right]
        assert mine.loc[("i2t", picture), "first_rank"] == min(ahead) + 1
        assert mine.loc[("i2t", picture), "image"] == "abcdef".index(picture)
    alone = evaluate_scores(scores, {"annotated": own}).per_query
    assert table[table["relevance"] == "annotated"].reset_index(drop=True).equals(alone)


def test_agreement_with_graded_judgments_is_kendalls_tau():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 6))
    own = Relevance.from_positions(np.arange(6), np.arange(6) % 4, [f"c{n}" for n in range(6)], list("abcd"))
    judged = [(i, t, int(rng.integers(1, 5))) for i in range(4) for t in range(6) if (i + t) % 2]
    table = pd.DataFrame(
        [("abcd"[i], f"c{t}", g) for i, t, g in judged] + [("z", "c0", 4)], columns=["image_id", "caption_id", "grade"]
    )
    found = judgment_agreement(scores, own, {"expert": table, "none": table.iloc[-1:]}).set_index("relevance")
    alike = contrary = 0
    for n, (i, t, g) in enumerate(judged):
        for j, u, h in judged[:n]:
            sign = np.sign(scores[i, t] - scores[j, u]) * np.sign(g - h)
            alike, contrary = alike + (sign > 0), contrary + (sign < 0)
    m = len({g for *_, g in judged})
    assert found.loc["expert", "value"] == pytest.approx(2 * (alike - contrary) / (len(judged) ** 2 * (m - 1) / m))
    assert list(found.index) == ["expert"] and found.loc["expert", "n_queries"] == len(judged)
    grades = pd.DataFrame([("abcd"[i], f"c{t}", scores[i, t]) for i, t, _ in judged], columns=table.columns)
    assert judgment_agreement(scores, own, {"self": grades})["value"][0] == pytest.approx(1)


def test_protocols_state_their_counts_and_refuse_to_guess():
    owner = np.repeat(np.arange(5000), 5)
    folds = COCO_1K.folds(5000, owner)
    assert [len(i) for i, _ in folds] == [1000] * 5 and folds[2][0][0] == 2000 and folds[2][1][0] == 10_000
    assert len(COCO_5K.folds(5000, owner)) == 1 and len(FULL.folds(17, owner[:85])[0][0]) == 17
    for protocol, n in ((COCO_1K, 1000), (COCO_5K, 1000), (FLICKR_1K, 1014)):
        with pytest.raises(BadInput, match=f"needs exactly {protocol.n_images:,} images, got {n:,}"):
            protocol.folds(n, owner)
    with pytest.raises(BadInput, match="unknown protocol 'coco-1K'. Did you mean 'coco-1k'"):
        get_protocol("coco-1K")
