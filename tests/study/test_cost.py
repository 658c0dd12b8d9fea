"""What a pair costs: formulas against products that were really computed, exponents against known ones, rows that
survive a kill.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.similarities import JointSgraf, Sgraf, sum_max
from xmr_study import cost
from xmr_study import paper_tables as published
from xmr_study.cost import Shape, sgraf

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import cost as timing

ODD = Shape(d=24, k=3, l=5, regions=7, words=4, m=6, steps=3, samples=2)  # no two sizes alike


def products(similarity, made) -> float:
    """Multiply–adds in matrix products per pair of the scene."""
    with FlopCounterMode(display=False) as counter:
        similarity(made.images, made.captions)
    return counter.get_total_flops() / 2 / (len(made.images) * len(made.captions))


@pytest.mark.parametrize("method", ["cosine", "Chamfer", "MIL", "MP", "smooth-Chamfer", "match probability"])
def test_one_product_of_all_elements_is_all_that_sets_need(method):
    made = timing.scene(method, ODD, 3, 4)
    assert products(made.similarity, made) == cost.count(method, ODD)


@pytest.mark.parametrize(("method", "contexts"), [("SCAN t-i", "regions"), ("SCAN i-t", "words")])
def test_scan_needs_affinities_and_the_gram_matrix(method, contexts):
    q, c = (ODD.words, ODD.regions) if method.endswith("t-i") else (ODD.regions, ODD.words)
    made = timing.scene(method, ODD, 3, 4)
    gram = c * c * ODD.d / (4 if contexts == "regions" else 3)  # once per item
    element_wise = 2 * q * c  # sums over contexts, which are no matrix products
    assert products(made.similarity, made) - gram + element_wise == pytest.approx(cost.count(method, ODD))


def test_sum_max_needs_affinities_alone():
    made = timing.scene("SCAN t-i", ODD, 3, 4)
    assert products(sum_max, made) == cost.count("sum–max", ODD) == 7 * 4 * 24


def graph(reasoner, s, direction):
    made = timing.scene("SGR", s, 3, 4)
    shape = s.m, s.steps, direction
    similarity = JointSgraf(s.d, *shape) if reasoner == "joint" else Sgraf(s.d, reasoner, *shape)
    return products(similarity.eval().requires_grad_(False), made)  # the form without a gradient


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("direction", ["t2i", "i2t"])
@pytest.mark.parametrize("reasoner", ["saf", "sgr", "mean", "joint"])
def test_sgraf_computes_the_products_of_its_formula(reasoner, direction, steps):
    s = replace(ODD, steps=steps)
    q, m = s.words if direction == "t2i" else s.regions, s.m
    n = q + 1
    element_wise = q * s.d + n * m + (m if reasoner in ("saf", "joint") else 0)  # norms
    once = steps * (m**3 + m**2) / 12 if reasoner in ("sgr", "joint") else 0  # folding two maps, per batch of 12 pairs
    assert graph(reasoner, s, direction) + element_wise - once == pytest.approx(sgraf(s, reasoner, direction))


def test_counts_agree_with_hand_and_with_the_papers_print():
    counted = cost.table().set_index("similarity")
    assert counted["multiply-adds"]["cosine"] == 1024 and counted["multiply-adds"]["smooth-Chamfer"] == 16_384
    assert counted["authors"]["SCAN t-i"] == 2 * 36 * 16 * 1024 + 3 * 16 * 1024 == 1_228_800
    assert counted["multiply-adds"]["SCAN t-i"] == 36 * 16 * 1024 + 16 * 36 * 36 + 2 * 36 * 16
    assert counted["authors"]["SCAN i-t"] == 2 * 36 * 16 * 1024 + 3 * 36 * 1024
    assert counted["multiply-adds"]["match probability"] == 49 * 1024 and counted["multiply-adds"]["ELK"] == 2048
    nodes = 2 * 36 * 16 * 1024 + 16 * 1024 + 17 * 256 * 1024 + 17 * 256
    assert counted["authors"]["SGR"] == nodes + 3 * (3 * 17 * 256**2 + 2 * 17**2 * 256) + 256
    assert counted["multiply-adds"]["SAF"] == nodes + 2 * 17 * 256 + 2 * 256
    printed = published.dive_cost().set_index("similarity")["multiply-adds"]
    assert round(counted["authors"]["smooth-Chamfer"], -2) == printed["smooth-Chamfer"]


def test_exponents_of_power_laws_are_found_exactly():
    sizes = np.array([64, 128, 256, 1024])
    for power in (0.5, 1.0, 2.0):
        found = cost.fit_exponent(sizes, 3e-4 * sizes**power)
        assert (found.value, found.low, found.high) == pytest.approx((power, power, power))
        assert np.exp(found.shift) == pytest.approx(3e-4)


def test_the_interval_covers_the_true_exponent_as_often_as_it_says():
    rng = np.random.default_rng(0)
    sizes = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    fits = [cost.fit_exponent(sizes, sizes**1.5 * np.exp(rng.normal(0, 0.2, 5))) for _ in range(1000)]
    assert 0.93 < np.mean([f.low < 1.5 < f.high for f in fits]) < 0.97
    noisy = sizes**1.5 * np.array([1, 1.1, 0.9, 1, 1.2])
    wide, narrow = (cost.fit_exponent(sizes, noisy, level=level) for level in (0.99, 0.5))
    assert wide.low < narrow.low < narrow.value == wide.value < narrow.high < wide.high


@pytest.mark.parametrize("method", timing.TIMED)
def test_every_method_is_timed_in_every_way(method):
    made = timing.scene(method, ODD, 3, 12)
    for what in timing.WHATS:
        found = timing.measure(made, what, budget=1e-6)
        assert found.seconds > 0 and found.bare > 0 and found.extra_gib >= 0 and found.times == timing.LEAST


def test_the_best_of_one_query_and_of_all_pairs_are_the_highest_scores(monkeypatch):
    kept = []
    monkeypatch.setattr(timing, "_best", lambda scores: kept.append(scores.clone()))
    made = timing.scene("smooth-Chamfer", ODD, 3, 12)
    timing._one_query(made, 4)
    timing._top_10(made, 0)
    whole = made.similarity(made.images, made.captions)
    torch.testing.assert_close(kept[0], whole[1:2])  # query 4 of 3 pictures is the second
    torch.testing.assert_close(kept[1], whole)
    torch.testing.assert_close(kept[2], whole.T)


def rows_of(*values: int, method="cosine", **changed) -> pd.DataFrame:
    about = {
        "what": "all pairs", "method": method, "varied": "width", "images": 2, "captions": 3, "seconds": 1.0,
        "bare_seconds": 0.5, "ratio": 2.0, "extra_gib": 0.0, "multiply_adds": 4, "machine": "m", "threads": 1,
        "torch": "2", "commit": "a", "date_utc": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return pd.DataFrame([about | {"value": v, **changed} for v in values], columns=list(cost.COLUMNS))


def test_only_rows_of_the_machine_that_measured_last_are_compared():
    rows = pd.concat([rows_of(1, 2), rows_of(1, machine="n", date_utc="2026-02-01T00:00:00Z")])
    assert cost.of_one_machine(rows)["machine"].tolist() == ["n"]


def test_exponents_are_fitted_per_method_and_size():
    swept = [rows_of(v, seconds=float(v**2), multiply_adds=v) for v in (1, 2, 4)]
    rows = pd.concat([*swept, rows_of(1, 2, method="MIL")])
    (found,) = cost.exponents(rows).to_dict("records")
    assert (found["method"], found["varied"], found["sizes"]) == ("cosine", "width", 3)
    assert found["exponent"] == pytest.approx(2.0) and found["counted"] == pytest.approx(1.0)


def measured() -> pd.DataFrame:
    """Rows as a benchmark leaves them: three methods over two galleries, and the paper's case."""
    parts = []
    for method, seconds, counted in (("smooth-Chamfer", 16.0, 160), ("cosine", 1.0, 10)):
        for what, times in (("all pairs", 2.0), ("one query", 1.0)):
            about = {"varied": "captions", "images": 2, "multiply_adds": counted, "what": what, "method": method}
            parts += [rows_of(n, captions=n, seconds=times * seconds * n, **about) for n in (400, 100)]
        parts.append(rows_of(100, varied="paper", method=method, what="top 10", seconds=seconds, captions=100))
    return pd.concat(parts, ignore_index=True)


