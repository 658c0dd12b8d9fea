"""Sentences of the notebooks' answers say what their numbers say, whichever way these point."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tiny import tiny_config

from xmr_core.base.errors import BadInput
from xmr_core.study.answers import apart_text, best_text, bought_text, faster_text, settled_text
from xmr_core.study.examples import first_errors
from xmr_core.study.recalls import recalls_beside_chance
from xmr_core.study.runs import Runs
from xmr_core.training.runs import train_or_load


def means(seeds=1, half=10.0, **values):
    lines = [(label, seeds, v, v - half, v + half) for label, v in values.items()]
    return pd.DataFrame(
        lines, columns=["label", "seeds", "rsum annotated", "rsum annotated low", "rsum annotated high"]
    )


def test_variants_are_apart_where_their_intervals_are():
    yes = apart_text(means(mean=268.1, gpo=350.2, adpool=308.6))
    assert yes == (
        "Yes, in these runs: gpo (RSUM 350.2 [340.2, 360.2]) lies 82.1 points above mean (268.1 [258.1, 278.1]), "
        "and their intervals over test images, with one seed, do not overlap."
    )
    no = apart_text(means(5, 50.0, mean=268.1, gpo=350.2))
    assert no.startswith("It cannot be told here: gpo") and no.endswith("but their intervals over 5 seeds overlap.")
    assert apart_text(means(mean=1.0)) == "One variant alone cannot be compared."
    without = means(1, float("nan"), mean=1.0, gpo=2.0)  # of a data set whose images cannot be resampled
    assert apart_text(without).startswith("It cannot be told here")


def test_the_best_is_named_where_no_interval_overlaps():
    assert best_text(means(a=10.0, b=31.0)) == "In these runs b is best of 2 variants (RSUM 31.0 [21.0, 41.0])."
    close = best_text(means(a=22.0, b=31.0, c=12.0, d=1.0), "methods")
    assert close.startswith("It cannot be told here: b has the highest RSUM of 4 methods (31.0 [21.0, 41.0])")
    assert close.endswith("but the intervals of 2 others overlap.")
    assert best_text(means(1, float("nan"), a=1.0, b=2.0)).endswith("but the interval of a overlaps.")


def study_lines(**values):
    lines = [(label, 5, v, v - 6, v + 6, 72, True) for label, v in values.items()]
    return pd.DataFrame(lines, columns=["label", "seeds", "rsum", "rsum low", "rsum high", "epochs", "converged"])


def test_the_study_orders_otherwise_or_the_same():
    there = study_lines(SCAN=551.8, DivE=484.0, PCME=421.6, VSE=459.0)
    text = settled_text(there, {"DivE": 273.0, "VSE": 334.4, "PCME": 233.5, "unknown": 1.0})
    assert text == (
        "In the study, after 72 epochs, when all of them have converged (5 seeds), DivE is best of these 3 methods "
        "(RSUM 484.0 [478.0, 490.0]; its interval lies above all others) and PCME worst (421.6 [415.6, 427.6]). "
        "The runs here order 1 of 3 pairs otherwise, most clearly VSE and DivE: here VSE lies 61.4 above DivE, in the "
        "study 25.0 below. Of all its 4 methods SCAN is best (551.8)."
    )
    same = settled_text(there, pd.Series({"DivE": 273.0, "PCME": 233.5}))
    assert "order them the same" in same and "otherwise" not in same
    assert "(1 seed), DivE" in settled_text(there.assign(seeds=1), {"DivE": 273.0, "PCME": 233.5})
    alone = settled_text(there.assign(converged=[True, False, True, True], epochs=[72, 144, 72, 72]))
    assert "after 72 to 144 epochs (5 seeds), SCAN is best of these 4 methods" in alone and "Of all" not in alone
    near = settled_text(study_lines(A=100.0, B=95.0, C=92.0))
    quoted = settled_text(study_lines(**{"SGRAF, joint": 100.0, "SAF": 50.0}))
    assert "“SGRAF, joint” is best of these 2 methods" in quoted and "SAF worst" in quoted
    assert "its interval overlaps with those of B and C" in near
    assert "overlaps with that of B" in settled_text(study_lines(A=100.0, B=95.0))
    assert settled_text(there, {"DivE": 1.0}).startswith("The study has no rows of two")


@pytest.mark.parametrize(
    ("epochs", "rsum", "word"),
    [
        (4.5, 309.0, "Yes, in these runs"),
        (6.5, 309.0, "It cannot be told here"),
        (4.5, 209.0, "It cannot be told here"),
        (6.5, 209.0, "No, not in these runs"),
    ],
)
def test_faster_is_earlier_and_no_lower(epochs, rsum, word):
    text = faster_text({"AdOpt": epochs, "triplet": 6.2}, {"AdOpt": rsum, "triplet": 250.0})
    assert text.startswith(f"{word}: AdOpt comes to 95 % of its last validation RSUM after {epochs:.1f} epochs")
    assert ("because AdOpt is" in text) == (word == "It cannot be told here") and "learned too little" not in text


def test_a_run_that_learned_little_is_said_so():
    reached, rsums = {"AdOpt": 4.5, "triplet": 6.2, "warm": 5.0}, {"AdOpt": 309.0, "triplet": 70.8, "warm": 300.0}
    text = faster_text(reached, rsums)
    assert text.count("learned too little") == 1 and "triplet has learned too little" in text
    assert text.startswith("It cannot be told here: ") and "Yes, in these runs: AdOpt" in text, "of triplet and of warm"
    assert "triplet after 6.2 epochs, with 70.8" in text and "warm after 5.0 epochs, with 300.0" in text
    assert faster_text({"AdOpt": 4.5}, rsums).endswith("One objective alone cannot be compared.")


@pytest.mark.parametrize(
    ("gaps", "start"),
    [
        ([(1, -1), (2, -2)], "Yes, in these runs: against all, with hardest R@1 rises and R-Precision falls."),
        ([(-1, -1), (-2, -2)], "No, not in these runs: against all, with hardest both R@1 and R-Precision fall."),
        ([(1, 1), (2, 2)], "No, not in these runs: against all, with hardest both R@1 and R-Precision rise."),
        ([(1, 1), (-2, -2)], "No, not in these runs: against all, with hardest R@1 never rises where"),
        ([(-1, 1)], "No, not in these runs: against all, with hardest R@1 never rises where"),
        (
            [(1, -1), (-2, -2)],
            "It cannot be told here: against all, with hardest R@1 rises and R-Precision falls for K",
        ),
    ],
)
def test_recall_is_bought_with_precision_where_one_rises_and_the_other_falls(gaps, start):
    table = {k: {"R@1": a, "R-P": b} for k, (a, b) in zip((1, 4), gaps, strict=False)}
    text = bought_text(table, "hardest", "all")
    assert text.startswith(start) and f"{gaps[0][0]:+.1f} and {gaps[0][1]:+.1f} points for K = 1" in text
    assert bought_text(table, "hardest", "all", {"hardest": 200.0, "all": 390.0}) == text
    little = bought_text(table, "hardest", "all", {"hardest": 100.0, "all": 390.0})
    assert little.startswith("It cannot be told here: with hardest the models have learned too little")
    assert f"{gaps[0][0]:+.1f} and {gaps[0][1]:+.1f} points for K = 1" in little


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
    with pytest.raises(BadInput, match="at least 1"):
        first_errors(run, "i2t", 0)
    with pytest.raises(BadInput, match="direction"):
        first_errors(run, "both", 1)


def test_a_run_without_errors_shows_none():
    perfect = pd.DataFrame({"relevance": ["annotated"] * 2, "direction": ["i2t", "t2i"], "R@1": 1.0})
    assert first_errors(SimpleNamespace(per_query=perfect), "i2t", 2).empty
