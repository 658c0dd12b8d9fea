"""Figures show the numbers they were given."""

from io import BytesIO

import matplotlib
import numpy as np
import pandas as pd
import pytest
from PIL import Image

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from tiny import tiny_config

from xmr_core.base.errors import BadInput
from xmr_core.data.prepare import prepare
from xmr_study import paper_tables as published
from xmr_study import plots


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_the_ablation_draws_means_seeds_and_the_papers_row():
    ours = pd.DataFrame(
        {"alpha": [1.0, 1.0, 4.0, 4.0], "rsum": [100.0, 110.0, 130.0, 120.0], "low": 90.0, "high": 140.0}
    )
    (alone,) = plots.ablation(ours, None, "alpha", "α").axes  # of what no paper sweeps
    assert alone.get_title() == "ours" and list(alone.get_xticks()) == sorted(set(ours["alpha"]))
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


def test_the_figure_of_variants_says_what_its_bars_are():
    table = pd.DataFrame({"variant": ["a", "b"], "m": [1.0, 2.0], "m low": [0.5, 1.5], "m high": [1.5, 2.5]})
    assert "intervals over seeds" in plots.variants(table, ["m"]).get_supxlabel()
    assert plots.variants(table.assign(**{"m low": np.nan, "m high": np.nan}), ["m"]).get_supxlabel() == ""


