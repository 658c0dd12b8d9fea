"""Figures of what a loss does to a matrix of scores, and of training under several losses."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from xmr_core.ui.plots.style import legend_below, line_style, start, whole_numbers


def score_maps(
    maps: Mapping[str, np.ndarray], marked: Mapping[str, np.ndarray] | None = None, alone: Sequence[str] = ()
) -> Figure:
    """Matrices image × caption beside each other, with their numbers; blue is below 0 and red above.

    maps: title → matrix. marked: title → matrix of booleans whose entries get a frame. alone: titles of matrices with a
    scale of colour of their own; the others share one, so that equal numbers have equal colours.

    >>> [ax.get_title() for ax in score_maps({"scores": np.eye(2)}, {"scores": np.eye(2) > 0}).axes]
    ['scores']
    """
    rows, columns = next(iter(maps.values())).shape
    width = 0.62 * columns + 0.9
    fig, axes = start(width * len(maps), 0.5 * rows + 1.2, columns=len(maps))
    largest = {title: max(float(np.abs(matrix).max()), 1e-12) for title, matrix in maps.items()}
    shared = max((top for title, top in largest.items() if title not in alone), default=1.0)
    for ax, (title, matrix) in zip(axes, maps.items(), strict=True):
        top = largest[title] if title in alone else shared
        ax.imshow(matrix, cmap="RdBu_r", vmin=-1.6 * top, vmax=1.6 * top, aspect="auto")
        for (i, t), value in np.ndenumerate(np.asarray(matrix)):
            ax.text(t, i, f"{value:.2f}".replace("-0.00", "0.00"), ha="center", va="center", fontsize=8)
            if marked is not None and title in marked and marked[title][i][t]:
                ax.add_patch(Rectangle((t - 0.46, i - 0.46), 0.92, 0.92, fill=False, lw=2, ec="black"))
        ax.set(title=title, xlabel="caption", xticks=range(columns), yticks=range(rows))
        ax.grid(False)
    axes[0].set_ylabel("image")
    return fig


def negatives(table: pd.DataFrame) -> Figure:
    """How many negatives a loss takes while it trains, on a logarithmic axis. table: columns label, step, negatives.

    >>> table = pd.DataFrame({"label": "AdOpt", "step": [1, 2], "negatives": [70, 5]})
    >>> negatives(table).axes[0].get_yscale()
    'log'
    """
    fig, (ax,) = start(7.4, 3.6)
    for n, (label, part) in enumerate(table.groupby("label", sort=False)):
        style = line_style(n) | {"ls": "-", "markevery": max(len(part) // 12, 1)}
        ax.plot(part["step"], part["negatives"], label=label, lw=1.4, ms=5, **style)
    ax.set(xlabel="training step", ylabel="negatives for a query, K", yscale="log")
    ax.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
    legend_below(fig, ax, columns=2)
    return fig


def convergence(table: pd.DataFrame, reached: Mapping[str, float] | None = None, share: float = 0.95) -> Figure:
    """Validation RSUM by epoch, one line for each label. table: columns label, epoch (from 1), rsum (percent).
    reached: label → the epoch, not always a whole one, in which it has `share` of its last value; marked by a dotted
    vertical line.

    >>> table = pd.DataFrame({"label": ["a", "a"], "epoch": [1, 2], "rsum": [100.0, 200.0]})
    >>> len(convergence(table, {"a": 1.9}).axes[0].lines)  # the curve, its mark, and what the mark means
    3
    """
    fig, (ax,) = start(7.4, 3.8)
    for n, (label, part) in enumerate(table.groupby("label", sort=False)):
        mean = part.groupby("epoch")["rsum"].mean()
        style = line_style(n) | {"ls": "-"}
        ax.plot(mean.index, mean, label=label, lw=1.6, **style)
        if reached and label in reached:
            ax.axvline(reached[label], color=style["color"], ls=":", lw=1.4)
    if reached:
        ax.plot([], [], color="0.3", ls=":", lw=1.4, label=f"{100 * share:g} % of the last value")
    ax.set(xlabel="epoch", ylabel="validation RSUM (%)")
    whole_numbers(ax)
    legend_below(fig, ax, columns=2)
    return fig
