"""Figures show the numbers they were given; that every figure can be drawn is shown by the notebooks."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from xmr_study import paper_tables as published
from xmr_study import plots


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


PAIR = pd.DataFrame({"i2t": [1.0, 2.0]}, index=["a", "b"])
EPOCHS = pd.DataFrame({"label": list("aabb"), "epoch": [1, 1, 1, 2], "rsum": [100.0, 120.0, 90.0, 95.0]})
LINES = {  # figure: numbers of the lines of its first panel
    "convergence": (lambda: plots.convergence(EPOCHS), [[110.0], [90.0, 95.0]]),
    "negatives": (
        lambda: plots.negatives(pd.DataFrame({"label": list("xxy"), "step": [1, 2, 1], "negatives": [9, 3, 5]})),
        [[9, 3], [5]],
    ),
    "rank_weights": (
        lambda: plots.rank_weights(pd.DataFrame({"panel": "p", "label": "x", "rank": [1, 2], "weight": [0.7, 0.3]})),
        [[0.7, 0.3]],
    ),
    "spread": (
        lambda: plots.spread_over_training(
            pd.DataFrame({"variant": "v", "epoch": [1, 2], "side": "images", "value": [-1.0, -2.0]})
        ),
        [[-1.0, -2.0]],
    ),
    "corruption": (
        lambda: plots.corruption(
            pd.DataFrame({"side": "images", "share": [0.0, 1.0], "value": [1.0, 2.0], "low": 0.5, "high": 2.5}), "σ"
        ),
        [[1.0, 2.0]],
    ),
    "over_distance": (
        lambda: plots.over_distance({"a": pd.DataFrame({"p": [1.0, 0.5]}, index=[0.0, 1.0])}),
        [[1.0, 0.5]],
    ),
    "curves": (lambda: plots.curves({"a": pd.DataFrame({"x": [3.0, 4.0]}, index=[1, 2])}, "J", "R-P"), [[3.0, 4.0]]),
    "beside_print": (lambda: plots.beside_print({"ours": PAIR, "print": PAIR.iloc[::-1]}, "R-P"), [[1, 0]]),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_have_the_numbers_of_the_table(name):
    draw, expected = LINES[name]
    assert [list(line.get_ydata()) for line in draw().axes[0].lines][: len(expected)] == expected


def test_bars_have_the_numbers_of_the_table():
    bins = pd.DataFrame({"bin": [1, 2], "n": 5, "by": [0.1, 0.2], "value": [0.5, 0.25], "low": 0.2, "high": 0.6})
    (ax,) = plots.recall_by_bin({"t2i": bins}).axes
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([50, 25])
    image = np.zeros((4, 4, 3), np.uint8)
    figure = plots.word_weights([(image, "right", ["a", "ring"], {"SAF": [0.2, 0.8], "SGR": [-0.5, 0.6]})])
    assert [[bar.get_height() for bar in ax.patches] for ax in figure.axes] == [[], [0.2, 0.8], [-0.5, 0.6]]


def test_the_ablation_draws_means_seeds_and_the_papers_row():
    ours = pd.DataFrame({"alpha": [1.0, 1.0, 4.0, 4.0], "rsum": [100.0, 110, 130, 120], "low": 90.0, "high": 140.0})
    assert len(plots.ablation(ours, None, "alpha", "α").axes) == 1  # of what no paper sweeps
    left, right = plots.ablation(ours, published.dive_alpha(), "alpha", "α").axes
    mean = next(line for line in left.lines if line.get_label() == "mean over seeds")
    assert mean.get_ydata().tolist() == [105.0, 125.0] and len(left.collections[0].get_offsets()) == 4
    assert right.lines[0].get_ydata().max() == 500.8


def test_attention_is_enclosed_where_the_weights_are():
    picture, maps = np.full((8, 8, 3), 200, np.uint8), np.zeros((2, 3, 16))
    maps[:, :, 5] = 1.0
    figure = plots.slot_attention(picture, maps, ["a dog", "a cat", "a bird"], [True, False, True])
    shown = [ax for ax in figure.axes if ax.images]
    half = shown[1].collections[-1].get_paths()[0].vertices  # pixels; cell 5 of 4 × 4 lies from 1.5 to 3.5
    assert len(shown) == 9 and np.allclose(half.mean(0), 2.5, atol=0.3) and (abs(half - 2.5) <= 1.01).all()
    assert not plots.slot_attention(picture, 0 * maps).axes[1].collections, "no weight, no line"
    words = plots.word_attention(picture, maps[0, :2], ["dog", "runs"])
    assert [ax.get_title() for ax in words.axes if ax.get_visible()] == ["image", "dog", "runs"]


def test_the_ledger_shows_effects_in_their_unit_beside_where_the_claim_says():
    line = {"sentence": "It is so.", "corpus": "scenes", "seeds": 5}
    share = "elements of the same slot, %: DivE below 62.5"
    table = pd.DataFrame(
        [line | {"verdict": "undecided", "claimed": "below", "bound": 62.5, "effect": 63.9, "low": 57.0, "high": 70.8,
                 "measure": share},
         line | {"verdict": "held", "claimed": "below", "bound": 62.5, "effect": 52.5, "low": 47.5, "high": 57.5,
                 "measure": share},
         line | {"verdict": "contradicted", "claimed": "above", "bound": 2.0, "effect": -1.0, "low": -2.0, "high": 0.0,
                 "measure": "RSUM annotated: A above B"}]
    )  # fmt: skip
    shares, rsum = plots.ledger(table).axes
    points = [[d.get_xdata()[0] for d in ax.lines if len(d.get_xdata()) == 1] for ax in (shares, rsum)]
    assert points == [[63.9, 52.5], [-1.0]] and shares.get_xlabel() == "elements of the same slot, %"
    (above,) = (drawn.get_paths()[0].get_extents() for drawn in rsum.collections)
    assert (above.x0, above.x1) == pytest.approx((2.0, rsum.get_xlim()[1])), "from the bound towards the claim"
    below = [drawn.get_paths()[0].get_extents() for drawn in shares.collections]
    assert all((box.x0, box.x1) == pytest.approx((shares.get_xlim()[0], 62.5)) for box in below)


# figures that explain