def test_speeds_are_those_of_the_largest_gallery_in_the_order_of_the_rows():
    table = cost.speeds(measured())
    assert table["method"].tolist() == ["smooth-Chamfer", "cosine"] and set(table["captions"]) == {400}
    sets = table.iloc[0]
    assert sets["ns per pair"] == pytest.approx(1e9 * 2 * 16 * 400 / (2 * 400)) and sets["× product"] == 2.0
    assert sets["× cosine timed"] == sets["× cosine counted"] == pytest.approx(16)
    assert sets["ms a query"] == pytest.approx(1e3 * 16 * 400) and sets["queries per second"] == pytest.approx(1 / 6400)


def test_our_latencies_stand_beside_the_printed_ones_of_the_same_method():
    table = cost.beside_print(measured(), published.dive_cost())
    assert table["method"].tolist() == ["VSE", "DivE"], "SCAN was not measured"
    assert table["printed ratio"].tolist() == [1.0, pytest.approx(168 / 159)]
    assert table["our ratio"].tolist() == [1.0, 16.0]
    assert table["our ms"].tolist() == [1000.0, 16000.0] and table["pairs"].tolist() == [200, 200]


def test_a_printed_figure_follows_or_does_not_by_its_last_digit():
    printed = published.dive_cost()
    verdict = lambda t: cost.verdicts(t).set_index("figure")["verdict"]  # noqa: E731
    found = verdict(printed)
    assert found.drop("SCAN, a pair").to_dict() == {
        "DivE, a pair": "follows", "DivE : VSE": "follows", "SCAN : DivE": "follows", "SCAN : VSE": "does not follow",
    }  # fmt: skip
    assert found["SCAN, a pair"].startswith("open: captions of 16.1 to 16.2 words")
    for costs, expected in (([1, 17, 1210], ["does not follow", "follows"]), ([1, 15, 1200], ["does not follow"] * 2)):
        other = verdict(printed.assign(**{"relative cost": costs}))
        assert other[["DivE : VSE", "SCAN : VSE"]].tolist() == expected


