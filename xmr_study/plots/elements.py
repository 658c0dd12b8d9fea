"""Figures about the elements of embedding sets, and of the weights of a pooling."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from xmr_study.plots.style import COLOURS, legend_below, line_style, start, whole_numbers

_SHAPES = {"images": "o", "captions": "^"}


def element_maps(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """One map for each similarity; the colour gives the number of an element in its set, the shape its modality.

    tables: label → columns x, y, modality, element of analysis.element_map. The axes have no unit and no direction.

    >>> table = pd.DataFrame({"x": [0.0, 1.0], "y": 0.0, "modality": ["images", "captions"], "element": [0, 0]})
    >>> len(element_maps({"cosine": table, "MIL": table}).axes)
    2
    """
    columns = min(len(tables), 2)
    rows = -(-len(tables) // columns)
    fig, axes = start(4.4 * columns, 4.1 * rows + 0.3, columns=columns, rows=rows)
    for ax in axes[len(tables) :]:
        ax.remove()
    elements = sorted({e for table in tables.values() for e in table["element"]})
    apart = [colour for n, colour in enumerate(COLOURS) if n != 3]  # the fourth is too near the second for small points
    colours = {e: apart[n % len(apart)] for n, e in enumerate(elements)}
    for ax, (label, table) in zip(axes, tables.items(), strict=False):
        for (modality, element), part in table.groupby(["modality", "element"]):
            style = {"s": 14, "color": colours[element], "marker": _SHAPES[modality]}
            ax.scatter(part["x"], part["y"], alpha=0.6, lw=0, rasterized=True, **style)
        ax.set(title=label, xticks=[], yticks=[])
        ax.set_aspect("equal", adjustable="datalim")
    handles = [Line2D([], [], color=c, marker="s", ls="", label=f"element {e + 1}") for e, c in colours.items()]
    handles += [Line2D([], [], color="0.3", marker=m, ls="", label=name[:-1]) for name, m in _SHAPES.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return fig


def spread_over_training(table: pd.DataFrame) -> Figure:
    """How spread out sets are, epoch by epoch, one panel per modality.

    table: columns variant, epoch (from 1), side (the modality), value (log circular variance). Several seeds of a
    variant are averaged, and a band shows their range.
    """
    modalities = list(dict.fromkeys(table["side"]))
    fig, axes = start(4.4 * len(modalities), 3.4, columns=len(modalities), sharey=True)
    for ax, modality in zip(axes, modalities, strict=True):
        for n, (variant, part) in enumerate(table[table["side"] == modality].groupby("variant", sort=False)):
            line = part.groupby("epoch")["value"].agg(["mean", "min", "max"])
            style = line_style(n) | {"ls": "-"}
            ax.plot(line.index, line["mean"], ms=4, label=variant, **style)
            ax.fill_between(line.index, line["min"], line["max"], color=style["color"], alpha=0.15, lw=0)
        ax.set(title=modality, xlabel="epoch")
        whole_numbers(ax)
    axes[0].set_ylabel("log circular variance of the sets")
    legend_below(fig, axes[0], 2)
    return fig


def elements(table: pd.DataFrame) -> Figure:
    """RSUM of one element alone, and what is lost without it: a panel each. A line shows RSUM of all elements.

    table: columns side (the modality), kept, relevance, rsum (percent) of `element_ablation`. The first relevance
    set is shown.
    """
    kind = table["relevance"].iloc[0]
    shown = table[table["relevance"] == kind]
    complete = shown.loc[shown["side"] == "both", "rsum"].iloc[0]
    modalities = [modality for modality in ("images", "captions") if modality in set(shown["side"])]
    fig, axes = start(8.6, 3.3, columns=2)
    for ax, how in zip(axes, ("only", "without"), strict=True):
        for n, modality in enumerate(modalities):
            part = shown[(shown["side"] == modality) & shown["kept"].str.startswith(how)]
            number = part["kept"].str.split().str[1].astype(int) + 1
            values = part["rsum"] if how == "only" else complete - part["rsum"]
            style = {"color": COLOURS[n], "hatch": "//" * n, "edgecolor": "white", "label": f"elements of {modality}"}
            ax.bar(number + 0.4 * (n - (len(modalities) - 1) / 2), values, 0.38, **style)
        ax.set(xlabel="element", xticks=np.unique(number))
        ax.grid(axis="x", visible=False)
    axes[0].axhline(complete, color="0.2", ls="--", lw=1, label="all elements")
    axes[0].set(title="alone", ylabel=f"RSUM {kind} (of 600)")
    axes[1].set(title="lost without it", ylabel="RSUM (points)")
    legend_below(fig, axes[0], 3)
    return fig


# Figures of how much a pooling lets each rank of a channel count.


def rank_weights(table: pd.DataFrame) -> Figure:
    """The weight of the largest, second largest, … value: a panel for each `panel`, a line for each `label`. Lines that
    coincide stay visible: the first is the widest, and the later ones are thinner and broken.

    table: columns panel, label, rank (from 1), weight.

    >>> table = pd.DataFrame({"panel": "captions", "label": "mean", "rank": [1, 2], "weight": 0.5})
    >>> [ax.get_title() for ax in rank_weights(table).axes]
    ['captions']
    """
    panels = list(dict.fromkeys(table["panel"]))
    fig, axes = start(4.2 * len(panels) + 0.6, 3.6, columns=len(panels), sharey=True)
    labels = list(dict.fromkeys(table["label"]))
    for ax, panel in zip(axes, panels, strict=True):
        for label, part in table[table["panel"] == panel].groupby("label", sort=False):
            n = labels.index(label)
            every = max(len(part) // 12, 1)
            style = line_style(n) | ({"lw": 1.5} if n else {"lw": 4, "alpha": 0.5})
            ax.plot(part["rank"], part["weight"], label=label, markevery=(n % every, every), ms=5, **style)
        ax.set(title=panel, xlabel="rank of the value in its channel")
        whole_numbers(ax)
    axes[0].set_ylabel("weight")
    legend_below(fig, axes[0], columns=min(len(labels), 4))
    return fig
