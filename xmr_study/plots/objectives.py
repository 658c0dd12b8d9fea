"""Figures of what a loss does, and of runs beside each other."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from xmr_study.plots.style import COLOURS, legend_below, line_style, plain_numbers, start, whole_numbers


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


# Figures of runs beside each other: a swept setting, variants, and curves over training.


def ablation(
    ours: pd.DataFrame, published: pd.DataFrame | None, x: str, symbol: str, log_x: bool = True, printed: str = "",
    settled: pd.DataFrame | None = None,
) -> Figure:  # fmt: skip
    """Our curve over one swept setting beside the paper's. The data differ, so each has its own axis: compare the
    shapes.

    Args:
        ours: columns x, seed, rsum (percent, 0–600). Points are seeds, the line is their mean, and bars show the 95
            % interval in columns low and high, if there are any (over images where there is one seed).
        published: columns x (or `printed`, if it has another name), rsum, source; None for a curve that no paper has,
            and one panel. symbol: label of the horizontal axis.
        settled: the study's curve (columns setting, rsum, low, high), as a grey band under ours.

    >>> table = pd.DataFrame({"alpha": [1, 4], "seed": 0, "rsum": [100.0, 120.0], "source": "Table 4"})
    >>> [ax.get_title() for ax in ablation(table, table, "alpha", "α").axes]
    ['measured here', 'Table 4']
    """
    panels = 1 if published is None else 2
    fig, axes = start(4.3 * panels, 3.6, columns=panels)
    mean = ours.groupby(x)["rsum"].mean()
    several = ours.groupby(x).size().max() > 1
    if several:
        axes[0].scatter(ours[x], ours["rsum"], s=18, color=COLOURS[0], alpha=0.5, label="one training", zorder=3)
    shown = "mean over seeds" if several else "this run, one seed"
    axes[0].plot(mean.index, mean, color=COLOURS[0], marker="o", label=shown)
    if "low" in ours:
        band = ours.groupby(x)[["low", "high"]].first().dropna()
        style = {"color": COLOURS[0], "label": "95 % interval", "lw": 1.5}
        axes[0].vlines(band.index, band["low"], band["high"], **style)
    if settled is not None and len(settled):
        mean_of = settled.groupby("setting")[["rsum", "low", "high"]].mean()
        axes[0].fill_between(mean_of.index, mean_of["low"], mean_of["high"], color="0.85", lw=0, zorder=0)
        axes[0].plot(mean_of.index, mean_of["rsum"], color="0.5", lw=1.2, label="the study, long training", zorder=1)
    axes[0].set(title="measured here", xlabel=symbol, ylabel="RSUM (of 600)")
    tried = set(ours[x])
    if published is not None:
        theirs = published[printed or x]
        axes[1].plot(theirs, published["rsum"], color=COLOURS[1], marker="s", ls="--", label="published")
        axes[1].set(title=published["source"].iloc[0], xlabel=symbol, ylabel="RSUM (of 600)")
        tried |= set(theirs)
    for ax in axes:
        if log_x:
            ax.set_xscale("log", base=2)
        plain_numbers(ax, tried)
        ax.legend(loc="best", fontsize=8, framealpha=0.8, edgecolor="none")
    return fig


def variants(table: pd.DataFrame, metrics: Sequence[str] = ("rsum annotated", "rsum exhaustive")) -> Figure:
    """Mean and 95 % interval of each variant, one panel per metric, and where it has none; a line below says what the
    bars are.

    table: columns variant, then 'm', 'm low', 'm high' for each metric m; an interval that is NaN is not drawn, and a
    panel without one needs no such line (study.seed_means).

    >>> len(variants(pd.DataFrame({"variant": ["a"], "m": [1.0], "m low": [0.5], "m high": [1.5]}), ["m"]).axes)
    1
    """
    fig, axes = start(3.2 * len(metrics) + 1.2, 0.28 * len(table) + 1.2, columns=len(metrics), sharey=True)
    y = np.arange(len(table))[::-1]
    for ax, metric in zip(axes, metrics, strict=True):
        value = table[metric]
        low, high = (table[f"{metric} {end}"].fillna(value) for end in ("low", "high"))
        ax.errorbar(value, y, xerr=[value - low, high - value], fmt="o", color=COLOURS[0], capsize=3, lw=1.5)
        which = metric.removeprefix("rsum").replace("exhaustive", "all true answers").strip()
        named = f"RSUM (%){which and ', '}{which}" if metric.startswith("rsum") else metric
        ax.set(xlabel=named, yticks=y, yticklabels=table["variant"])
        ax.set_ylim(-0.6, len(table) - 0.4)
        for none in y[value.isna()]:
            at = {"transform": ax.get_yaxis_transform(), "ha": "center", "va": "center"}
            ax.text(0.5, none, "no rows", color="0.5", fontsize=8, bbox={"fc": "white", "ec": "none", "pad": 1}, **at)
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