def test_the_gallery_shows_the_pictures_of_the_split(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    prepared = prepare(tiny_config(ambiguity=0.31).data)
    split = prepared.splits["test"]
    figure = plots.gallery(prepared.corpus, split, n=3, columns=2)
    shown = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    assert len(shown) == 3 and (np.asarray(shown[1]) == prepared.corpus.read_pixels(split.image_rows[1:2])[0]).all()
    assert prepared.corpus.captions["text"].iloc[split.caption_rows[0]].split()[0] in figure.axes[0].get_title()


def test_spread_over_training_has_a_line_per_variant_and_side():
    table = pd.DataFrame(
        [(v, e, s, -float(e)) for v in "ab" for e in (1, 2, 3) for s in ("images", "captions")],
        columns=["variant", "epoch", "side", "value"],
    )
    figure = plots.spread_over_training(table)
    assert [len(ax.lines) for ax in figure.axes] == [2, 2] and figure.axes[0].lines[0].get_ydata().tolist() == [
        -1,
        -2,
        -3,
    ]


def test_bins_are_bars_in_percent_with_intervals():
    bins = pd.DataFrame(
        {"bin": [1, 2], "n": 5, "by": [0.1, 0.2], "value": [0.5, 0.25], "low": [0.4, 0.2], "high": [0.6, 0.3]}
    )
    (ax,) = plots.recall_by_bin({"t2i": bins}).axes
    assert [round(bar.get_height()) for bar in ax.patches] == [50, 25] and ax.get_title() == "caption → images"
    assert ax.get_legend_handles_labels()[1] == ["mean of the bin", "95 % interval over resampled images"]


def test_elements_alone_and_left_out():
    table = pd.DataFrame(
        [
            ("both", "all", 300.0),
            *[(s, f"{h} {e}", 100.0 + e) for s in ("images", "captions") for h in ("only", "without") for e in (0, 1)],
        ],
        columns=["side", "kept", "rsum"],
    )
    figure = plots.elements(table.assign(relevance="annotated"))
    assert [round(b.get_height()) for b in figure.axes[0].patches] == [100, 101, 100, 101] and figure.axes[1].lines[
        0
    ].get_ydata()[0] == 300


def test_maps_give_every_element_its_colour_and_side_its_shape():
    table = pd.DataFrame(
        {
            "x": [0.0, 1, 2, 3],
            "y": 0.0,
            "modality": ["images", "images", "captions", "captions"],
            "element": [0, 1, 0, 1],
        }
    )
    figure = plots.element_maps({"one": table, "two": table})
    assert len(figure.axes) == 2 and len(figure.axes[0].collections) == 4
    colours = [
        tuple(c.get_facecolor()[0][:3]) for c in figure.axes[0].collections
    ]  # caption 0, caption 1, image 0, image 1
    assert colours[0] == colours[2] != colours[1]


def test_attention_is_bright_where_the_weights_are():
    picture = np.full((8, 8, 3), 200, np.uint8)
    maps = np.zeros((2, 3, 16))
    maps[:, :, 5] = 1.0
    figure = plots.slot_attention(picture, maps, ["a dog", "a cat", "a bird"], [True, False, True])
    shown = [ax for ax in figure.axes if ax.images]
    beside = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert len(shown) == 9 and beside == ["✓ a dog", "✗ a cat", "✓ a bird"]
    picture_of = np.asarray(shown[1].images[0].get_array())
    assert (picture_of[2:4, 2:4] == 200).all() and 120 < picture_of[0, 0, 0] < 160, "dark, and still to be seen"
    words = plots.word_attention(picture, maps[0, :2], ["dog", "runs"])
    assert [ax.get_title() for ax in words.axes if ax.get_visible()] == ["image", "dog", "runs"]
    with pytest.raises(BadInput, match="5 cells are not a square grid"):
        plots.word_attention(picture, np.ones((1, 5)), ["x"])


def test_distances_corruption_and_agreement_show_their_tables():
    table = pd.DataFrame(
        {"distance": ["mean only", "ELK", "match probability"], "numbers": [4, 8, 28], "value": [3.0, 1.0, 2.0]}
    )
    left, right = plots.distances(table, pd.DataFrame({"samples": [1, 4], "value": [1.5, 2.0]})).axes
    assert [t.get_text() for t in left.get_yticklabels()] == ["mean only  (4)", "match probability  (28)", "ELK  (8)"]
    assert right.lines[0].get_ydata().tolist() == [1.5, 2.0] and {line.get_label() for line in right.lines} >= {
        "mean only",
        "ELK",
    }
    assert not left.containers and len(left.figure.legends[0].get_texts()) == 3
    left, _ = plots.distances(table, pd.DataFrame({"samples": [1, 4], "value": [1.5, 2.0]}), noise=0.5).axes
    (bar,) = left.containers
    (segment,) = bar.lines[2][0].get_segments()
    assert segment[:, 0].tolist() == [1.5, 2.5] and segment[0, 1] == 2, "two deviations to both ends, at its own line"
    assert "over draws" in left.figure.legends[0].get_texts()[3].get_text()
    share = pd.DataFrame(
        {"side": ["images", "images"], "share": [0.0, 1.0], "value": [1.0, 2.0], "low": [0.5, 1.5], "high": [1.5, 2.5]}
    )
    (ax,) = plots.corruption(share, "mean log σ").axes
    assert ax.lines[0].get_ydata().tolist() == [1.0, 2.0]
    (ax,) = plots.agreement({"methods": pd.DataFrame({"benchmark": ["a", "b"], "tau": [0.9, -0.2]})}).axes
    assert [t.get_text() for t in ax.get_yticklabels()] == ["b", "a"] and ax.get_xlim()[0] < -0.2


def test_medians_reach_the_queries_with_many_answers_where_most_have_one():
    n = np.array([1] * 70 + [*range(2, 62)])
    table = pd.DataFrame({"direction": "t2i", "n": n, "u": np.log(n)})
    (ax,) = plots.against_truth(table, "n", "u", "right answers", "uncertainty").axes
    x, y = ax.lines[0].get_data()
    assert x[0] == 1 and x[-1] > 40 and len(x) >= 5 and y == pytest.approx(np.log(x), abs=0.02)
    drawn = [((edges := np.geomspace(1, 61, 9)[1:-1]) <= value).sum() for value in x]
    assert all((np.searchsorted(edges, n, side="right") == group).sum() >= 5 for group in drawn)


def test_the_ledger_measures_from_the_bound_towards_the_claim():
    """A held claim stands right of 1, a contradicted one left of −1, whatever its bound and direction."""
    line = {"sentence": "It is so.", "corpus": "scenes", "seeds": 5}
    table = pd.DataFrame(
        [line | {"verdict": "undecided", "claimed": "below", "bound": 62.5, "effect": 63.9, "low": 57.0, "high": 70.8},
         line | {"verdict": "held", "claimed": "below", "bound": 62.5, "effect": 52.5, "low": 47.5, "high": 57.5},
         line | {"verdict": "contradicted", "claimed": "above", "bound": 2.0, "effect": -1.0, "low": -2.0, "high": 0.0}]
    )  # fmt: skip
    (ax,) = plots.ledger(table).axes
    points = [drawn.get_xdata()[0] for drawn in ax.lines if len(drawn.get_xdata()) == 1]
    assert points == pytest.approx([-1.4 / 6.9, 2.0, -3.0])
    assert not ax.texts and ax.get_title() == "scenes; in brackets: number of seeds"


def test_the_ledger_says_what_it_draws_nearer_than_it_is():
    """Beyond 12 half-widths, and where equal seeds have no interval, stands an arrow with words."""
    line = {"sentence": "It is so.", "corpus": "scenes", "seeds": 5, "claimed": "above", "bound": 0.0}
    ends = [(50.0, 49.0, 51.0), (-50.0, -51.0, -49.0), (4.2, 4.2, 4.2), (-4.2, -4.2, -4.2), (12.0, 11.0, 13.0)]
    words = ["held", "contradicted", "held", "contradicted", "held"]
    lines = [line | {"effect": e, "low": low, "high": high} for e, low, high in ends]
    (ax,) = plots.ledger(pd.DataFrame(lines).assign(verdict=words)).axes
    points = [drawn.get_xdata()[0] for drawn in ax.lines if len(drawn.get_xdata()) == 1]
    assert points == [12, -12, 12, -12, 12] and ax.get_xlim() == (-14, 14)
    texts = [(t.get_text(), round(t.get_position()[1])) for t in ax.texts if t.get_text()]
    assert texts == [("≥ 12", 5), ("≤ −12", 4), ("≥ 12", 3), ("≤ −12", 2)]
    assert len(ax.texts) == 8, "four arrows beside four words"
    bars = [list(drawn.get_xdata()) for drawn in ax.lines if len(drawn.get_xdata()) == 2]
    assert bars == [[11, 13], [0, 0]]


def test_a_long_claim_keeps_its_object():
    long = "The more uncertain a query of a method with a long name, the lower its R@1 (i2t)."
    line = {"sentence": long, "seeds": 5, "effect": 2.0, "low": 1.0, "high": 3.0, "verdict": "held"}
    table = pd.DataFrame([line | {"claimed": "above", "bound": 0.0, "corpus": corpus} for corpus in ("a", "b")])
    (ax,) = plots.ledger(table).axes
    assert [" ".join(t.get_text().split()) for t in ax.get_yticklabels()] == [
        f"{long[:-1]} ({corpus}, 5 seeds)" for corpus in ("a", "b")
    ]




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
    assert gallery.lines[1].get_xdata().tolist() == [1, 2, 4] and gallery.lines[1].get_ydata().tolist() == [
        8e3,
        16e3,
        32e3,
    ]  # ms, one query
    assert width.lines[0].get_ydata().tolist() == pytest.approx([3e4, 6e4, 12e4])  # µs, all pairs, a hundred of them
    assert gallery.get_xscale() == gallery.get_yscale() == width.get_xscale() == "log" and "width" in width.get_xlabel()
    bottom, top = (np.log(y) for y in gallery.lines[2].get_ydata())
    left, right = (np.log(x) for x in gallery.lines[2].get_xdata())
    assert (top - bottom) / (right - left) == pytest.approx(1.0), "the dotted line is not proportional growth"


def test_counted_and_timed_has_a_point_per_case_and_the_fastest_product():
    (ax,) = plots.counted_and_timed(costs()).axes
    assert [len(points.get_offsets()) for points in ax.collections] == [6, 6]
    assert ax.collections[1].get_offsets()[0].tolist() == [40.0, pytest.approx(1e9 * 3 * 32 / 100)]
    (line,) = ax.lines
    assert line.get_ydata()[1] / line.get_xdata()[1] == pytest.approx(
        1e9 * 0.25 / 100 / 10
    )  # seconds of the bare product per multiply–add
    assert "SGR" in [text.get_text() for text in ax.figure.legends[0].get_texts()]


def test_score_maps_write_every_number_and_frame_the_marked_entries():
    maps = {"a": np.array([[0.5, -0.001], [1.0, 0.25]]), "b": np.zeros((2, 2))}
    figure = plots.score_maps(maps, {"a": maps["a"] > 0.4})
    left, right = figure.axes
    assert [t.get_text() for t in left.texts] == ["0.50", "0.00", "1.00", "0.25"] and right.get_title() == "b"
    corners = [(round(patch.get_x() + 0.46), round(patch.get_y() + 0.46)) for patch in left.patches]
    assert corners == [(0, 0), (0, 1)] and not right.patches
    shared = plots.score_maps({"a": maps["a"], "b": 3 * maps["a"], "c": 9 * maps["a"]}, alone=["c"])
    assert [ax.images[0].get_clim()[1] for ax in shared.axes] == pytest.approx([4.8, 4.8, 14.4])


def test_weights_by_rank_and_numbers_of_negatives_are_the_lines_of_their_labels():
    table = pd.DataFrame(
        [(panel, label, k, w / k) for panel in "pq" for label, w in (("x", 1.0), ("y", 2.0)) for k in (1, 2)],
        columns=["panel", "label", "rank", "weight"],
    )
    figure = plots.rank_weights(table)
    assert [line.get_ydata().tolist() for line in figure.axes[1].lines] == [[1.0, 0.5], [2.0, 1.0]]
    first, second = figure.axes[1].lines
    assert first.get_linewidth() > second.get_linewidth() and first.get_linestyle() != second.get_linestyle()
    counts = pd.DataFrame({"label": ["x", "x", "y"], "step": [1, 2, 1], "negatives": [9, 3, 5]})
    (ax,) = plots.negatives(counts).axes
    assert [line.get_ydata().tolist() for line in ax.lines] == [[9, 3], [5]] and ax.get_yscale() == "log"


def test_convergence_draws_means_and_where_a_label_got_there():
    table = pd.DataFrame({"label": list("aabb"), "epoch": [1, 1, 1, 2], "rsum": [100.0, 120.0, 90.0, 95.0]})
    (ax,) = plots.convergence(table, {"b": 1.5}).axes
    assert [line.get_ydata()[0] for line in ax.lines[:2]] == [110.0, 90.0]
    assert ax.lines[2].get_xdata() == [1.5, 1.5] and ax.lines[2].get_linestyle() == ax.lines[3].get_linestyle()
    (meaning,) = [line.get_label() for line in ax.lines if line.get_label().endswith("value")]
    assert meaning == "95 % of the last value" and len(plots.convergence(table).axes[0].lines) == 2


def test_every_world_has_a_curve():
    counts = {f"{a}": np.array([1, 1, 3 + a]) for a in range(12)}
    (axes,) = plots.ambiguity(counts, 100).axes
    assert [line.get_label() for line in axes.lines] == list(counts)
    (line,) = plots.ambiguity({"one": np.array([1, 1, 3, 5])}, 100).axes[0].lines
    assert line.get_drawstyle() == "steps-pre" and [*zip(*line.get_data(), strict=True)] == [
        (1, 1.0), (1, 0.75), (3, 0.5), (5, 0.25)
    ], "between 3 and 5 a quarter of the captions fits as many"  # fmt: skip


def test_regions_have_the_widths_they_are_given_and_one_colour_for_each_label():
    one = ("images", [[0.0, 1.0]], [[1.0, 2.0]], 0.5)
    figure = plots.regions({"a": [one], "b": [("erased", [[1.0, 1.0]], [[0.5, 0.5]], 0.99), one]})
    left, right = figure.axes
    (ellipse,) = left.patches
    assert (ellipse.width, ellipse.height) == pytest.approx((2 * 1.1774, 4 * 1.1774), rel=1e-4)
    assert tuple(right.patches[1].get_edgecolor()) == tuple(ellipse.get_edgecolor()) != right.patches[0].get_edgecolor()
    assert left.get_xlim() == right.get_xlim() and left.get_ylim()[0] < 1 - 2 * 1.1774
    (ax,) = plots.regions({"a": [(*one[:3], 0.9), ("under it", *one[1:])]}, dashed=["under it"]).axes
    solid, dashed = ax.patches
    assert solid.width == pytest.approx(2 * np.sqrt(-2 * np.log(0.1))) and solid.get_linestyle() == "solid"
    assert dashed.get_facecolor()[3] == 0 < solid.get_facecolor()[3] and ax.lines[1].get_markerfacecolor() == "none"


def test_a_palette_keeps_the_picture_in_fewer_bytes():
    noise = np.random.default_rng(0).integers(60, 120, (64, 64, 3)).astype(np.uint8)
    noise[10:14, 10:14] = 250, 0, 0
    figure = plots.slot_attention(noise, np.ones((4, 4, 64)) / 64)
    figure.draw_without_rendering()  # a layout settles at the first drawing
    full, small = BytesIO(), BytesIO(plots.palette_png(figure))
    figure.savefig(full, dpi=90, bbox_inches="tight")
    assert small.getbuffer().nbytes < full.getbuffer().nbytes / 2
    drawn, few = (np.asarray(Image.open(data).convert("RGB"), int) for data in (full, small))
    assert drawn.shape == few.shape and np.abs(drawn - few).mean() < 8 and few.shape[1] > 600
    assert ((few[..., 0] > 230) & (few[..., 1] < 30)).any(), "the small red square keeps its colour"


def test_values_stand_beside_print_in_one_order_and_a_trade_joins_its_group():
    ours = pd.DataFrame({"i2t": [1.0, 2.0]}, index=["a", "b"])
    left, right = plots.beside_print({"ours": ours, "print": ours.iloc[::-1]}, "R-P").axes
    assert left.lines[0].get_xdata().tolist() == right.lines[0].get_xdata().tolist() == [1.0, 2.0]
    assert [t.get_text() for t in left.get_yticklabels()] == ["a", "b"] and left.lines[0].get_ydata().tolist() == [1, 0]
    table = pd.DataFrame({"group": ["x", "x", "y"], "label": ["1", "2", "1"], "u": [1.0, 2.0, 3.0], "v": 0.0})
    (ax,) = plots.trade({"ours": table}, "u", "v").axes
    assert [line.get_xdata().tolist() for line in ax.lines] == [[1.0, 2.0], [3.0]] and len(ax.texts) == 3
    figure = plots.trade({"ours": table, "theirs": table.iloc[::-1], "one": table.iloc[:1]}, "u", "v")
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["x", "y"]
    assert [len(ax.lines) for ax in figure.axes] == [2, 2, 1] and not figure.axes[0].get_legend()
    curves = plots.over_distance({"a": pd.DataFrame({"p": [1.0, 0.5]}, index=[0.0, 1.0])})
    assert curves.axes[0].lines[0].get_ydata().tolist() == [1.0, 0.5]


def test_few_points_have_markers_and_ticks_and_many_are_a_curve():
    few, many = (pd.DataFrame({"x": np.arange(float(n))}, index=2 ** np.arange(n)) for n in (4, 13))
    short, long = (plots.curves({"a": table}, "J", "R-P").axes[0] for table in (few, many))
    assert short.get_xticks().tolist() == [1, 2, 4, 8] and short.lines[0].get_marker() == "o"
    assert long.lines[0].get_marker() in ("", "None", None) and len(long.get_xticks()) < 13
