"""study.run gives the runs of a notebook under their labels, and says what a random ranking would have."""

import numpy as np
import pytest
from tiny import tiny_config

import xmr_study as study
from xmr_core.base.errors import BadInput
from xmr_core.evaluation.metrics import random_hit
from xmr_core.training.runs import train_or_load
from xmr_study.examples import first_errors
from xmr_study.runs import Runs, recalls_beside_chance

TINY = {"preset": "quick", "epochs": 1, "seed": 0, "n_seeds": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(tmp_path_factory.mktemp("home")))
        yield study.run(TINY, ["VSE++", "PVSE"], size="tiny", d=16)


@pytest.mark.slow
def test_labels_stand_beside_their_seeds(two):
    assert two.labels == ("VSE++", "VSE++", "PVSE", "PVSE")
    assert [run.config.train.seed for run in two.runs_of("PVSE")] == [0, 1]
    assert two.first("PVSE") is two.runs[2] and two.first() is two.runs[0]
    assert set(two.means()["label"]) == {"VSE++", "PVSE"} and set(two.rows()["variant"]) == {"VSE++", "PVSE"}


@pytest.mark.slow
def test_what_does_not_clear_the_best_of_chance_is_named(two, monkeypatch):
    bounds = two.table().groupby("label", sort=False)["rsum annotated low"].min()
    monkeypatch.setattr(type(two), "chance_interval", lambda self: (0.0, 0.0, bounds.min() - 1e-6))
    assert two.unlearned() == []
    monkeypatch.setattr(type(two), "chance_interval", lambda self: (0.0, 0.0, bounds.max()))
    assert two.unlearned() == ["VSE++", "PVSE"]


@pytest.mark.slow
def test_chance_is_that_of_the_test_split(two):
    captions = two.first().prepared().corpus.captions
    n = captions[captions["split"] == "test"]["image_id"].nunique()
    t2i = sum(min(k / n, 1) for k in (1, 5, 10))
    i2t = sum(random_hit(5 * n, 5, k) for k in (1, 5, 10))
    mean, low, high = two.chance_interval()
    assert two.chance() == mean == pytest.approx(100 * (t2i + i2t)) and low < mean < high
    assert f"{mean:.1f} (95 % of them between {low:.1f} and {high:.1f})" in two.chance_text()


@pytest.mark.slow
def test_recalls_beside_chance_sum_to_the_rsum_and_to_that_of_a_random_ranking(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    run = train_or_load(tiny_config())
    runs = Runs((run,), ("tiny",))
    table = recalls_beside_chance(run)
    assert table["recall"].sum() == pytest.approx(runs.table()["rsum annotated"][0])
    assert table["random"].sum() == pytest.approx(runs.chance())
    assert (table.groupby("direction")["random"].diff().dropna() > 0).all()

    for direction in ("i2t", "t2i"):
        errors = first_errors(run, direction, 3)
        own = run.per_query.query("relevance == 'exhaustive' and direction == @direction")
        right = run.per_query.query("relevance == 'annotated' and direction == @direction")["first_rank"].to_numpy()
        wrong = np.flatnonzero(own["R@1"].to_numpy() == 0)[:3]
        assert errors["query"].tolist() == np.repeat(wrong, 2).tolist()
        assert errors["mark"].tolist() == ["wrong", "annotated"] * 3
        assert errors["rank"].tolist() == [r for q in wrong for r in (1, right[q])]
    wrong = (run.per_query.query("relevance == 'exhaustive' and direction == 'i2t'")["R@1"] == 0).sum()
    assert len(first_errors(run, "i2t", 10_000)) == 2 * wrong
    with pytest.raises(BadInput, match="direction"):
        first_errors(run, "both", 1)
