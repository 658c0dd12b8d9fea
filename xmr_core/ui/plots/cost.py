"""Figures of what scoring costs. rows: of study.cost.read, of one machine (study.cost.of_one_machine)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from xmr_core.ui.plots.style import legend_below, method_style, plain_numbers, start

_AXES = {
    "captions": "captions in the gallery",
    "set size": "elements of a set (samples J)",
    "width": "width D",
    "words": "words of a caption",
}
_ONLY_PRODUCTS = ("cosine", "smooth-Chamfer", "Chamfer", "MIL", "MP", "match probability")


def scaling(rows: pd.DataFrame) -> Figure:
    """How time grows with size on logarithmic axes, one panel for each size that was varied.

    Against the size of the gallery: milliseconds of one query. Against all other sizes: microseconds of a pair. The
    dotted line has the slope of proportional growth.
    """
    what = np.where(rows["varied"] == "captions", "one query", "all pairs")
    shown = rows[rows["varied"].isin(_AXES) & (rows["what"] == what)]
    varied = [name for name in _AXES if name in set(shown["varied"])]
    fig, axes = start(3.4 * len(varied), 4.6, columns=len(varied))
    for ax, name in zip(axes, varied, strict=True):
        part = shown[shown["varied"] == name].sort_values("value")
        for method, line in part.groupby("method", sort=False):
            pairs = 1e-3 if name == "captions" else 1e-6 * line["images"] * line["captions"]
            ax.plot(line["value"], line["seconds"] / pairs, ms=5, lw=1.3, label=method, **_style(method, rows))
        ax.set(xscale="log", yscale="log")
        plain_numbers(ax, part["value"])
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set(xlabel=_AXES[name], ylabel="ms for one query" if name == "captions" else "µs per pair")
        _draw_slope(ax)
    fig.get_layout_engine().set(wspace=0.06)
    legend_below(fig, axes, 7)
    return fig


def counted_and_timed(rows: pd.DataFrame) -> Figure:
    """Every measured case as a point: multiply–adds of a pair and its nanoseconds.

    The line is the fastest bare matrix product: a method that computes its products cannot lie far below it.
    """
    shown = rows[rows["what"] == "all pairs"]
    pairs = shown["images"] * shown["captions"]
    fig, (ax,) = start(7.4, 4.4)
    for method, part in shown.groupby("method", sort=False):
        ns = 1e9 * part["seconds"] / pairs[part.index]
        ax.scatter(part["multiply_adds"], ns, s=26, alpha=0.8, label=method, lw=0, **_style(method, rows))
    # The bare product multiplies the elements of a pair once; for these methods that is every multiply–add.
    comparable = shown["method"].isin(_ONLY_PRODUCTS)
    if comparable.any():
        fastest = (1e9 * shown["bare_seconds"] / pairs / shown["multiply_adds"])[comparable].min()
        ends = np.array([shown["multiply_adds"].min(), shown["multiply_adds"].max()])
        label = f"fastest product, {1 / fastest:.0f} per ns"
        ax.plot(ends, fastest * ends, color="0.3", ls="--", lw=1, label=label)
    ax.set(xscale="log", yscale="log", xlabel="multiply–adds of a pair", ylabel="ns per pair")
    fig.legend(loc="outside right center", frameon=False)
    return fig


def _style(method: str, rows: pd.DataFrame) -> dict:
    """Colour and marker of a method, the same in every panel."""
    return method_style(list(dict.fromkeys(rows["method"])).index(method))


def _draw_slope(ax: Axes) -> None:
    """A dotted line of proportional growth through the middle of the panel."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    middle, height = np.sqrt(left * right), np.sqrt(bottom * top)
    line = [height * left / middle, height * right / middle]
    ax.plot([left, right], line, color="0.5", ls=":", lw=1, label="proportional")
    ax.set(xlim=(left, right), ylim=(bottom, top))
