"""Figures that explain show what they were given."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from xmr_study import plots


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_a_diagram_has_every_box_once_and_an_arrow_for_each_pair():
    (ax,) = plots.diagram([["a\nfirst", "b"], ["c"]], [("a", "c"), ("b", "c")], {"c": 1}).axes
    boxes = {text.get_text(): text.get_position() for text in ax.texts if text.get_text()}
    assert boxes == {"a\nfirst": (0, 1), "b": (0, 0), "c": (1, 0.5)}
    assert sum(hasattr(text, "arrow_patch") and text.arrow_patch is not None for text in ax.texts) == 2


def test_matrices_print_their_numbers_on_one_scale():
    one, two = pd.DataFrame([[0.25, 0.75]], index=["slot 1"]), pd.DataFrame([[0.5, 3.0]], index=["slot 1"])
    left, right = plots.matrices({"A": one, "B": two}, digits=1).axes
    assert [t.get_text() for t in right.texts] == ["0.5", "3.0"] and left.get_title() == "A"
    assert left.collections[0].get_clim() == right.collections[0].get_clim() == (0, 3.0)
    assert left.get_yticklabels()[0].get_text() == "slot 1"


def test_associations_draw_a_line_for_each_pair_with_a_weight_and_an_arrow_for_each_pull():
    x, y = np.eye(2), -np.eye(2)
    weights, pull = np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([[0.0, 1.0], [0.0, 0.0]])
    one, other = plots.associations({"a": (x, y, weights, pull, 0 * pull), "b": (x, y, weights, pull, 2 * pull)}).axes
    circle, *lines = one.lines
    assert [line.get_linewidth() for line in lines] == [3.0, 1.5] and len(circle.get_xdata()) == 200
    assert lines[0].get_xydata().tolist() == [[1.0, 0.0], [-1.0, 0.0]]
    assert len(one.texts) == 1 and len(other.texts) == 2
    lengths = [np.hypot(*(np.subtract(t.xy, t.get_position()))) for t in other.texts]
    assert lengths == pytest.approx([0.275, 0.55])
