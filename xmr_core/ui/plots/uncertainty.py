"""Figures about ambiguity and uncertainty."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from xmr_core.ui.plots.style import COLOURS, DIRECTIONS, SIDES, start


def ambiguity(counts: dict[str, np.ndarray], gallery_size: int) -> Figure:
    """How many pictures a caption fits, as the share of captions that fit more than n. counts: label → pictures per caption."""
    fig, (ax,) = start(5.6, 3.4)
    for (label, n), colour, style in zip(counts.items(), COLOURS, ("-", "--", ":", "-."), strict=False):
        ordered = np.sort(n)
        ax.step(ordered, 1 - np.arange(len(n)) / len(n), where="post", label=label, color=colour, ls=style)
    ax.set(xscale="log", yscale="log", xlabel=f"pictures a caption fits (of {gallery_size:,})", ylabel="share of captions that fit as many")
    ax.legend(frameon=False, title="ambiguity")
    return fig


def recall_by_bin(
    tables: Mapping[str, pd.DataFrame], xlabel: str = "uncertainty of the query, in ten bins", ylabel: str = "R@1 (%)"
) -> Figure:
    """Mean and 95 % interval of each bin. tables: direction → bins of analysis.uncertainty.in_bins, values as fractions."""
    fig, axes = start(4.2 * len(tables), 3.3, columns=len(tables), sharey=True)
    for ax, (direction, bins) in zip(axes, tables.items(), strict=True):
        value, low, high = (100 * bins[c] for c in ("value", "low", "high"))
        ax.bar(bins["bin"], value, color=SIDES.get(direction, COLOURS[0]), alpha=0.75, width=0.8)
        ax.errorbar(bins["bin"], value, yerr=[value - low, high - value], fmt="none", ecolor="0.25", capsize=3, lw=1)
        ax.set(title=DIRECTIONS.get(direction, direction), xlabel=xlabel, xticks=bins["bin"])
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel(ylabel)
    return fig


def against_truth(table: pd.DataFrame, x: str, y: str, xlabel: str, ylabel: str) -> Figure:
    """Each query as a point, one panel per direction, with the median of y for groups of x. table: columns direction, x, y."""
    directions = list(dict.fromkeys(table["direction"]))
    fig, axes = start(4.2 * len(directions), 3.3, columns=len(directions), sharey=True)
    for ax, direction in zip(axes, directions, strict=True):
        part = table[table["direction"] == direction]
        edges = np.unique(np.quantile(part[x], np.linspace(0, 1, 9)))
        group = np.clip(np.searchsorted(edges, part[x], side="right") - 1, 0, max(0, len(edges) - 2))
        middle = part.groupby(group)[[x, y]].median()
        ax.scatter(part[x], part[y], s=6, alpha=0.25, color=SIDES.get(direction, COLOURS[0]), lw=0, rasterized=True)
        ax.plot(middle[x], middle[y], color="0.15", marker="o", ms=4, label="median of an eighth of the queries")
        ax.set(title=DIRECTIONS.get(direction, direction), xlabel=xlabel, xscale="log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
    axes[0].set_ylabel(ylabel)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", frameon=False)
    return fig


def corruption(table: pd.DataFrame, ylabel: str) -> Figure:
    """Mean and 95 % interval over the share that was corrupted. table: columns share, side ('images', 'captions'), value, low, high."""
    sides = list(dict.fromkeys(table["side"]))
    fig, axes = start(4.2 * len(sides), 3.3, columns=len(sides))
    what = {"images": "share of the picture erased", "captions": "share of the words blanked"}
    for ax, side in zip(axes, sides, strict=True):
        part = table[table["side"] == side]
        ax.fill_between(part["share"], part["low"], part["high"], color=SIDES[side], alpha=0.2, lw=0, label="95 % interval")
        ax.plot(part["share"], part["value"], color=SIDES[side], marker="o", ms=4, label="mean")
        ax.set(title=side, xlabel=f"{what[side]} (%)", xticks=part["share"])
        ax.xaxis.set_major_formatter(lambda v, _: f"{100 * v:g}")
        ax.legend(frameon=False)
    axes[0].set_ylabel(ylabel)
    return fig


def distances(table: pd.DataFrame, by_samples: pd.DataFrame, metric: str = "R-Precision (%)") -> Figure:
    """Quality of test-time distances against what they store, and of match probability against the number of samples.

    table: columns distance, numbers (per item), value. by_samples: columns samples, value; closed forms stay as lines.
    """
    fig, (left, right) = start(9.6, 3.9, columns=2)
    shown = table.sort_values("value", ascending=False).reset_index(drop=True)
    for n, row in shown.iterrows():
        left.scatter(
            row["value"],
            len(shown) - n,
            color=COLOURS[0 if row["numbers"] == shown["numbers"].min() else 1 if row["numbers"] <= 2 * shown["numbers"].min() else 2],
            zorder=3,
        )
    left.set(yticks=np.arange(len(shown), 0, -1), xlabel=metric)
    left.set_yticklabels([f"{r.distance}  ({r.numbers})" for r in shown.itertuples()], fontsize=8)
    left.set_title("all distances (numbers stored per item)", fontsize=10)
    right.plot(by_samples["samples"], by_samples["value"], marker="o", color=COLOURS[2], label="match probability, J samples")
    for style, colour, name in (("--", COLOURS[0], "mean only"), (":", COLOURS[1], "2-Wasserstein"), ("-.", COLOURS[3], "ELK")):
        if name in set(table["distance"]):
            right.axhline(table.set_index("distance").loc[name, "value"], ls=style, color=colour, label=name)
    right.set(xscale="log", xlabel="samples J at test time", ylabel=metric, xticks=by_samples["samples"])
    right.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    right.minorticks_off()
    right.legend(frameon=False, fontsize=8)
    return fig


def agreement(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Kendall's τ of proxies with the truth, one panel per table. tables: title → columns proxy, tau."""
    order = list(dict.fromkeys(p for table in tables.values() for p in table["proxy"]))[::-1]
    fig, axes = start(4.4 * len(tables), 0.34 * len(order) + 1.2, columns=len(tables), sharey=True)
    for ax, (title, table), colour in zip(axes, tables.items(), COLOURS, strict=False):
        tau = table.set_index("proxy")["tau"].reindex(order)
        ax.barh(range(len(order)), tau, color=colour, alpha=0.8, height=0.6)
        ax.set(title=title, xlabel="Kendall's τ with the truth", yticks=range(len(order)), xlim=(min(0, tau.min() - 0.05), 1))
        ax.set_yticklabels(order)
        ax.axvline(0, color="0.3", lw=0.8)
        ax.grid(axis="y", visible=False)
    return fig
