"""Figures of normal distributions: regions in the plane, match probability over distance, and values beside print."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from xmr_core.ui.plots.style import COLOURS, legend_below, line_style, start, whole_numbers

_FEW = 12  # rows of a table that are points, and no curve


def regions(
    panels: Mapping[str, Sequence[tuple[str, np.ndarray, np.ndarray, float]]],
    dashed: Collection[str] = (),
) -> Figure:
    """Ellipses of distributions in the plane, one panel for each title.

    panels: title → (label, means "n 2", σ "n 2", level between 0 and 1) for each group of items. The ellipse holds
    `level` of the probability; the point is the mean. Panels share their axes. A later group lies on top of an earlier
    one; dashed: labels of groups that are drawn so that what they lie on is still seen.

    >>> group = ("images", np.zeros((1, 2)), np.ones((1, 2)), 0.5)
    >>> len(regions({"one": [group]}).axes[0].patches)
    1
    """
    fig, axes = start(4.6 * len(panels), 4.3, columns=len(panels), sharex=True, sharey=True)
    labels = list(dict.fromkeys(group[0] for groups in panels.values() for group in groups))
    corners = []
    for ax, (title, groups) in zip(axes, panels.items(), strict=True):
        for label, means, spreads, level in groups:
            style = line_style(labels.index(label)) | {"ls": "", "label": f"{label} ({100 * level:g} %)"}
            means, reach = np.asarray(means), np.asarray(spreads) * np.sqrt(-2 * np.log(1 - level))
            rim = {"facecolor": (*style["color"], 0.08), "lw": 1.2}
            if label in dashed:
                rim = {"facecolor": "none", "ls": (0, (4, 4)), "lw": 2.2}
            for mean, (width, height) in zip(means, 2 * reach, strict=True):
                ax.add_patch(Ellipse(mean, width, height, edgecolor=style["color"], **rim))
            ax.plot(*means.T, **style, **({"ms": 9, "mfc": "none"} if label in dashed else {"ms": 4}))
            corners += [means - reach, means + reach]
        ax.set(title=title, xlabel="first dimension", aspect="equal")
    low, high = np.concatenate(corners).min(0), np.concatenate(corners).max(0)
    room = 0.08 * (high - low).max()
    axes[0].set(xlim=(low[0] - room, high[0] + room), ylim=(low[1] - room, high[1] + room), ylabel="second dimension")
    legend_below(fig, axes)
    return fig


def over_distance(panels: Mapping[str, pd.DataFrame], ylabel: str = "match probability") -> Figure:
    """A value over the distance of two means, one panel for each title and one line for each column of its table.

    panels: title → table whose index is the distance.

    >>> table = pd.DataFrame({"a = 5": [1.0, 0.5]}, index=[0.0, 1.0])
    >>> over_distance({"scale": table}).axes[0].get_xlabel()
    'distance of the means'
    """
    return curves(panels, "distance of the means", ylabel)


def curves(panels: Mapping[str, pd.DataFrame], xlabel: str, ylabel: str, log: bool = False) -> Figure:
    """Lines over the index of a table: one panel for each title and one line for each column of its table.

    xlabel: '' for the name of each table's index. log: a logarithmic vertical axis. A table of at most twelve rows has
    a marker and a tick for each.

    >>> table = pd.DataFrame({"PCME": [0.2, 0.1], "PCME, one σ": [0.1, 0.1]}, index=[1, 2])
    >>> [len(ax.lines) for ax in curves({"images": table}, "dimension", "variance", log=True).axes]
    [2]
    """
    fig, axes = start(3.9 * len(panels), 3.4, columns=len(panels), sharey=True)
    for ax, (title, table) in zip(axes, panels.items(), strict=True):
        few = len(table) <= _FEW
        for n, (label, values) in enumerate(table.items()):
            ax.plot(table.index, values, lw=2, ms=6, label=label, **line_style(n) | ({} if few else {"marker": ""}))
        ax.set(title=title, xlabel=xlabel or table.index.name, yscale="log" if log else "linear")
        if few:
            ax.set_xticks(list(table.index))
        elif table.index.dtype.kind == "i":
            whole_numbers(ax)
        ax.legend(frameon=False, fontsize=8)
    axes[0].set_ylabel(ylabel)
    return fig


def beside_print(tables: Mapping[str, pd.DataFrame], xlabel: str) -> Figure:
    """Variants as rows, ours and the paper's beside each other: one panel per title, one marker per column.

    The data differ, so each panel has an axis of its own: compare the order.
    tables: title → table with the variants as index and one column for each marker.

    >>> table = pd.DataFrame({"i2t": [1.0, 2.0], "t2i": [1.5, 1.0]}, index=["a", "b"])
    >>> [ax.get_title() for ax in beside_print({"ours": table, "print": table}, "R-P").axes]
    ['ours', 'print']
    """
    order = list(dict.fromkeys(name for table in tables.values() for name in table.index))
    fig, axes = start(4.6 * len(tables) + 0.8, 0.42 * len(order) + 1.4, columns=len(tables), sharey=True)
    heights = np.arange(len(order))[::-1]
    for ax, (title, table) in zip(axes, tables.items(), strict=True):
        for n, (column, values) in enumerate(table.items()):
            ax.plot(values.reindex(order), heights, ms=7, label=column, **line_style(n) | {"ls": ""})
        ax.set(title=title, xlabel=xlabel, yticks=heights, yticklabels=order, ylim=(-0.6, len(order) - 0.4))
        ax.legend(frameon=True, fontsize=8)
    return fig


def trade(tables: Mapping[str, pd.DataFrame], x: str, y: str) -> Figure:
    """One number against another, one panel per title; a line joins the rows of one group in the order given. All
    panels share one legend.

    tables: title → columns group, label, x, y. x, y: with their unit, for they name the axes.

    >>> table = pd.DataFrame({"group": "all", "label": ["K=1", "K=2"], "R@1 (%)": [1.0, 2.0], "R-P (%)": [2.0, 1.0]})
    >>> len(trade({"ours": table}, "R@1 (%)", "R-P (%)").axes[0].lines)
    1
    """
    fig, axes = start(4.8 * len(tables), 4.0, columns=len(tables))
    groups = list(dict.fromkeys(group for table in tables.values() for group in table["group"]))
    for ax, (title, table) in zip(axes, tables.items(), strict=True):
        for group, part in table.groupby("group", sort=False):
            style = line_style(groups.index(group)) | {"ls": "-"}
            ax.plot(part[x], part[y], lw=1.2, ms=7, label=group, **style)
            for row in part.to_dict("records"):
                style = {"xytext": (6, 6), "textcoords": "offset points", "fontsize": 8}
                paper = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"}  # no line strikes the label through
                ax.annotate(row["label"], (row[x], row[y]), bbox=paper, **style)
        ax.set(title=title, xlabel=x, ylabel=y)
        ax.margins(0.15)
    legend_below(fig, axes)
    return fig


def shares(panels: Mapping[str, Mapping[int, float]], xlabel: str, ylabel: str) -> Figure:
    """A bar for each whole number, one panel for each title. panels: title → number → height.

    >>> [len(ax.patches) for ax in shares({"test": {1: 40.0, 2: 60.0}}, "objects", "images (%)").axes]
    [2]
    """
    fig, axes = start(4.4 * len(panels), 3.2, columns=len(panels), sharey=True)
    for ax, (title, heights), colour in zip(axes, panels.items(), COLOURS, strict=False):
        ax.bar(list(heights), list(heights.values()), color=colour, width=0.8)
        ax.set(title=title, xlabel=xlabel, xticks=list(heights))
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel(ylabel)
    return fig
