"""Figures show the numbers they were given; that every figure can be drawn is shown by the notebooks."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from xmr_core.base.errors import BadInput
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
    with pytest.raises(BadInput, match="weight for each word"):
        plots.word_weights([(image, "x", ["a"], {"SAF": [0.1, 0.2]})])


def test_the_ablation_draws_means_seeds_and_the_papers_row():
    ours = pd.DataFrame({"alpha": [1.0, 1.0, 4.0, 4.0], "rsum": [100.0, 110, 130, 120], "low": 90.0, "high": 140.0})
    assert len(plots.ablation(ours, None, "alpha", "α").axes) == 1  # of what no paper sweeps
    left, right = plots.ablation(ours, published.dive_alpha(), "alpha", "α").axes
    mean = next(line for line in left.lines if line.get_label() == "mean over seeds")
    assert mean.get_ydata().tolist() == [105.0, 125.0] and len(left.collections[0].get_offsets()) == 4
    assert right.lines[0].get_ydata().max() == 500.8


def test_maps_give_every_element_its_colour_and_side_its_shape():
    sides = ["images", "images", "captions", "captions"]
    table = pd.DataFrame({"x": [0.0, 1, 2, 3], "y": 0.0, "modality": sides, "element": [0, 1, 0, 1]})
    figure = plots.element_maps({"one": table, "two": table})
    colours = [tuple(c.get_facecolor()[0][:3]) for c in figure.axes[0].collections]  # of both captions, both images
    assert len(figure.axes) == 2 and len(colours) == 4 and colours[0] == colours[2] != colours[1]


def test_attention_is_bright_where_the_weights_are():
    picture, maps = np.full((8, 8, 3), 200, np.uint8), np.zeros((2, 3, 16))
    maps[:, :, 5] = 1.0
    figure = plots.slot_attention(picture, maps, ["a dog", "a cat", "a bird"], [True, False, True])
    shown = [ax for ax in figure.axes if ax.images]
    drawn = np.asarray(shown[1].images[0].get_array())
    assert len(shown) == 9 and (drawn[2:4, 2:4] == 200).all() and 120 < drawn[0, 0, 0] < 160
    words = plots.word_attention(picture, maps[0, :2], ["dog", "runs"])
    assert [ax.get_title() for ax in words.axes if ax.get_visible()] == ["image", "dog", "runs"]
    with pytest.raises(BadInput, match="square grid"):
        plots.word_attention(picture, np.ones((1, 5)), ["x"])


def test_distances_have_twice_the_noise_of_draws_to_both_ends():
    table = pd.DataFrame({"distance": ["mean only", "ELK", "match probability"], "numbers": [4, 8, 28],
                          "value": [3.0, 1.0, 2.0]})  # fmt: skip
    left, right = plots.distances(table, pd.DataFrame({"samples": [1, 4], "value": [1.5, 2.0]}), noise=0.5).axes
    (segment,) = left.containers[0].lines[2][0].get_segments()
    assert segment[:, 0].tolist() == [1.5, 2.5] and segment[0, 1] == 2 and right.lines[0].get_ydata()[1] == 2.0


def test_medians_reach_the_queries_with_many_answers_where_most_have_one():
    n = np.array([1] * 70 + [*range(2, 62)])
    table = pd.DataFrame({"direction": "t2i", "n": n, "u": np.log(n)})
    (ax,) = plots.against_truth(table, "n", "u", "right answers", "uncertainty").axes
    x, y = ax.lines[0].get_data()
    assert x[0] == 1 and x[-1] > 40 and len(x) >= 5 and y == pytest.approx(np.log(x), abs=0.02)


def test_the_ledger_measures_from_the_bound_towards_the_claim_and_says_what_it_draws_nearer():
    """A held claim stands right of 1, a contradicted one left of −1, whatever its bound and direction; beyond 12
    half-widths stand an arrow and words."""
    line = {"sentence": "It is so.", "corpus": "scenes", "seeds": 5}
    table = pd.DataFrame(
        [line | {"verdict": "undecided", "claimed": "below", "bound": 62.5, "effect": 63.9, "low": 57.0, "high": 70.8},
         line | {"verdict": "held", "claimed": "below", "bound": 62.5, "effect": 52.5, "low": 47.5, "high": 57.5},
         line | {"verdict": "contradicted", "claimed": "above", "bound": 2.0, "effect": -1.0, "low": -2.0, "high": 0.0},
         line | {"verdict": "held", "claimed": "above", "bound": 0.0, "effect": 50.0, "low": 49.0, "high": 51.0}]
    )  # fmt: skip
    (ax,) = plots.ledger(table).axes
    points = [drawn.get_xdata()[0] for drawn in ax.lines if len(drawn.get_xdata()) == 1]
    assert points == pytest.approx([-1.4 / 6.9, 2.0, -3.0, 12])
    assert [t.get_text() for t in ax.texts if t.get_text()] == ["≥ 12"]


def costs() -> pd.DataFrame:
    """Rows of measured costs: two methods over galleries and widths."""
    rows = [
        {"what": what, "method": method, "varied": varied, "value": v, "images": 2, "captions": 50,
         "seconds": unit * v * (what == "one query" or 3), "bare_seconds": v * v / 4, "multiply_adds": 10 * v}
        for method, unit in (("cosine", 1.0), ("SGR", 8.0))
        for varied in ("captions", "width")
        for v in (4, 1, 2)
        for what in ("all pairs", "one query")
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_growth_of_time_is_drawn_per_size_and_method():
    gallery, width = plots.scaling(costs()).axes
    assert [line.get_label() for line in gallery.lines] == ["cosine", "SGR", "proportional"]
    assert gallery.lines[1].get_ydata().tolist() == [8e3, 16e3, 32e3]  # ms, one query, ordered by size
    assert width.lines[0].get_ydata().tolist() == pytest.approx([3e4, 6e4, 12e4])  # µs, all pairs, a hundred of them
    (left, right), (bottom, top) = (np.log(side) for side in gallery.lines[2].get_data())
    assert (top - bottom) / (right - left) == pytest.approx(1.0), "the dotted line is not proportional growth"


def test_counted_and_timed_has_a_point_per_case_and_the_fastest_product():
    (ax,) = plots.counted_and_timed(costs()).axes
    assert [len(points.get_offsets()) for points in ax.collections] == [6, 6]
    assert ax.collections[1].get_offsets()[0].tolist() == [40.0, pytest.approx(1e9 * 3 * 32 / 100)]
    (line,) = ax.lines
    assert line.get_ydata()[1] / line.get_xdata()[1] == pytest.approx(1e9 * 0.25 / 100 / 10)


def test_score_maps_write_every_number_and_frame_the_marked_entries():
    maps = {"a": np.array([[0.5, -0.001], [1.0, 0.25]]), "b": np.zeros((2, 2))}
    left, right = plots.score_maps(maps, {"a": maps["a"] > 0.4}).axes
    assert [t.get_text() for t in left.texts] == ["0.50", "0.00", "1.00", "0.25"]
    corners = [(round(patch.get_x() + 0.46), round(patch.get_y() + 0.46)) for patch in left.patches]
    assert corners == [(0, 0), (0, 1)] and not right.patches
    shared = plots.score_maps({"a": maps["a"], "b": 3 * maps["a"], "c": 9 * maps["a"]}, alone=["c"])
    assert [ax.images[0].get_clim()[1] for ax in shared.axes] == pytest.approx([4.8, 4.8, 14.4])


def test_ambiguity_falls_in_steps():
    (line,) = plots.ambiguity({"one": np.array([1, 1, 3, 5])}, 100).axes[0].lines
    steps = [*zip(*line.get_data(), strict=True)]
    assert line.get_drawstyle() == "steps-pre" and steps == [(1, 1.0), (1, 0.75), (3, 0.5), (5, 0.25)]


def test_regions_have_the_widths_they_are_given_and_one_colour_for_each_label():
    one = ("images", [[0.0, 1.0]], [[1.0, 2.0]], 0.5)
    left, right = plots.regions({"a": [one], "b": [("erased", [[1.0, 1.0]], [[0.5, 0.5]], 0.99), one]}).axes
    (ellipse,) = left.patches
    assert (ellipse.width, ellipse.height) == pytest.approx((2 * 1.1774, 4 * 1.1774), rel=1e-4)
    assert tuple(right.patches[1].get_edgecolor()) == tuple(ellipse.get_edgecolor()) != right.patches[0].get_edgecolor()
    assert left.get_xlim() == right.get_xlim() and left.get_ylim()[0] < 1 - 2 * 1.1774


# figures that explain


def test_associations_draw_a_line_for_each_pair_with_a_weight_and_an_arrow_for_each_pull():
    x, y = np.eye(2), -np.eye(2)
    weights, pull = np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([[0.0, 1.0], [0.0, 0.0]])
    one, other = plots.associations({"a": (x, y, weights, pull, 0 * pull), "b": (x, y, weights, pull, 2 * pull)}).axes
    _, *lines = one.lines
    assert [line.get_linewidth() for line in lines] == [3.0, 1.5]
    assert lines[0].get_xydata().tolist() == [[1.0, 0.0], [-1.0, 0.0]]
    lengths = [np.hypot(*(np.subtract(t.xy, t.get_position()))) for t in other.texts]
    assert len(one.texts) == 1 and lengths == pytest.approx([0.275, 0.55])
