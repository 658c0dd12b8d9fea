"""Figures of runs beside each other: a swept setting, variants, curves over training."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from xmr_core.ui.plots.style import COLOURS, MARKERS, start


def ablation(ours: pd.DataFrame, published: pd.DataFrame, x: str, symbol: str, log_x: bool = True) -> Figure:
    """Ours and the paper's curve over one swept setting, each on an axis of its own: they are other data, only shapes compare.

    ours: columns x, seed, rsum (percent points, 0–600). published: columns x, rsum, from `source`.
    Points are seeds, the line their mean, the band its 95 % interval (columns low and high; over pictures with one seed).
    """
    fig, axes = start(8.6, 3.6, columns=2)
    mean = ours.groupby(x)["rsum"].mean()
    if ours.groupby(x).size().max() > 1:
        axes[0].scatter(ours[x], ours["rsum"], s=18, color=COLOURS[0], alpha=0.5, label="one seed", zorder=3)
        axes[0].plot(mean.index, mean, color=COLOURS[0], marker="o", label="mean over seeds")
    else:
        axes[0].plot(mean.index, mean, color=COLOURS[0], marker="o", label="one seed")
    if "low" in ours:
        band = ours.groupby(x)[["low", "high"]].first().dropna()
        axes[0].fill_between(band.index, band["low"], band["high"], color=COLOURS[0], alpha=0.18, label="95 % interval", lw=0)
    axes[0].set(title="ours", xlabel=symbol, ylabel="RSUM (sum of six recalls, %)")
    axes[1].plot(published[x], published["rsum"], color=COLOURS[1], marker="s", ls="--", label="published")
    axes[1].set(title=published["source"].iloc[0], xlabel=symbol, ylabel="RSUM (%)")
    for ax in axes:
        if log_x:
            ax.set_xscale("log", base=2)
        ax.set_xticks(sorted(set(ours[x]) | set(published[x])))  # only values that were tried
        ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        ax.legend(frameon=False)
    return fig


def variants(table: pd.DataFrame, metrics: Sequence[str] = ("rsum annotated", "rsum exhaustive")) -> Figure:
    """Mean and 95 % interval of each variant, one panel per metric. table: columns variant, then 'm', 'm low', 'm high' per metric m."""
    fig, axes = start(4.4 * len(metrics), 0.5 * len(table) + 1.4, columns=len(metrics), sharey=True)
    y = np.arange(len(table))[::-1]
    for ax, metric in zip(axes, metrics, strict=True):
        low, high = table[f"{metric} low"].fillna(table[metric]), table[f"{metric} high"].fillna(table[metric])
        ax.errorbar(table[metric], y, xerr=[table[metric] - low, high - table[metric]], fmt="o", color=COLOURS[0], capsize=3, lw=1.5)
        ax.set(xlabel=metric.replace("rsum", "RSUM (%),"), yticks=y, yticklabels=table["variant"])
        ax.margins(y=0.15)
    return fig


def learning_curves(history: pd.DataFrame) -> Figure:
    """Loss per epoch and validation RSUM per epoch of one run. history: columns epoch, loss, value (fraction sum)."""
    fig, axes = start(8.6, 3.2, columns=2)
    axes[0].plot(history["epoch"] + 1, history["loss"], marker="o", color=COLOURS[0])
    axes[0].set(xlabel="epoch", ylabel="training loss")
    axes[1].plot(history["epoch"] + 1, 100 * history["value"], marker="o", color=COLOURS[2])
    axes[1].set(xlabel="epoch", ylabel="validation RSUM (%)")
    for ax in axes:
        ax.xaxis.get_major_locator().set_params(integer=True)
    return fig


def spread_over_training(table: pd.DataFrame) -> Figure:
    """How spread out sets are, epoch by epoch, one panel per side. table: columns variant, epoch (from 1), side, value (log circular variance).

    Several seeds of a variant are averaged, with their range as a band.
    """
    sides = list(dict.fromkeys(table["side"]))
    fig, axes = start(4.4 * len(sides), 3.4, columns=len(sides), sharey=True)
    for ax, side in zip(axes, sides, strict=True):
        for n, (variant, part) in enumerate(table[table["side"] == side].groupby("variant", sort=False)):
            line = part.groupby("epoch")["value"].agg(["mean", "min", "max"])
            colour = COLOURS[n % len(COLOURS)]
            ax.plot(line.index, line["mean"], color=colour, marker=MARKERS[n % len(MARKERS)], ms=4, label=variant)
            ax.fill_between(line.index, line["min"], line["max"], color=colour, alpha=0.15, lw=0)
        ax.set(title=side, xlabel="epoch")
        ax.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel("log circular variance of the sets")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return fig


def elements(table: pd.DataFrame) -> Figure:
    """RSUM of one element alone and of all but one, a panel per side, the whole set as a line.

    table: columns side, kept, relevance, rsum (percent) of analysis.element_subsets; the first relevance is shown.
    """
    kind = table["relevance"].iloc[0]
    shown = table[table["relevance"] == kind]
    whole = shown.loc[shown["side"] == "both", "rsum"].iloc[0]
    sides = [side for side in ("images", "captions") if side in set(shown["side"])]
    fig, axes = start(4.3 * len(sides), 3.3, columns=len(sides), sharey=True)
    for ax, side in zip(axes, sides, strict=True):
        part = shown[shown["side"] == side].assign(number=lambda t: t["kept"].str.split().str[1].astype(int) + 1)
        for how, shift, colour, hatch in (("only", -0.2, COLOURS[0], ""), ("without", 0.2, COLOURS[1], "//")):
            rows = part[part["kept"].str.startswith(how)]
            ax.bar(rows["number"] + shift, rows["rsum"], 0.38, color=colour, hatch=hatch, edgecolor="white", label=f"{how} this element")
        ax.axhline(whole, color="0.2", ls="--", lw=1, label="all elements")
        ax.set(title=f"elements of {side}", xlabel="element", xticks=sorted(set(part["number"])))
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel(f"RSUM {kind} (%)")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return fig
