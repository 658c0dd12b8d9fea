"""Figures that explain: a method as boxes and arrows, small matrices with their numbers, and which elements of two sets
pull at each other."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from xmr_study.plots.style import COLOURS, legend_below, start


def diagram(
    columns: Sequence[Sequence[str]], arrows: Sequence[tuple[str, str]], colours: Mapping[str, int] | None = None
) -> Figure:
    """A method as boxes in columns, from left to right, with arrows between them.

    columns: texts of the boxes, from top to bottom; a box is named by the first line of its text, so first lines
        must differ (a blank at the end is enough). arrows: (from, to).
    colours: name of a box → number of its colour in the palette; grey without.

    >>> len(diagram([["image"], ["encoder\\nCNN"]], [("image", "encoder")]).axes[0].texts)
    3
    """
    most, colours = max(map(len, columns)), colours or {}
    fig, (ax,) = start(2.15 * len(columns), 0.95 * most + 0.2)
    boxes = {}
    for x, texts in enumerate(columns):
        for n, text in enumerate(texts):
            name, y = text.split("\n")[0], (most - 1) / 2 + (len(texts) - 1) / 2 - n
            box = {"boxstyle": "round,pad=0.45", "fc": "0.93", "ec": "0.6"}
            if name in colours:
                box |= {"fc": (*COLOURS[colours[name]], 0.25), "ec": COLOURS[colours[name]]}
            boxes[name] = ax.text(x, y, text, ha="center", va="center", bbox=box, fontsize=9, linespacing=1.4)
    ax.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.55, most - 0.45))
    ax.axis("off")
    for tail, head in arrows:
        style = {"arrowstyle": "-|>", "color": "0.35", "shrinkA": 2, "shrinkB": 2}
        style |= {"patchA": boxes[tail].get_bbox_patch(), "patchB": boxes[head].get_bbox_patch()}
        ax.annotate("", boxes[head].get_position(), boxes[tail].get_position(), arrowprops=style)
    return fig


def matrices(tables: Mapping[str, pd.DataFrame], name: str = "", digits: int = 2, width: float = 2.6) -> Figure:
    """Small matrices beside each other, every cell with its number; one scale of colour for all.

    tables: title → matrix; rows and columns are labelled by its index and columns. name: of the numbers. width: of a
    panel, in inches.

    >>> len(matrices({"round 1": pd.DataFrame([[0.5, 0.5]]), "round 2": pd.DataFrame([[1.0, 0.0]])}).axes)
    2
    """
    rows = max(map(len, tables.values()))
    fig, axes = start(width * len(tables) + 0.4, 0.42 * rows + 1.0, columns=len(tables))
    largest = max(float(table.to_numpy().max()) for table in tables.values())
    names: list = []  # of the rows, said where they change
    for ax, (title, table) in zip(axes, tables.items(), strict=True):
        names, before = list(table.index), names
        style = {"cmap": "Blues", "vmin": 0, "vmax": largest, "cbar": False, "annot_kws": {"size": 8}}
        sns.heatmap(table, ax=ax, annot=True, fmt=f".{digits}f", linewidths=0.5, yticklabels=True, **style)
        ax.set_title(title, fontsize=10)
        ax.set(xlabel="", ylabel="")
        ax.tick_params(axis="x", labelrotation=0)
        ax.tick_params(axis="y", labelrotation=0, labelleft=names != before)
    fig.supxlabel(name, fontsize=9)
    return fig


def associations(panels: Mapping[str, tuple[np.ndarray, ...]], columns: int = 3) -> Figure:
    """Two sets of unit vectors in the plane, and which of their elements pull at each other.

    panels: title → (x "k 2", y "l 2", weights "k l", pull of x "k 2", pull of y "l 2"). A line joins two elements, the
    thicker the larger the weight of the pair relative to the largest; an arrow shows where an element is pulled along
    the circle. Arrows are scaled by the longest of their panel; pulls below 1e-6 have none.

    >>> eye = np.eye(2)
    >>> len(associations({"MIL": (eye, eye, eye, 0 * eye, 0 * eye)}).axes)
    1
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    fig, axes = start(2.75 * columns, 2.85 * rows + 0.3, columns=columns, rows=rows)
    circle = np.linspace(0, 2 * np.pi, 200)
    for ax, (title, (x, y, weights, pull_x, pull_y)) in zip(axes, panels.items(), strict=False):
        ax.plot(np.cos(circle), np.sin(circle), color="0.85", lw=1, zorder=0)
        longest = max(np.linalg.norm(np.concatenate([pull_x, pull_y]), axis=1).max(), 1e-4)
        for k, l in np.argwhere(weights > 0):
            share = weights[k, l] / weights.max()
            line = {"color": "0.3", "lw": 3 * share, "alpha": 0.15 + 0.55 * share, "zorder": 1}
            ax.plot(*zip(x[k], y[l], strict=True), **line)
        kinds = (("image", x, pull_x, COLOURS[0], "o", 90), ("caption", y, pull_y, COLOURS[1], "^", 45))
        for item, points, pulls, colour, marker, size in kinds:
            style = {"color": colour, "marker": marker, "edgecolor": "white", "label": f"elements of the {item}"}
            ax.scatter(*points.T, s=size, zorder=3, **style)
            for (px, py), (dx, dy) in zip(points, 0.55 * pulls / longest, strict=True):
                if np.hypot(dx, dy) > 0.01:
                    arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.6, "shrinkA": 0, "shrinkB": 0}
                    ax.annotate("", (px + dx, py + dy), (px, py), arrowprops=arrow, zorder=2)
        ax.set_title(title, fontsize=10)
        ax.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
        ax.axis("off")
    for ax in axes[len(panels) :]:
        ax.remove()
    legend_below(fig, axes[0])
    return fig
