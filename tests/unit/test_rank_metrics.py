"""Metrics of one direction from a table of scores: every form of relevance, ties, dropped queries, refusals."""

from dataclasses import replace

import ir_measures
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, Relevance
from xmr_core.evaluation import as_relevance, evaluate, evaluate_scores, rank_metrics
from xmr_core.evaluation.metrics import Protocol
from xmr_core.evaluation.stats import bootstrap_interval
from xmr_core.similarities.vectors import cosine

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
    "frame": pd.DataFrame(RELEVANT, columns=range(8, -1, -1)),  # its labels count for nothing
    "column of lists": pd.Series(LISTS, index=range(6, -1, -1)),
    "half precision": RELEVANT.astype(np.float16),
    "bfloat16": torch.from_numpy(RELEVANT).bfloat16(),
    "objects": RELEVANT.astype(object),
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
    assert rank_metrics(np.zeros((2, 2)), [{0, 1}, {0, 1}])["R-Precision"] == 1, (
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
        (SCORES, RELEVANT.tolist(), "positions .* a matrix of 0 and 1 as an array"),
        (SCORES, RELEVANT.astype(int).tolist(), "positions .* a matrix of 0 and 1 as an array"),
        (SCORES, 0.5 * RELEVANT, "only True and False, or 1 and 0"),
        (SCORES, [*RELEVANT.astype(int)], "a matrix of 0 and 1 as an array"),
        (SCORES, list(torch.from_numpy(RELEVANT)), "a matrix of 0 and 1 as an array"),
        (SCORES, {0: RELEVANT[0].astype(int), 1: [3]}, "a matrix of 0 and 1 as an array"),
        (SCORES, [[2, 2]] + [[0]] * 6, "a matrix of 0 and 1 as an array"),
        (SCORES[:2, :2], [[1, 0], [0, 1]], "a matrix of 0 and 1 as an array"),
        (SCORES, RELEVANT.astype(str), "must hold numbers"),
        (SCORES, RELEVANT.astype(complex), "must hold numbers"),
        (SCORES, {0: {1: np.nan, 2: 1}}, "a grade of relevance must be a finite number"),
        (SCORES, {0: {1: np.inf}}, "a grade of relevance must be a finite number"),
        (SCORES, {0: {1: -0.3, 2: 1}}, "a grade of relevance must be a finite number"),
        (SCORES, {0: {1: "1"}}, "a grade of relevance must be a finite number"),
        (SCORES, np.zeros((7, 9)), "none of the 7 queries has a relevant item"),
        (np.where(SCORES[3, 4] == SCORES, np.nan, SCORES), RELEVANT, "row 3 and column 4 is not a number"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(scores, relevance, message):
    with pytest.raises(BadInput, match=message):
        rank_metrics(scores, relevance)


def test_ids_align_a_relevance_or_are_refused():
    own, order = FORMS["Relevance"], RNG.permutation(7)
    names = [f"q{n}" for n in order]
    assert rank_metrics(SCORES[order], own, query_ids=iter(names), ks=5) == rank_metrics(SCORES, own, ks=[5])
    with pytest.raises(BadInput, match="name ids of the Relevance"):
        rank_metrics(SCORES, own, query_ids=[*names[:6], "x"])
    first = Relevance.from_matrix(RELEVANT.T, range(9), range(7))
    others = replace(first, query_ids=first.query_ids.astype(str)), replace(first, gallery_ids=np.arange(7) + 7)
    for other in (*others, replace(first, query_ids=first.query_ids + 1)):  # positions where ids are rows
        with pytest.raises(BadInput, match="that the first kind lacks"):
            evaluate_scores(SCORES, {"annotated": first, "other": other})
    more = Relevance.from_matrix(np.eye(12, 9, dtype=bool), range(12), range(9))  # of all, where a part is ranked
    assert "more" in {*evaluate_scores(SCORES, {"annotated": first, "more": more}).per_query["relevance"]}


def test_entries_of_a_sparse_matrix_that_repeat_are_one():
    grades, scores = np.array([[2, 0, 1]]), np.array([[1.0, 2.0, 3.0]])
    coo = sparse.coo_array(([1, 1, 1], ([0, 0, 0], [0, 0, 2])), shape=(1, 3))
    assert rank_metrics(scores, coo, more=["nDCG"]) == rank_metrics(scores, grades, more=["nDCG"])
    with pytest.raises(BadInput, match="only True and False"):
        rank_metrics(scores, coo)
    assert len(coo.data) == 3, "what was given stays as it was"


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


MORE = ["MRR", "MRR@2", "MAP", "MAP@3", "nDCG", "nDCG@4", "P@3", "R@2"]
GRADES = RNG.integers(-1, 4, (7, 9)) * RELEVANT.any(1)[:, None]


def graded_loop(scores, grades, name):
    """The value of one query: items from the highest score, of equal scores the lowest grade first."""
    kind, _, k = name.partition("@")
    order = sorted(range(len(scores)), key=lambda n: (-scores[n], grades[n]))
    right, k = [max(0, int(grades[n])) for n in order], int(k or len(scores))
    total = sum(g > 0 for g in right)
    if kind in ("P", "R"):
        return sum(g > 0 for g in right[:k]) / k if kind == "P" else float(any(right[:k]))
    if kind == "MRR":
        return max(((g > 0) / n for n, g in enumerate(right[:k], 1)), default=0)
    if kind == "MAP":
        return sum((g > 0) * sum(h > 0 for h in right[:n]) / n for n, g in enumerate(right[:k], 1)) / total
    gain, ideal = (
        sum(g / np.log2(1 + n) for n, g in enumerate(own[:k], 1)) for own in (right, sorted(right, reverse=True))
    )
    return gain / ideal


@pytest.mark.parametrize("scores", [SCORES, SCORES.round(1), np.zeros((7, 9))], ids=["apart", "ties", "all equal"])
def test_further_metrics_are_those_of_a_loop_for_every_query(scores):
    qrels = {q: {g: int(grade) for g, grade in enumerate(row)} for q, row in enumerate(GRADES)}
    names = {"query_ids": list("abcdefg"), "gallery_ids": [f"g{n}" for n in range(9)]}
    named = {"abcdefg"[q]: {f"g{g}": grade for g, grade in row.items()} for q, row in qrels.items()}
    asked = np.flatnonzero((GRADES > 0).any(1))
    table = rank_metrics(scores, qrels, more=MORE, per_query=True)
    assert table.index.tolist() == asked.tolist()
    for name in MORE:
        wanted = [graded_loop(scores[q].astype(float), GRADES[q], name) for q in asked]
        assert table[name].tolist() == pytest.approx(wanted), name
    means = rank_metrics(scores, GRADES, more=MORE)
    assert means == pytest.approx(rank_metrics(scores, named, more=MORE, **names))
    assert [means[name] for name in MORE] == pytest.approx([table[name].mean() for name in MORE])
    plain = rank_metrics(scores, GRADES > 0)
    assert {name: means[name] for name in plain} == plain, "what was there stays equal, and the default is without them"
    binary = rank_metrics(scores, RELEVANT, more=["nDCG@4"], per_query=True)["nDCG@4"]
    wanted = [graded_loop(scores[q].astype(float), RELEVANT[q], "nDCG@4") for q in binary.index]
    assert binary.tolist() == pytest.approx(wanted)


def test_they_equal_other_libraries_where_nothing_ties():
    from sklearn.metrics import ndcg_score

    names = [(f"q{q}", f"d{g}") for q in range(7) for g in range(9)]
    run = pd.DataFrame(names, columns=["query_id", "doc_id"])
    qrels, run = run.assign(relevance=GRADES.ravel()), run.assign(score=SCORES.ravel())
    theirs = {"AP": "MAP", "AP@3": "MAP@3", "RR": "MRR", "nDCG": "nDCG", "nDCG@4": "nDCG@4", "P@3": "P@3"}
    measures = {name: ir_measures.parse_measure(name) for name in theirs}
    values = rank_metrics(SCORES, GRADES, more=[*theirs.values()], per_query=True)
    for row in ir_measures.iter_calc(list(measures.values()), qrels, run):
        if (q := int(row.query_id[1:])) in values.index:
            assert values.loc[q, theirs[str(row.measure)]] == pytest.approx(row.value), row
    assert values["nDCG@4"].mean() == pytest.approx(ndcg_score(GRADES[values.index].clip(0), SCORES[values.index], k=4))


@pytest.mark.parametrize("name", ["MR", "nDCG@", "P", "P@0", "nDCG@x", "nDCG10", "R-Precision"])
def test_unknown_metrics_and_grades_without_a_use_are_refused(name):
    with pytest.raises(BadInput, match="unknown metric|must be"):
        rank_metrics(SCORES, RELEVANT, more=[name])
    with pytest.raises(BadInput, match="grades only for nDCG"):
        rank_metrics(SCORES, 2 * RELEVANT, more=["MRR"])


T2I = {
    "lists": [np.flatnonzero(row).tolist() for row in RELEVANT.T],
    "matrix": RELEVANT.T,
    "torch": torch.from_numpy(RELEVANT.T.copy()),
    "CSR": sparse.csr_array(RELEVANT.T),
    "dictionary": {c: np.flatnonzero(row).tolist() for c, row in enumerate(RELEVANT.T)},
    "qrels": {c: {int(i): 2 for i in np.flatnonzero(row)} for c, row in enumerate(RELEVANT.T)},
}


@pytest.mark.parametrize("form", T2I)
def test_every_form_of_relevance_is_taken_wherever_scores_are(form):
    named = Relevance.from_matrix(RELEVANT.T, [f"c{n}" for n in range(9)], [f"i{n}" for n in range(7)])
    wanted = evaluate_scores(SCORES, {"annotated": named, "other": named}).summary()
    made = as_relevance(T2I[form], (9, 7))
    assert (made.indices.tolist(), made.indptr.tolist()) == (named.indices.tolist(), named.indptr.tolist())
    for relevances in ({"annotated": T2I[form], "other": T2I[form]}, {"annotated": named, "other": T2I[form]}):
        pd.testing.assert_frame_equal(evaluate_scores(SCORES, relevances).summary(), wanted)
    alone = evaluate_scores(SCORES, T2I[form]).summary()
    pd.testing.assert_frame_equal(alone, wanted[wanted["relevance"] == "annotated"].reset_index(drop=True))
    with pytest.raises(BadInput, match="captions?"):
        evaluate_scores(SCORES[:, :8], T2I[form])


@pytest.mark.parametrize("owner", [[0, 2, 1, 1], np.array([0, 2, 1, 1]), torch.tensor([0, 2, 1, 1])], ids=str)
def test_one_position_for_each_caption_is_enough(owner):
    scores = np.eye(3)[:, [0, 2, 1, 1]]
    assert evaluate_scores(scores, owner).per_query["R@1"].eq(1).all()
    assert evaluate(cosine, Embedding(torch.eye(3)), Embedding(torch.eye(3)[[0, 2, 1, 1]]), owner).dropped == {
        ("annotated", "i2t"): 0, ("annotated", "t2i"): 0
    }  # fmt: skip
    for nothing in ({}, None, 3):
        with pytest.raises(BadInput, match="caption"):
            evaluate_scores(scores, nothing)
