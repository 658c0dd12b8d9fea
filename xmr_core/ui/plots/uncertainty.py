"""Figures about ambiguity and uncertainty."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from xmr_core.ui.plots.style import COLOURS, DIRECTIONS, QUERY_COLOURS, legend_below, line_style, plain_numbers, start


def ambiguity(counts: Mapping[str, np.ndarray], gallery_size: int) -> Figure:
    """How many images a caption fits, as the share of captions that fit at least n. counts: label → images per
    caption.

    >>> ambiguity({"test": np.array([1, 1, 3])}, 100).axes[0].get_xlabel()
    'images a caption fits (of 100)'
    """
    fig, (ax,) = start(5.6, 3.4)
    for number, (label, n) in enumerate(counts.items()):
        style = line_style(number) | {"marker": ""}
        ax.step(np.sort(n), 1 - np.arange(len(n)) / len(n), where="pre", label=label, **style)
    ax.set(xscale="log", yscale="log", ylabel="share of captions that fit\nat least as many")
    ax.set_xlabel(f"images a caption fits (of {gallery_size:,})")
    ax.legend(frameon=False, title="ambiguity")
    return fig


def recall_by_bin(
    tables: Mapping[str, pd.DataFrame],
    xlabel: str = "uncertainty of the query, in ten bins",
    ylabel: str = "R@1 (%)",
) -> Figure:
    """Mean and 95 % interval of each bin. tables: direction → bins of analysis.in_bins, with values as fractions.

    >>> bins = pd.DataFrame({"bin": [1, 2], "value": [0.5, 0.2], "low": [0.4, 0.1], "high": [0.6, 0.3]})
    >>> recall_by_bin({"t2i": bins}).axes[0].get_title()
    'caption → images'
    """
    fig, axes = start(4.2 * len(tables), 3.3, columns=len(tables), sharey=True)
    for ax, (direction, bins) in zip(axes, tables.items(), strict=True):
        value, low, high = (100 * bins[c] for c in ("value", "low", "high"))
        colour = QUERY_COLOURS.get(direction, COLOURS[0])
        ax.bar(bins["bin"], value, color=colour, alpha=0.75, width=0.8, label="mean of the bin")
        errors = {"yerr": [value - low, high - value], "fmt": "none", "ecolor": "0.25", "capsize": 3, "lw": 1}
        ax.errorbar(bins["bin"], value, **errors, label="95 % interval over resampled images")
        ax.set(title=DIRECTIONS.get(direction, direction), xlabel=xlabel, xticks=bins["bin"])
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel(ylabel)
    legend_below(fig, axes[0], columns=2)
    return fig


_LEAST = 5  # queries, of which a median is shown


def against_truth(table: pd.DataFrame, x: str, y: str, xlabel: str, ylabel: str) -> Figure:
    """Each query as a point, one panel per direction, with the medians of x and y in each eighth of the axis of x that
    has five queries or more.

    table: columns direction, x, y; x must be positive, because its axis is logarithmic.

    >>> table = pd.DataFrame({"direction": "t2i", "n": [1, 2, 3, 4], "u": [0.1, 0.2, 0.3, 0.4]})
    >>> len(against_truth(table, "n", "u", "right answers", "uncertainty").axes)
    1
    """
    directions = list(dict.fromkeys(table["direction"]))
    fig, axes = start(4.2 * len(directions), 3.3, columns=len(directions), sharey=True)
    for ax, direction in zip(axes, directions, strict=True):
        part = table[table["direction"] == direction]
        edges = np.geomspace(part[x].min(), part[x].max(), 9)[1:-1]  # equal counts would merge at one answer
        groups = part.groupby(np.searchsorted(edges, part[x], side="right"))[[x, y]]
        middle = groups.median()[groups.size() >= _LEAST]
        colour = QUERY_COLOURS.get(direction, COLOURS[0])
        ax.scatter(part[x], part[y], s=6, alpha=0.25, color=colour, lw=0, rasterized=True)
        label = f"medians in eighths of the axis with at least {_LEAST} queries"
        ax.plot(middle[x], middle[y], color="0.15", marker="o", ms=4, label=label)
        ax.set(title=DIRECTIONS.get(direction, direction), xlabel=xlabel, xscale="log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        plain_numbers(ax)
        ax.xaxis.set_minor_formatter(NullFormatter())
    axes[0].set_ylabel(ylabel)
    legend_below(fig, axes[0])
    return fig


def corruption(table: pd.DataFrame, ylabel: str) -> Figure:
    """Mean and 95 % interval over the share that was corrupted, one panel per modality. The vertical axes have one
    length and places of their own, so that slopes compare.

    table: columns share, side (the modality: 'images' or 'captions'), value, low, high of
    analysis.corrupted_uncertainty.

    >>> table = pd.DataFrame({"side": "images", "share": [0.0, 1.0], "value": [1.0, 2.0], "low": 0.5, "high": 2.5})
    >>> corruption(table, "mean log σ").axes[0].get_xlabel()
    'share of the image erased (%)'
    """
    modalities = list(dict.fromkeys(table["side"]))
    fig, axes = start(4.2 * len(modalities), 3.5, columns=len(modalities))
    labels = {"images": "share of the image erased (%)", "captions": "share of the words blanked (%)"}
    for ax, modality in zip(axes, modalities, strict=True):
        part, colour = table[table["side"] == modality], QUERY_COLOURS[modality]
        ax.fill_between(part["share"], part["low"], part["high"], color=colour, alpha=0.2, lw=0, label="95 % interval")
        ax.plot(part["share"], part["value"], color=colour, marker="o", ms=4, label="mean")
        ax.set(title=modality, xlabel=labels[modality], xticks=part["share"])
        ax.xaxis.set_major_formatter(lambda v, _: f"{100 * v:g}")
        ax.legend(frameon=False)
    tallest = max(np.ptp(ax.get_ylim()) for ax in axes)
    for ax in axes:
        middle = sum(ax.get_ylim()) / 2
        ax.set_ylim(middle - tallest / 2, middle + tallest / 2)
    axes[0].set_ylabel(ylabel)
    if len(axes) > 1:
        fig.supxlabel("The vertical axes have the same length, and begin at different values.", fontsize=9)
    return fig


def distances(
    table: pd.DataFrame, by_samples: pd.DataFrame, metric: str = "R-Precision (%)", noise: float = 0.0
) -> Figure:
    """Quality of test-time distances against what they store, and of match probability against the number of samples.

    table: columns distance, numbers (stored per item), value. by_samples: columns samples, value. Three closed forms
    are lines beside the samples. noise: two standard deviations of match probability over draws of samples,
    drawn as a bar.
    """
    fig, (left, right) = start(9.6, 4.2, columns=2)
    shown = table.sort_values("value", ascending=False).reset_index(drop=True)
    heights, least = np.arange(len(shown), 0, -1), shown["numbers"].min()
    for y, value, numbers in zip(heights, shown["value"], shown["numbers"], strict=True):
        left.scatter(value, y, color=COLOURS[0 if numbers == least else 1 if numbers <= 2 * least else 2], zorder=3)
    kinds = ("the mean", "the mean and σ", "samples")
    handles = [
        Line2D([], [], color=COLOURS[n], marker="o", ls="", label=f"reads {kind}") for n, kind in enumerate(kinds)
    ]
    if noise:
        (place,) = np.flatnonzero(shown["distance"] == "match probability")
        left.errorbar(shown["value"][place], heights[place], xerr=noise, color=COLOURS[2], capsize=3, lw=1.5)
        handles.append(Line2D([], [], color=COLOURS[2], label="± 2 standard deviations over draws of samples"))
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)
    left.set(yticks=heights, xlabel=metric)
    left.set_yticklabels([f"{r.distance}  ({r.numbers})" for r in shown.itertuples()], fontsize=8)
    left.set_title("all distances (numbers stored per item)", fontsize=10)
    samples = by_samples["samples"]
    right.plot(samples, by_samples["value"], marker="o", color=COLOURS[2], label="match probability, J samples")
    closed_forms = {"mean only": ("--", COLOURS[0]), "2-Wasserstein": (":", COLOURS[1]), "ELK": ("-.", COLOURS[3])}
    for name, (style, colour) in closed_forms.items():
        if name in set(table["distance"]):
            right.axhline(table.set_index("distance").loc[name, "value"], ls=style, color=colour, label=name)
    right.set(xscale="log", xlabel="samples J at test time", ylabel=metric)
    plain_numbers(right, samples)
    right.legend(frameon=False, fontsize=8)
    return fig


def agreement(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Kendall's τ of metrics with the truth, one panel per table. tables: title → columns benchmark, tau.

    >>> len(agreement({"methods": pd.DataFrame({"benchmark": ["a", "b"], "tau": [0.9, -0.2]})}).axes)
    1
    """
    order = list(dict.fromkeys(name for table in tables.values() for name in table["benchmark"]))[::-1]
    heights = range(len(order))
    fig, axes = start(4.4 * len(tables), 0.34 * len(order) + 1.2, columns=len(tables), sharey=True)
    for ax, (title, table), colour in zip(axes, tables.items(), COLOURS, strict=False):
        tau = table.set_index("benchmark")["tau"].reindex(order)
        ax.barh(heights, tau, color=colour, alpha=0.8, height=0.6)
        ax.set(title=title, xlabel="Kendall's τ with the truth", yticks=heights, xlim=(min(0, tau.min() - 0.05), 1))
        ax.set_yticklabels(order)
        ax.axvline(0, color="0.3", lw=0.8)
        ax.grid(axis="y", visible=False)
    return fig
