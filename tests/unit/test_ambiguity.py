"""Right answers that annotated recall punishes, benchmarks beside the truth, plausible matches of scenes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tiny import tiny_config

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Relevance
from xmr_core.data.scenes import load_scenes, scenes_plausible
from xmr_core.data.scenes.corpus import scenes_of, statements_of
from xmr_core.data.scenes.world import COUNT, ONE, truth_matrix
from xmr_core.evaluation.evaluate import evaluate_scores
from xmr_core.training.runs import train_or_load
from xmr_core.training.runs.ensemble import scores_of
from xmr_study.analysis import agreement_of_benchmarks, false_negative_rate, random_share
from xmr_study.measures import FORGOTTEN, missed


def by_hand(row, relevant, k):
    """Is a relevant item among the first k, if items that are not relevant win ties?"""
    order = sorted(range(len(row)), key=lambda j: (-row[j], j in relevant))
    return any(j in relevant for j in order[:k])


def test_punished_answers_by_a_loop():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, (6, 12)).astype(float)  # many ties
    owner = np.repeat(np.arange(6), 2)
    true = rng.random((12, 6)) < 0.3
    true[np.arange(12), owner] = True
    annotated = Relevance.from_positions(np.arange(12), owner, range(12), range(6))
    exhaustive = Relevance.from_matrix(true, range(12), range(6))
    table = false_negative_rate(scores, annotated, exhaustive, ks=(1, 3)).set_index(["direction", "k"])
    for k in (1, 3):
        wrong = [t for t in range(12) if not by_hand(scores[:, t], {owner[t]}, k)]
        right = [t for t in wrong if by_hand(scores[:, t], set(np.flatnonzero(true[t])), k)]
        line = table.loc[("t2i", k)]
        assert line["wrong"] == pytest.approx(100 * len(wrong) / 12)
        assert line["of these right"] == pytest.approx(100 * len(right) / len(wrong))
        assert line["found"] == pytest.approx(
            100 * np.mean([by_hand(scores[:, t], set(np.flatnonzero(true[t])), k) for t in range(12)])
        )
        wrong = [i for i in range(6) if not by_hand(scores[i], {2 * i, 2 * i + 1}, k)]
        assert table.loc[("i2t", k), "wrong"] == pytest.approx(100 * len(wrong) / 6)
    # the same numbers as the metrics of the study
    summary = evaluate_scores(scores, {"annotated": annotated, "exhaustive": exhaustive}).summary()
    value = summary.set_index(["relevance", "direction", "metric", "k"])["value"]
    assert table.loc[("t2i", 1), "wrong"] == pytest.approx(100 - 100 * value["annotated", "t2i", "recall", 1])
    assert table.loc[("t2i", 1), "found"] == pytest.approx(100 * value["exhaustive", "t2i", "recall", 1])
    with pytest.raises(BadInput, match="do not fit relevances"):
        false_negative_rate(scores[:-1], annotated, exhaustive)


def test_random_wrong_answers_are_right_as_often_as_draws_of_them():
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(6), 2)
    true = rng.random((12, 6)) < 0.3
    true[np.arange(12), owner] = True
    annotated = Relevance.from_positions(np.arange(12), owner, range(12), range(6))
    exhaustive = Relevance.from_matrix(true, range(12), range(6))
    own = np.zeros((12, 6), bool)
    own[np.arange(12), owner] = True
    by_loop = {
        "t2i": np.mean([true[t][~own[t]].mean() for t in range(12)]),
        "i2t": np.mean([true[:, i][~own[:, i]].mean() for i in range(6)]),
    }
    for direction, share in random_share(annotated, exhaustive).items():
        assert share == pytest.approx(100 * by_loop[direction])


def test_the_benchmark_that_orders_as_the_truth_comes_first():
    table = pd.DataFrame(
        {
            "truth": [1, 2, 3, 4.0],
            "same": [10, 20, 30, 40.0],
            "against": [4, 3, 2, 1.0],
            "half": [1, 2, 4, 3.0],
            "flat": 1.0,
        }
    )
    found = agreement_of_benchmarks(table, "truth", ["against", "flat", "half", "same"])
    assert found["benchmark"].tolist() == ["same", "half", "against", "flat"]
    assert found["tau"].tolist()[:3] == pytest.approx([1, 4 / 6, -1]) and np.isnan(found["tau"].iloc[3])


def test_plausible_matches_of_scenes_by_a_loop(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    corpus = load_scenes("tiny")
    pictures, captions = corpus.rows("test")
    shown = [set(s.split()) for s in corpus.images["shapes"].iloc[pictures]]
    assert all(1 <= len(s) <= 5 for s in shown)
    place = {image_id: n for n, image_id in enumerate(corpus.images.index[pictures])}
    owner = [place[i] for i in corpus.captions["image_id"].iloc[captions]]
    own = corpus.relevance_sets["annotated"]("test")
    for zeta in (0, 1, 2):
        found = scenes_plausible(corpus, "test", zeta)
        assert list(found.gallery_ids) == list(own.gallery_ids) and list(found.query_ids) == list(own.query_ids)
        for t in range(0, len(captions), 7):
            assert set(found[t]) == {i for i, s in enumerate(shown) if len(s ^ shown[owner[t]]) <= zeta}
    with pytest.raises(BadInput, match="ζ"):
        scenes_plausible(corpus, "test", -1)


def test_what_wrong_first_images_miss(shared_home, monkeypatch):
    """Against the statements one by one: nothing that is said of an object, a relation, a number or a background."""
    monkeypatch.setenv("XMR_HOME", str(shared_home))
    run = train_or_load(tiny_config("vse++"))
    corpus, scores = run.prepared().corpus, scores_of(run)
    said, scenes = statements_of(corpus, "test"), scenes_of(corpus, "test")
    counts, others = {name: [0, 0] for name in FORGOTTEN}, {name: [] for name in FORGOTTEN}
    for t in range(len(said)):
        one, image = said[[t]], scenes[[int(scores[:, t].argmax())]]
        if truth_matrix(one, image)[0, 0]:
            continue
        for n, name in enumerate(FORGOTTEN):
            changed = {field: getattr(one, field).copy() for field in ("a", "b", "kind", "relation", "background")}
            if n < 4:
                says = one.a[0, n] >= 0 or one.b[0, n] >= 0
                changed["a"][0, n] = changed["b"][0, n] = -1
            elif name == "number":
                says, changed["kind"][0] = one.kind[0] == COUNT, ONE if one.kind[0] == COUNT else one.kind[0]
            else:
                says, changed[name][0] = getattr(one, name)[0] >= 0, -1
            if says:
                counts[name][0] += 1
                counts[name][1] += bool(truth_matrix(replace(one, **changed), image)[0, 0])
                others[name] += truth_matrix(replace(one, **changed), scenes)[0][~truth_matrix(one, scenes)[0]].tolist()
    found = missed(run).set_index("forgotten")
    assert found["captions"].to_dict() == {name: n for name, (n, _) in counts.items()}
    expected = {name: 100 * fits / n if n else float("nan") for name, (n, fits) in counts.items()}
    assert found["fits"].to_dict() == pytest.approx(expected, nan_ok=True)
    by_chance = {name: 100 * sum(fits) / len(fits) if fits else float("nan") for name, fits in others.items()}
    assert found["chance"].to_dict() == pytest.approx(by_chance, nan_ok=True)
    assert sum(fits > 0 for _, fits in counts.values()) > 2 and sum(n for n, _ in counts.values()) > 200
