"""Figures of how much a pooling lets each rank of a channel count."""

import pandas as pd
from matplotlib.figure import Figure

from xmr_core.ui.plots.style import legend_below, line_style, start, whole_numbers


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
