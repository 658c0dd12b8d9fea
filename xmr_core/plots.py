"""DataFrame in, Figure out. One order, one colour and one marker per method, so that figures can be laid side by side."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from xmr_core.data.batches import Side
from xmr_core.types import Corpus

METRIC_NAMES = {"rsum": "RSUM", "recall": "R@", "r_precision": "R-Precision", "map_at_r": "mAP@R"}
_COLOURS = sns.color_palette("colorblind")


def _start(width: float = 7.0, height: float = 3.6, columns: int = 1, **options) -> tuple[Figure, np.ndarray]:
    sns.set_theme(style="whitegrid", context="notebook", font_scale=0.85)
    fig, axes = plt.subplots(1, columns, figsize=(width, height), layout="constrained", **options)
    return fig, np.atleast_1d(axes)


def ablation(ours: pd.DataFrame, published: pd.DataFrame, x: str, symbol: str, log_x: bool = True) -> Figure:
    """Ours and the paper's curve over one swept setting, each on an axis of its own: they are other data, only shapes compare.

    ours: columns x, seed, rsum (percent points, 0–600). published: columns x, rsum, from `source`.
    Points are seeds, the line their mean, the band its 95 % interval (columns low and high; over pictures with one seed).
    """
    fig, axes = _start(8.6, 3.6, columns=2)
    mean = ours.groupby(x)["rsum"].mean()
    if ours.groupby(x).size().max() > 1:
        axes[0].scatter(ours[x], ours["rsum"], s=18, color=_COLOURS[0], alpha=0.5, label="one seed", zorder=3)
        axes[0].plot(mean.index, mean, color=_COLOURS[0], marker="o", label="mean over seeds")
    else:
        axes[0].plot(mean.index, mean, color=_COLOURS[0], marker="o", label="one seed")
    if "low" in ours:
        band = ours.groupby(x)[["low", "high"]].first().dropna()
        axes[0].fill_between(band.index, band["low"], band["high"], color=_COLOURS[0], alpha=0.18, label="95 % interval", lw=0)
    axes[0].set(title="ours", xlabel=symbol, ylabel="RSUM (sum of six recalls, %)")
    axes[1].plot(published[x], published["rsum"], color=_COLOURS[1], marker="s", ls="--", label="published")
    axes[1].set(title=published["source"].iloc[0], xlabel=symbol, ylabel="RSUM (%)")
    for ax in axes:
        if log_x:
            ax.set_xscale("log", base=2)
            ax.set_xticks(sorted(set(ours[x]) | set(published[x])))
            ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        ax.legend(frameon=False)
    return fig


def variants(table: pd.DataFrame, metrics: Sequence[str] = ("rsum annotated", "rsum exhaustive")) -> Figure:
    """Mean and 95 % interval of each variant, one panel per metric. table: columns variant, then 'm', 'm low', 'm high' per metric m."""
    fig, axes = _start(4.4 * len(metrics), 0.5 * len(table) + 1.4, columns=len(metrics), sharey=True)
    y = np.arange(len(table))[::-1]
    for ax, metric in zip(axes, metrics, strict=True):
        low, high = table[f"{metric} low"].fillna(table[metric]), table[f"{metric} high"].fillna(table[metric])
        ax.errorbar(table[metric], y, xerr=[table[metric] - low, high - table[metric]], fmt="o", color=_COLOURS[0], capsize=3, lw=1.5)
        ax.set(xlabel=metric.replace("rsum", "RSUM (%),"), yticks=y, yticklabels=table["variant"])
        ax.margins(y=0.15)
    return fig


def learning_curves(history: pd.DataFrame) -> Figure:
    """Loss per epoch and validation RSUM per epoch of one run. history: columns epoch, loss, value (fraction sum)."""
    fig, axes = _start(8.6, 3.2, columns=2)
    axes[0].plot(history["epoch"] + 1, history["loss"], marker="o", color=_COLOURS[0])
    axes[0].set(xlabel="epoch", ylabel="training loss")
    axes[1].plot(history["epoch"] + 1, 100 * history["value"], marker="o", color=_COLOURS[2])
    axes[1].set(xlabel="epoch", ylabel="validation RSUM (%)")
    for ax in axes:
        ax.xaxis.get_major_locator().set_params(integer=True)
    return fig


def gallery(corpus: Corpus, side: Side, n: int = 12, columns: int = 4, captions: int = 2) -> Figure:
    """The first pictures of a split with their first captions underneath. Only for corpora whose pictures may be shown."""
    rows = side.image_rows[:n]
    fig, axes = plt.subplots(
        -(-n // columns), columns, figsize=(2.6 * columns, (2.1 + 0.36 * captions) * -(-n // columns)), layout="constrained"
    )
    for ax, picture, row in zip(axes.flat, corpus.read_pixels(rows), rows, strict=False):
        texts = corpus.captions["text"][corpus.captions["image_id"] == corpus.images.index[row]].tolist()[:captions]
        ax.imshow(picture, interpolation="nearest")
        ax.set_title("\n".join(_wrapped(t) for t in texts), fontsize=7, y=-0.05, va="top")
    for ax in axes.flat:
        ax.axis("off")
    return fig


def ambiguity(counts: dict[str, np.ndarray], gallery_size: int) -> Figure:
    """How many pictures a caption fits, as the share of captions that fit more than n. counts: label → pictures per caption."""
    fig, (ax,) = _start(5.6, 3.4)
    for (label, n), colour, style in zip(counts.items(), _COLOURS, ("-", "--", ":", "-."), strict=False):
        ordered = np.sort(n)
        ax.step(ordered, 1 - np.arange(len(n)) / len(n), where="post", label=label, color=colour, ls=style)
    ax.set(xscale="log", yscale="log", xlabel=f"pictures a caption fits (of {gallery_size:,})", ylabel="share of captions that fit as many")
    ax.legend(frameon=False, title="ambiguity")
    return fig


def _wrapped(text: str, width: int = 42) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, width)[:2])
