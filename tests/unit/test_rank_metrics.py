"""Metrics of one direction from a table of scores: every form of relevance, ties, dropped queries, refusals."""

import numpy as np
import pytest
import torch
from scipy import sparse

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Relevance
from xmr_core.evaluation import evaluate_scores, rank_metrics
from xmr_core.evaluation.metrics import Protocol
from xmr_core.evaluation.stats import bootstrap_interval

RNG = np.random.default_rng(0)
SCORES = RNG.random((7, 9)).astype(np.float32)
RELEVANT = RNG.random((7, 9)) < 0.3
RELEVANT[2] = False
LISTS = [np.flatnonzero(row).tolist() for row in RELEVANT]
FORMS = {
    "Relevance": Relevance.from_matrix(RELEVANT, [f"q{n}" for n in range(7)], [f"g{n}" for n in range(9)]),
    "Boolean matrix": RELEVANT,
    "matrix of 0 and 1": RELEVANT.astype(float),
    "torch": torch.from_numpy(RELEVANT),
    "torch CSR": torch.from_numpy(RELEVANT.astype(np.float32)).to_sparse_csr(),
    "CSR": sparse.csr_array(RELEVANT),
    "CSR matrix of integers": sparse.csr_matrix(RELEVANT.astype(int)),
    "lists": LISTS,
    "sets": [set(items) for items in LISTS],
    "dictionary": {q: items for q, items in enumerate(LISTS) if items},
}


def by_loop(scores, relevant):
    """Every definition of docs/evaluation.md, query by query."""
    rows = []
    for s, r in zip(scores.astype(float), relevant, strict=True):
        ranks = [n + (s[~r] >= v).sum() for n, v in enumerate(sorted(s[r], reverse=True), 1)]
        if ranks:
            precision = [n / rank for n, rank in enumerate(ranks, 1) if rank <= len(ranks)]
            rows.append((ranks[0], np.mean(np.array(ranks) <= len(ranks)), sum(precision) / len(ranks)))
    first = np.array([row[0] for row in rows])
    recalls = {f"R@{k}": (first <= k).mean() for k in (1, 5, 10)}
    means = {"R-Precision": np.mean([row[1] for row in rows]), "mAP@R": np.mean([row[2] for row in rows])}
    medians = {"median rank": np.floor(np.median(first - 1)) + 1, "mean rank": first.mean()}
    return recalls | means | medians | {"queries": len(rows), "dropped": len(scores) - len(rows)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "scores", [SCORES, torch.from_numpy(SCORES), SCORES.round(1), (9 * SCORES).astype(int)], ids="abcd"
)
def test_every_form_of_relevance_gives_the_metrics_of_a_loop(form, scores):
    assert rank_metrics(scores, FORMS[form]) == pytest.approx(by_loop(np.asarray(scores), RELEVANT))


def test_ties_never_help_and_one_position_is_enough():
    assert rank_metrics(np.zeros((3, 4)), [0, 1, 3])["mean rank"] == 4
    assert rank_metrics(np.zeros((2, 2)), [[0, 1], [0, 1]])["R-Precision"] == 1, (
        "relevant items do not disturb each other"
    )
    assert [name for name in rank_metrics(np.eye(3), [0, 1, 2], ks=(2, 3)) if "@" in name] == ["R@2", "R@3", "mAP@R"]


@pytest.mark.parametrize(
    "scores, relevance, message",
    [
        (SCORES.T, RELEVANT, "transposed"),
        (SCORES, FORMS["CSR"][:, :5], r"7 × 5 does not fit scores of 7 × 9\.$"),
        (SCORES, [[9]] + [[0]] * 6, "positions .* item 9"),
        (SCORES, {-1: [0]}, "positions .* query -1"),
        (SCORES, RELEVANT.tolist(), "item (True|False)"),
        (SCORES, 0.5 * RELEVANT, "only True and False, or 1 and 0"),
        (SCORES, np.zeros((7, 9)), "none of the 7 queries has a relevant item"),
        (np.where(SCORES[3, 4] == SCORES, np.nan, SCORES), RELEVANT, "row 3 and column 4 is not a number"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(scores, relevance, message):
    with pytest.raises(BadInput, match=message):
        rank_metrics(scores, relevance)


def test_a_first_relevance_may_be_many_to_many():
    t2i = Relevance.from_matrix(RELEVANT.T, np.arange(9), np.arange(7))  # captions × images
    evaluation = evaluate_scores(SCORES, {"exhaustive": t2i})
    values = evaluation.summary().set_index(["direction", "metric", "k"])["value"]
    for direction, scores, relevant in (("i2t", SCORES, RELEVANT), ("t2i", SCORES.T, RELEVANT.T)):
        wanted = rank_metrics(scores, relevant)
        assert values[direction, "recall", 1] == wanted["R@1"]
        assert values[direction, "map_at_r", 0] == pytest.approx(wanted["mAP@R"])
        assert evaluation.dropped["exhaustive", direction] == wanted["dropped"]
    captions = evaluation.per_query[evaluation.per_query["direction"] == "t2i"].set_index("query")
    single = t2i.counts[captions.index] == 1
    assert (captions["image"][~single] == -1).all()
    assert captions["image"][single].tolist() == [t2i[q][0] for q in captions.index[single]]
    with pytest.raises(BadInput, match="belong to no single image"):
        bootstrap_interval([(captions["R@1"].to_numpy(), captions["image"].to_numpy())])
    with pytest.raises(BadInput, match="every caption needs exactly one image in the first relevance set"):
        evaluate_scores(SCORES, {"exhaustive": t2i}, Protocol("halves", 0, 2, ""))
