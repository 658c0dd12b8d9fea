"""Figures of what scoring costs."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from xmr_core.ui.plots.style import COLOURS, MARKERS, start

_AXES = {
    "captions": "captions in the gallery",
    "set size": "elements of a set (samples J)",
    "width": "width D",
    "words": "words of a caption",
}


def scaling(rows: pd.DataFrame) -> Figure:
    """How time grows, log–log, one panel per size that was varied: of one query over the gallery (ms), else of a pair (µs).

    rows: of cost.read, of one machine. The dotted line has the slope of proportional growth.
    """
    shown = rows[rows["varied"].isin(_AXES) & (rows["what"] == np.where(rows["varied"] == "captions", "one query", "all pairs"))]
    varied = [name for name in _AXES if name in set(shown["varied"])]
    fig, axes = start(3.4 * len(varied), 4.6, columns=len(varied))
    for ax, name in zip(axes, varied, strict=True):
        part = shown[shown["varied"] == name].sort_values("value")
        for method, line in part.groupby("method", sort=False):
            seconds = 1e3 * line["seconds"] if name == "captions" else 1e6 * line["seconds"] / line["pictures"] / line["captions"]
            ax.plot(line["value"], seconds, ms=5, lw=1.3, label=method, **_look(method, rows))
        _sizes(ax, sorted(set(part["value"])))
        ax.set(xlabel=_AXES[name], ylabel="ms for one query" if name == "captions" else "µs per pair")
        _slope(ax)
    fig.get_layout_engine().set(wspace=0.06)
    handles = {label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    ordered = [name for name in (*rows["method"].unique(), "proportional") if name in handles]
    fig.legend([handles[name] for name in ordered], ordered, loc="outside lower center", ncols=7, frameon=False)
    return fig


def counted_and_timed(rows: pd.DataFrame) -> Figure:
    """Every measured case as a point: multiply–adds of a pair and its nanoseconds. The line is the fastest bare product: no method that
    computes its products can lie far below. rows: of cost.read, of one machine."""
    shown = rows[rows["what"] == "all pairs"]
    pairs = shown["pictures"] * shown["captions"]
    fig, (ax,) = start(7.4, 4.4)
    for method, part in shown.groupby("method", sort=False):
        look = _look(method, rows)
        ax.scatter(part["multiply_adds"], 1e9 * part["seconds"] / pairs[part.index], s=26, alpha=0.8, label=method, lw=0, **look)
    # the elements of a pair are multiplied once by the bare product; for sets and vectors these are all multiply–adds
    whole = shown["method"].isin(("cosine", "smooth-Chamfer", "Chamfer", "MIL", "MP", "match probability"))
    if whole.any():
        fastest = (1e9 * shown["bare_seconds"] / pairs / shown["multiply_adds"])[whole].min()
        ends = np.array([shown["multiply_adds"].min(), shown["multiply_adds"].max()])
        ax.plot(ends, fastest * ends, color="0.3", ls="--", lw=1, label=f"fastest product, {1 / fastest:.0f} per ns")
    ax.set(xscale="log", yscale="log", xlabel="multiply–adds of a pair", ylabel="ns per pair")
    fig.legend(loc="outside right center", frameon=False)
    return fig


def _look(method: str, rows: pd.DataFrame) -> dict:
    """Colour and marker of a method, the same in every panel: eight markers and ten colours tell all apart."""
    n = list(dict.fromkeys(rows["method"])).index(method)
    return {"color": COLOURS[n % len(COLOURS)], "marker": MARKERS[n % len(MARKERS)]}


def _sizes(ax: Axes, sizes: list[int]) -> None:
    """Logarithmic axes that name the sizes that were tried."""
    ax.set(xscale="log", yscale="log")
    ax.xaxis.set_major_locator(FixedLocator(sizes))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())


def _slope(ax: Axes) -> None:
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    middle, height = np.sqrt(left * right), np.sqrt(bottom * top)
    ax.plot([left, right], [height * left / middle, height * right / middle], color="0.5", ls=":", lw=1, label="proportional")
    ax.set(xlim=(left, right), ylim=(bottom, top))
