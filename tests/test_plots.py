"""Figures show the numbers they were given."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from tiny import tiny_config

from xmr_core import plots, published, study
from xmr_core.prepare import prepare


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_the_ablation_draws_means_seeds_and_the_papers_row():
    ours = pd.DataFrame({"alpha": [1.0, 1.0, 4.0, 4.0], "rsum": [100.0, 110.0, 130.0, 120.0], "low": 90.0, "high": 140.0})
    figure = plots.ablation(ours, published.dive_alpha(), "alpha", "α")
    left, right = figure.axes
    mean = next(line for line in left.lines if line.get_label() == "mean over seeds")
    assert mean.get_ydata().tolist() == [105.0, 125.0] and len(left.collections[0].get_offsets()) == 4
    assert right.lines[0].get_ydata().max() == 500.8 and "Table 4" in right.get_title()


def test_variants_draw_means_with_their_intervals_and_cope_without():
    table = pd.DataFrame({"variant": ["a", "b"], "m": [1.0, 2.0], "m low": [0.5, np.nan], "m high": [1.5, np.nan]})
    (ax,) = plots.variants(table, ["m"]).axes
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    (bars,) = [c for c in ax.collections if len(c.get_segments()) == 2]
    assert sorted(s[0][0] for s in bars.get_segments()) == [0.5, 2.0]


def test_the_gallery_shows_the_pictures_of_the_split(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    prepared = prepare(tiny_config(ambiguity=0.31).data)
    side = prepared.sides["test"]
    figure = plots.gallery(prepared.corpus, side, n=3, columns=2)
    shown = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    assert len(shown) == 3 and (np.asarray(shown[1]) == prepared.corpus.read_pixels(side.image_rows[1:2])[0]).all()
    assert prepared.corpus.captions["text"].iloc[side.caption_rows[0]].split()[0] in figure.axes[0].get_title()


def test_verdicts_in_words():
    assert study.verdict_text(("held", 12.04, 3.1, 20.9)) == "+12.0 RSUM [3.1, 20.9] held"
    assert study.verdict_text(("undecided", -1.0, float("nan"), float("nan"))) == "-1.0 RSUM (one seed: no interval) undecided"
