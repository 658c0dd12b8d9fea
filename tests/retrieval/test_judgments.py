"""Other judges than the annotators: plausible matches, classes, ECCV Caption and CxC; and PCME's evaluator."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import Case, cases

from xmr_core.base.errors import BadInput
from xmr_core.base.types import GaussianEmbedding, Relevance
from xmr_core.data.readers.assembly import ZETAS, plausible_match, same_class
from xmr_core.data.readers.official import coco_judgments
from xmr_core.evaluation import metrics
from xmr_core.evaluation.metrics import COCO_1K
from xmr_core.evaluation.ranks import relevant_ranks
from xmr_core.similarities import DISTANCES


def coco_test_captions() -> np.ndarray:
    """The caption ids of the 5K test images in the order whose contiguous fifths are the 1K folds."""
    return np.load(Path(find_spec("eccv_caption").origin).parent / "data" / "coco_test_ids.npy")


def loop_pmrp(scores, codes, image_of, labelled, zeta):
    """R-Precision of captions as queries, one at a time (no ties in scores)."""
    out = []
    images = [i for i in range(len(codes)) if labelled[i]]
    for t, own in enumerate(image_of):
        if labelled[own]:
            right = {i for i in images if sum(a != b for a, b in zip(codes[i], codes[own], strict=True)) <= zeta}
            best = sorted(images, key=lambda i: -scores[i, t])[: len(right)]
            out.append(len(right & set(best)) / len(right))
    return out


@pytest.mark.parametrize("zeta", [0, 1, 2])
def test_plausible_matches_equal_the_loop(zeta):
    g = np.random.default_rng(zeta)
    codes, image_of, scores = g.integers(0, 2, (9, 4)), np.repeat(np.arange(9), 2), g.random((9, 18))
    labelled = np.arange(9) != 4
    relevance = plausible_match(codes, image_of, zeta, labelled)
    assert relevance.gallery_ids.tolist() == [i for i in range(9) if i != 4] and 8 not in relevance.query_ids
    mine = scores[np.ix_(relevance.gallery_ids, relevance.query_ids)]
    assert metrics.r_precision(relevant_ranks(mine.T, relevance)) == pytest.approx(
        loop_pmrp(scores, codes, image_of, labelled, zeta)
    )


@pytest.mark.parametrize("name", cases("pcme", "pmrp"))
def test_golden_pmrp(name):
    case = Case(name)
    scores, labelled = case["in.sims"].numpy(), case["in.has_label"].numpy()
    image_of = np.repeat(np.arange(len(scores)), int(case["in.captions_per_image"]))
    found = {key: [] for key in ("i2t", "t2i", "i2t r1", "t2i r1")}
    for zeta in ZETAS:
        relevance = plausible_match(case["in.class_codes"].numpy(), image_of, zeta, labelled)
        mine = scores[np.ix_(relevance.gallery_ids, relevance.query_ids)]
        for key, matrix, judged in (
            ("i2t", mine, relevance.transpose()),
            ("t2i", np.ascontiguousarray(mine.T), relevance),
        ):
            ranks = relevant_ranks(matrix, judged)
            found[key].append(100 * metrics.r_precision(ranks).mean())
            found[f"{key} r1"].append(100 * metrics.recall_at_k(ranks, 1).mean())
    for key in ("i2t", "t2i"):
        assert found[key] == pytest.approx(case[f"out.{key}_pmrp_per_zeta"].tolist(), rel=1e-5)
        assert np.mean(found[key]) == pytest.approx(float(case[f"out.{key}_pmrp"]), rel=1e-5)
        assert np.mean(found[f"{key} r1"]) == pytest.approx(float(case[f"out.{key}_pmr1"]), rel=1e-5)


@pytest.mark.parametrize("name", cases("pcme", "cub_metrics"))
def test_golden_class_metrics(name):
    case = Case(name)
    ranks = relevant_ranks(case["in.sims"].numpy(), same_class(case["in.query_class"], case["in.gallery_class"]))
    for key, values in {
        "r_precision": metrics.r_precision(ranks),
        "map_at_r": metrics.map_at_r(ranks),
        "recall_1": metrics.recall_at_k(ranks, 1),
        "recall_5": metrics.recall_at_k(ranks, 5),
        "precision_5": metrics.precision_at_k(ranks, 5),
    }.items():
        assert values.mean() == pytest.approx(float(case[f"out.{key}"]), rel=1e-5), key


def test_precision_at_k_counts():
    relevance = Relevance.from_matrix(np.array([[1, 0, 1, 0], [0, 0, 0, 1]], bool), range(2), range(4))
    ranks = relevant_ranks(np.array([[4.0, 3, 2, 1], [4, 3, 2, 1]]), relevance)
    assert [metrics.precision_at_k(ranks, k).tolist() for k in (1, 2, 3, 4)] == [
        [1, 0],
        [0.5, 0],
        [2 / 3, 0],
        [0.5, 0.25],
    ]
    with pytest.raises(BadInput, match="k must be"):
        metrics.precision_at_k(ranks, 0)


@pytest.mark.parametrize("name", cases("pcme", "matmul_eval"))
def test_golden_ranking_by_sample_products(name):
    case = Case(name)
    items = [GaussianEmbedding(z.mean(1), torch.zeros_like(z[:, 0]), z) for z in (case["in.z_q"], case["in.z_g"])]
    scores = DISTANCES["matmul"](*items)
    torch.testing.assert_close((-scores).sort(dim=1).values, case["out.neg_sorted_sims_sum"], rtol=1e-5, atol=1e-6)
    order = case["out.rank_order_sum"].numpy()
    for nth in range(order.shape[1]):  # the nth item of their order has rank n + 1 of ours
        relevance = Relevance.from_positions(
            np.arange(len(order)), order[:, nth], range(len(order)), range(order.shape[1])
        )
        assert (relevant_ranks(scores.numpy(), relevance).ranks == nth + 1).all()


@pytest.fixture
def judgments(tmp_path):
    """Two images and three captions in the package's layout; caption 12 was judged by nobody, 13 fits an image that is
    not at hand.
    """
    for name, content in {
        "eccv_image_to_caption": {"1": [11, 13], "2": [12], "9": [11]},
        "eccv_caption_to_image": {"11": [1, 2], "13": [9]},
        "original_image_to_caption": {"1": [11], "2": [12]},
        "original_caption_to_image": {"11": [1], "12": [2]},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


def test_judged_queries_keep_the_order_of_the_ids_given(judgments):
    t2i = coco_judgments("eccv", "t2i", [2, 1], [13, 12, 11], judgments)
    assert t2i.query_ids.tolist() == [11] and t2i.gallery_ids.tolist() == [2, 1] and t2i[0].tolist() == [0, 1]
    i2t = coco_judgments("eccv", "i2t", [2, 1], [13, 12, 11], judgments)
    assert i2t.query_ids.tolist() == [2, 1] and [i2t[q].tolist() for q in (0, 1)] == [[1], [0, 2]]


def test_items_that_are_not_at_hand_may_count(judgments):
    dropped = coco_judgments("eccv", "i2t", [1, 2], [11, 12], judgments)
    assert dropped.gallery_ids.tolist() == [11, 12] and [dropped[q].tolist() for q in (0, 1)] == [[0], [1]]
    judged = coco_judgments("eccv", "i2t", [1, 2], [11, 12], judgments, absent="count")
    assert judged.gallery_ids.tolist() == [11, 12, 13] and [judged[q].tolist() for q in (0, 1)] == [[0, 2], [1]]
    ranks = relevant_ranks(np.array([[1.0, 0.0, -np.inf], [0.0, 1.0, -np.inf]]), judged)
    assert metrics.r_precision(ranks).tolist() == [0.5, 1.0]


def test_the_packages_own_files_have_the_known_counts():
    pytest.importorskip("eccv_caption", reason="eccv_caption brings the judgments of COCO")
    captions = coco_test_captions()
    assert len(captions) == 25000
    images = np.unique(coco_judgments("annotated", "t2i", range(600000), captions).indices)
    assert len(images) == 5000
    for kind, direction, queries in (
        ("eccv", "i2t", 1261),
        ("eccv", "t2i", 1332),
        ("cxc", "i2t", 5000),
        ("cxc", "t2i", 24972),
    ):
        assert len(coco_judgments(kind, direction, images, captions)) == queries


@pytest.mark.slow  # 25,000 × 5,000 scores in float64
@pytest.mark.parametrize("name", cases("eccv", "full_coco"))
def test_golden_eccv_caption_on_all_of_coco(name):
    pytest.importorskip("eccv_caption", reason="eccv_caption brings the judgments of COCO")
    case = Case(name)
    image_ids, caption_ids = case["in.image_ids"].numpy(), case["in.caption_ids"].numpy()
    scores = (case["in.img"].double() @ case["in.txt"].double().T).numpy()
    row, column = ({b: a for a, b in enumerate(ids.tolist())} for ids in (image_ids, caption_ids))

    def ranked(kind, direction, rows, matrix):
        judged = coco_judgments(kind, direction, image_ids, caption_ids, absent="count")
        order = np.array([rows[q] for q in judged.query_ids.tolist()])
        if not np.array_equal(order, np.arange(len(matrix))):  # a gigabyte is not copied for nothing
            matrix = matrix[order]
        absent = len(judged.gallery_ids) - matrix.shape[1]
        assert absent == (2 if (kind, direction) == ("eccv", "i2t") else 0)
        if absent:
            matrix = np.pad(matrix, ((0, 0), (0, absent)), constant_values=-np.inf)
        return relevant_ranks(matrix, judged)

    for direction, rows, matrix in (("i2t", row, scores), ("t2i", column, np.ascontiguousarray(scores.T))):
        eccv = ranked("eccv", direction, rows, matrix)
        values = {
            "eccv_map_at_r": metrics.map_at_r(eccv),
            "eccv_rprecision": metrics.r_precision(eccv),
            "eccv_r1": metrics.recall_at_k(eccv, 1),
        }
        for kind, word in (("annotated", "coco_5k"), ("cxc", "cxc")):
            found = ranked(kind, direction, rows, matrix)
            values |= {f"{word}_r{k}": metrics.recall_at_k(found, k) for k in (1, 5, 10)}
        for key, value in values.items():
            assert value.mean() == pytest.approx(float(case[f"out.{key}.{direction}"]), rel=1e-5), (key, direction)

    t2i = coco_judgments("annotated", "t2i", image_ids, caption_ids)
    # 1K folds are fifths of the package's list of captions; images follow in the order of their first caption there
    assert (caption_ids == coco_test_captions()).all()
    found = {"i2t": [], "t2i": []}
    for i, t in COCO_1K.folds(5000, t2i.indices):
        part, block = t2i.restrict(t, i), scores[np.ix_(i, t)]
        found["i2t"].append(relevant_ranks(block, part.transpose()))
        found["t2i"].append(relevant_ranks(np.ascontiguousarray(block.T), part))
    for direction, folds in found.items():
        for k in (1, 5, 10):
            mean = np.mean([metrics.recall_at_k(fold, k).mean() for fold in folds])
            assert mean == pytest.approx(float(case[f"out.coco_1k_r{k}.{direction}"]), rel=1e-5), (k, direction)
