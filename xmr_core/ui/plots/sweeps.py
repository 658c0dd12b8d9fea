"""Figures of runs beside each other: a swept setting, variants, and curves over training."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from xmr_core.ui.plots.style import COLOURS, plain_numbers, start, whole_numbers


def ablation(
    ours: pd.DataFrame, published: pd.DataFrame | None, x: str, symbol: str, log_x: bool = True, printed: str = ""
) -> Figure:
    """Our curve over one swept setting beside the paper's. The data differ, so each has its own axis: compare the
    shapes.

    Args:
        ours: columns x, seed, rsum (percent, 0–600). Points are seeds, the line is their mean, and a band shows the 95
            % interval in columns low and high, if there are any (over images where there is one seed).
        published: columns x (or `printed`, if it has another name), rsum, source; None for a curve that no paper has,
            and one panel. symbol: label of the horizontal axis.

    >>> table = pd.DataFrame({"alpha": [1, 4], "seed": 0, "rsum": [100.0, 120.0], "source": "Table 4"})
    >>> [ax.get_title() for ax in ablation(table, table, "alpha", "α").axes]
    ['ours', 'Table 4']
    """
    panels = 1 if published is None else 2
    fig, axes = start(4.3 * panels, 3.6, columns=panels)
    mean = ours.groupby(x)["rsum"].mean()
    several = ours.groupby(x).size().max() > 1
    if several:
        axes[0].scatter(ours[x], ours["rsum"], s=18, color=COLOURS[0], alpha=0.5, label="one seed", zorder=3)
    axes[0].plot(mean.index, mean, color=COLOURS[0], marker="o", label="mean over seeds" if several else "one seed")
    if "low" in ours:
        band = ours.groupby(x)[["low", "high"]].first().dropna()
        style = {"color": COLOURS[0], "alpha": 0.18, "label": "95 % interval", "lw": 0}
        axes[0].fill_between(band.index, band["low"], band["high"], **style)
    axes[0].set(title="ours", xlabel=symbol, ylabel="RSUM (sum of six recalls, %)")
    tried = set(ours[x])
    if published is not None:
        theirs = published[printed or x]
        axes[1].plot(theirs, published["rsum"], color=COLOURS[1], marker="s", ls="--", label="published")
        axes[1].set(title=published["source"].iloc[0], xlabel=symbol, ylabel="RSUM (%)")
        tried |= set(theirs)
    for ax in axes:
        if log_x:
            ax.set_xscale("log", base=2)
        plain_numbers(ax, tried)
        ax.legend(frameon=False)
    return fig


def variants(table: pd.DataFrame, metrics: Sequence[str] = ("rsum annotated", "rsum exhaustive")) -> Figure:
    """Mean and 95 % interval of each variant, one panel per metric; a line below says what the bars are.

    table: columns variant, then 'm', 'm low', 'm high' for each metric m; an interval that is NaN is not drawn, and a
    panel without one needs no such line (study.seed_means).

    >>> len(variants(pd.DataFrame({"variant": ["a"], "m": [1.0], "m low": [0.5], "m high": [1.5]}), ["m"]).axes)
    1
    """
    fig, axes = start(4.4 * len(metrics), 0.5 * len(table) + 1.4, columns=len(metrics), sharey=True)
    y = np.arange(len(table))[::-1]
    for ax, metric in zip(axes, metrics, strict=True):
        value = table[metric]
        low, high = (table[f"{metric} {end}"].fillna(value) for end in ("low", "high"))
        ax.errorbar(value, y, xerr=[value - low, high - value], fmt="o", color=COLOURS[0], capsize=3, lw=1.5)
        ax.set(xlabel=metric.replace("rsum", "RSUM (%),"), yticks=y, yticklabels=table["variant"])
        ax.set_ylim(-0.6, len(table) - 0.4)
    if table[[f"{metric} {end}" for metric in metrics for end in ("low", "high")]].notna().any(axis=None):
        fig.supxlabel("bars: 95 % intervals over seeds, or over test images where there is one seed", fontsize=9)
    return fig


def learning_curves(history: pd.DataFrame) -> Figure:
    """Training loss and validation RSUM of one run by epoch. history: columns epoch (from 0), loss, value (RSUM in [0,
    6]).

    >>> len(learning_curves(pd.DataFrame({"epoch": [0, 1], "loss": [2.0, 1.0], "value": [0.1, 0.5]})).axes)
    2
    """
    fig, axes = start(8.6, 3.2, columns=2)
    axes[0].plot(history["epoch"] + 1, history["loss"], marker="o", color=COLOURS[0])
    axes[0].set(xlabel="epoch", ylabel="training loss")
    axes[1].plot(history["epoch"] + 1, 100 * history["value"], marker="o", color=COLOURS[2])
    axes[1].set(xlabel="epoch", ylabel="validation RSUM (%)")
    for ax in axes:
        whole_numbers(ax)
    return fig
