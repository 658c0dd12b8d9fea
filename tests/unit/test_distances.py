"""Test-time distances of a trained PCME and corrupted inputs: on a tiny trained run."""

import numpy as np
import pytest
import torch
from tiny import tiny_config

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.analysis.corruption import corrupted_uncertainty
from xmr_core.evaluation.analysis.representations import distance_table, encode_split
from xmr_core.evaluation.analysis.uncertainty import query_uncertainty, uncertainty
from xmr_core.similarities.gaussian import DISTANCES
from xmr_core.training.runs import train_or_load
from xmr_core.training.runs.ensemble import scores_of, scoring_of
from xmr_study.analysis import sampling_gain, uncertainty_rows
from xmr_study.examples import BENCHMARKS, POOLED, TRUTH, benchmark_run, compared_benchmarks, pool_bias, pooled


@pytest.fixture(scope="module")
def runs(shared_home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(shared_home))
        yield {name: train_or_load(tiny_config(name)) for name in ("pcme", "dive", "vse++")}


def of(run, metric, direction, relevance="annotated"):
    m = run.metrics
    return 100 * m[(m.metric == metric) & (m.direction == direction) & (m.relevance == relevance)]["value"].iloc[0]


def test_every_distance_has_a_row_and_the_trained_one_is_the_run_itself(runs):
    run = runs["pcme"]
    table = distance_table(run.method(), run.prepared()).set_index("distance")
    assert set(table.index) == {"match probability", *DISTANCES}
    trained = table.loc["match probability"]
    for direction in ("i2t", "t2i"):
        assert trained[f"{direction} R-P"] == pytest.approx(of(run, "r_precision", direction))
    assert trained["R-P exhaustive"] == pytest.approx(
        (of(run, "r_precision", "i2t", "exhaustive") + of(run, "r_precision", "t2i", "exhaustive")) / 2
    )
    assert (
        table["numbers"].to_dict().items()
        >= {"mean only": 16, "2-Wasserstein": 32, "match probability": 7 * 16}.items()
    )
    assert table["R-P"].is_monotonic_decreasing
    gained = sampling_gain(table.reset_index(), {"i2t": 5, "t2i": 9})
    gain = gained.set_index("direction")["value"]
    assert gained["n_queries"].tolist() == [5, 9]
    assert 100 * gain["t2i"] == pytest.approx(trained["t2i R-P"] - table.loc["mean only", "t2i R-P"])
    assert len(run.with_metrics(gained).metrics) == len(run.metrics) + 2


def test_uncertainty_of_what_was_corrupted(runs):
    run = runs["pcme"]
    prepared, method = run.prepared(), run.method()
    table = corrupted_uncertainty(method, prepared, [0.0, 1.0], images=10).set_index(["side", "share"])
    images, captions = encode_split(method, prepared.splits["test"].first(10))
    assert table.loc[("images", 0.0), "value"] == pytest.approx(uncertainty(images).mean(), abs=1e-4)
    assert table.loc[("captions", 0.0), "value"] == pytest.approx(uncertainty(captions).mean(), abs=1e-4)
    grey = np.full((1, 64, 64, 3), 128, np.uint8)
    with torch.inference_mode():
        blank = method.encode_images(prepared.new_images(grey))
    assert table.loc[("images", 1.0), "value"] == pytest.approx(uncertainty(blank)[0], abs=1e-4), (
        "a picture erased whole is grey"
    )
    assert list(dict.fromkeys(table.index.get_level_values(0))) == ["images", "captions"]
    for name in ("images", "captions"):
        first, last = (table.loc[(name, share)] for share in (0.0, 1.0))
        assert first[["rise", "rise low", "rise high"]].tolist() == [0, 0, 0]
        assert last["rise"] == pytest.approx(last["value"] - first["value"]) and last["rise low"] <= last["rise high"]
    sets = corrupted_uncertainty(runs["dive"].method(), runs["dive"].prepared(), [0.0], images=5)
    assert sets["value"].notna().all()
    with pytest.raises(BadInput, match="no uncertainty"):
        corrupted_uncertainty(runs["vse++"].method(), runs["vse++"].prepared(), [0.0], images=5)