def test_a_table_is_read_and_a_damaged_one_refused(tmp_path):
    path = tmp_path / "cost.csv"
    rows_of(1, 2, seconds=0.1235).to_csv(path, index=False)
    assert cost.read(path)["seconds"].tolist() == [0.1235, 0.1235] and cost.read(path)["torch"].tolist() == ["2", "2"]
    for text in ("what,method\na,b\n", "", path.read_text().replace("0.1235", "-1")):
        path.write_text(text)
        with pytest.raises(DamagedFile, match="cost.csv"):
            cost.read(path)
    with pytest.raises(BadInput, match="does not exist"):
        cost.read(tmp_path / "none.csv")


@pytest.mark.slow
def test_the_benchmark_adds_rows_of_every_case(tmp_path, monkeypatch):
    path, plan = tmp_path / "cost.csv", timing.plan
    monkeypatch.setattr(timing, "plan", lambda *given: plan(*given)[::3])  # a process each
    rows_of(7).to_csv(path, index=False)
    assert timing.main(["--tiny", "--seconds", "1e-6", "--method", "cosine", "--rows", str(path)]) == 0
    made = cost.read(path).iloc[1:]
    assert len(made) == 2 * 2 + 1 and set(made["what"]) == {"all pairs", "one query", "top 10"}
