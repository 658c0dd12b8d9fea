"""Figures of normal distributions, and of ambiguity and uncertainty."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from matplotlib.ticker import LogLocator, NullFormatter

from xmr_study.plots.style import (
    COLOURS,
    DIRECTIONS,
    QUERY_COLOURS,
    legend_below,
    line_style,
    plain_numbers,
    start,
    whole_numbers,
)

_FEW = 12  # rows of a table that are points, and no curve


def regions(
    panels: Mapping[str, Sequence[tuple[str, np.ndarray, np.ndarray, float]]], dashed: Collection[str] = ()
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
    tables: title → table with the variants as index and one column for each marker; columns low and high are the
    interval of the last marker.

    >>> table = pd.DataFrame({"i2t": [1.0, 2.0], "t2i": [1.5, 1.0]}, index=["a", "b"])
    >>> [ax.get_title() for ax in beside_print({"ours": table, "print": table}, "R-P").axes]
    ['ours', 'print']
    >>> ends = table[["i2t"]].assign(low=[0.5, 1.5], high=[1.5, 2.5])
    >>> beside_print({"ours": ends}, "R-P").axes[0].collections[0].get_segments()[0][:, 0].tolist()
    [0.5, 1.5]
    """
    order = list(dict.fromkeys(name for table in tables.values() for name in table.index))
    fig, axes = start(4.6 * len(tables) + 0.8, 0.42 * len(order) + 1.7, columns=len(tables), sharey=True)
    heights = np.arange(len(order))[::-1]
    for ax, (title, table) in zip(axes, tables.items(), strict=True):
        ends, table = table.filter(["low", "high"]).reindex(order), table.drop(columns=["low", "high"], errors="ignore")
        for n, (column, values) in enumerate(table.items()):
            ax.plot(values.reindex(order), heights, ms=7, label=column, **line_style(n) | {"ls": ""})
        if len(ends.columns):
            ax.hlines(heights, ends["low"], ends["high"], colors=line_style(n)["color"], lw=1.2)
        ax.set(title=title, xlabel=xlabel, yticks=heights, yticklabels=order, ylim=(-1.4, len(order) - 0.4))
        if np.nanmin(table.to_numpy(float)) < 0:
            ax.axvline(0, color="0.4", lw=1)
        ax.legend(loc="lower center", ncols=len(table.columns), frameon=False, fontsize=8)
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


# Figures about ambiguity and uncertainty.


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
    plain_numbers(ax, [1, 10, 100, gallery_size])
    ax.set_xlabel(f"images a caption fits (of {gallery_size:,})")
    ax.legend(frameon=False, title="ambiguity")
    return fig


def recall_by_bin(
    tables: Mapping[str, pd.DataFrame], xlabel: str = "uncertainty of the query, in ten bins", ylabel: str = "R@1 (%)"
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
        label = f"median, where an eighth of the axis has {_LEAST} queries or more"
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

    table: columns distance, numbers (stored per item), value. by_samples: columns samples, value. Two closed forms
    are lines beside the samples. noise: two standard deviations of match probability over draws of samples,
    drawn as bars.
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
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)
    left.set(yticks=heights, xlabel=metric)
    left.set_yticklabels([f"{r.distance}  ({r.numbers})" for r in shown.itertuples()], fontsize=8)
    left.set_title("all distances (numbers stored per item)", fontsize=10)
    samples, values = by_samples["samples"], by_samples["value"]
    drawn = "match probability, ± 2 standard deviations over draws"
    right.errorbar(samples, values, noise, marker="o", color=COLOURS[2], capsize=3, label=drawn)
    closed_forms = {"mean only": ("--", COLOURS[0]), "2-Wasserstein": (":", COLOURS[1])}
    for name, (style, colour) in closed_forms.items():
        if name in set(table["distance"]):
            right.axhline(table.set_index("distance").loc[name, "value"], ls=style, color=colour, label=name)
    apart = max(0.5, 1.5 * np.ptp(values))  # an axis of less would make a shape of noise
    right.set(xscale="log", xlabel="samples J at test time", ylabel=metric)
    right.set_ylim(values.mean() - apart, values.mean() + apart)
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