def test_rows_of_uncertainty(runs):
    run = runs["pcme"]
    split = run.prepared().splits["test"]
    table = query_uncertainty(*encode_split(run.method(), split), split.relevance)
    rows = uncertainty_rows(run.per_query, table)
    keys = set(map(tuple, rows[["relevance", "direction", "metric"]].to_numpy()))
    assert keys == {(k, d, "spearman_uncertainty_r1") for k in ("annotated", "exhaustive") for d in ("i2t", "t2i")} | {
        ("exhaustive", d, "spearman_uncertainty_answers") for d in ("i2t", "t2i")
    }
    assert ((rows["low"] <= rows["value"]) & (rows["value"] <= rows["high"])).all()
    merged = run.per_query[(run.per_query.relevance == "exhaustive") & (run.per_query.direction == "t2i")].merge(
        table, on=["direction", "query"]
    )
    expected = merged["uncertainty"].corr(merged["n_relevant"], method="spearman")
    value = rows.set_index(["relevance", "direction", "metric"])["value"][
        "exhaustive", "t2i", "spearman_uncertainty_answers"
    ]
    assert value == pytest.approx(expected)


def test_a_run_beside_the_truth(runs):
    run = runs["dive"]
    found = benchmark_run(run)
    assert set(found.values) == {*BENCHMARKS, TRUTH}
    assert found.values["RSUM annotated"] == pytest.approx(of(run, "rsum", "both"))
    assert found.values[TRUTH] == pytest.approx(
        (of(run, "r_precision", "i2t", "exhaustive") + of(run, "r_precision", "t2i", "exhaustive")) / 2
    )
    assert found.values["PMRP"] == pytest.approx(np.mean([found.values[f"PMRP ζ={z}"] for z in (0, 1, 2)]))
    assert found.values["PMRP ζ=2"] > found.values["PMRP ζ=0"] and len(found.queries) == 32 + 160
    assert (
        set(found.rows["metric"]) == {"r_precision", "punished_though_right"}
        and found.rows["value"].between(0, 1).all()
    )
    assert scores_of(run).shape == (32, 160)


def test_a_pool_has_the_true_ones_of_the_judged_answers(shared_home, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(shared_home))
    runs = {name: train_or_load(tiny_config(name, ambiguity=0.5)) for name in ("dive", "vse++", "pcme")}
    two = [runs["dive"], runs["vse++"]]
    corpus, matrices = two[0].prepared().corpus, list(map(scores_of, two))
    annotated, true = (corpus.relevance_sets[kind]("test") for kind in ("annotated", "exhaustive"))
    expected = [set(annotated[caption]) for caption in range(len(annotated))]
    for scores in matrices:
        for image, row in enumerate(scores):
            for caption in sorted(range(len(row)), key=lambda c: -row[c])[:3]:
                expected[caption] |= {image} & set(true[caption])
        for caption, column in enumerate(scores.T):
            expected[caption] |= {*sorted(range(len(column)), key=lambda i: -column[i])[:3]} & set(true[caption])
    scorings = list(map(scoring_of, two))
    found = pooled(scorings, corpus, 3)
    assert [set(found[caption]) for caption in range(len(found))] == expected
    assert len(annotated.indices) < len(found.indices) < len(true.indices)
    three = pool_bias(["dive", "vse++", "pcme"], [*scorings, scoring_of(runs["pcme"])], corpus, 3)
    by_one = [pooled([scoring_of(runs[name])], corpus, 3) for name in ("vse++", "pcme")]
    each = [benchmark_run(two[0], pool).values["mAP@R pooled"] for pool in by_one]
    assert three.loc["dive", "one other"] == pytest.approx(np.mean(each)) and abs(each[0] - each[1]) > 1e-3
    bias = pool_bias(["dive", "vse++"], scorings, corpus, 3)
    every = benchmark_run(two[0], found)
    assert bias.loc["dive", "all"] == pytest.approx(every.values["mAP@R pooled"])
    for label, run, of in [
        ("dive", two[0], {"own": 0, "all others": 1}),
        ("vse++", two[1], {"own": 1, "all others": 0}),
    ]:
        for name, position in of.items():
            pool = pooled([scorings[position]], corpus, 3)
            assert bias.loc[label, name] == pytest.approx(benchmark_run(run, pool).values["mAP@R pooled"])
    table = compared_benchmarks(
        ["dive", "vse++", "pcme"], [every, *(benchmark_run(runs[n], found) for n in ("vse++", "pcme"))]
    )
    assert {*table.index} == {*BENCHMARKS, *POOLED} and np.isnan(table.loc["RSUM annotated", "tau of queries"])
    pool_first = pooled(scorings, corpus, len(annotated))
    assert (pool_first.counts == true.counts).all(), "all answers judged: nothing is missing"
