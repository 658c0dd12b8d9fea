"""Figures of single items and what a method finds for them. Use those with images only where images may be shown."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from matplotlib.figure import Figure

from xmr_core.base.regular import plain_math
from xmr_core.ui.plots.style import COLOURS, start, wrapped

_RIGHT, _OTHER = "#029e73", "#bbbbbb"


def ends_of_scale(table: pd.DataFrame, xlabel: str, each: int = 12) -> Figure:
    """The words at both ends of a scale as bars. table: columns word, value, of analysis.word_uncertainty.

    >>> table = pd.DataFrame({"word": ["cat", "dog"], "value": [1.0, 0.0]})
    >>> len(ends_of_scale(table, "uncertainty", each=1).axes)
    2
    """
    fig, axes = start(8.4, 0.3 * each + 1.2, columns=2, sharex=True)
    ends = (("most uncertain", table.head(each)), ("most certain", table.tail(each).iloc[::-1]))
    for ax, (title, part), colour in zip(axes, ends, COLOURS, strict=False):
        heights = np.arange(len(part))[::-1]
        ax.hlines(heights, table["value"].mean(), part["value"], color=colour, lw=2)
        ax.plot(part["value"], heights, ls="", marker="o", color=colour)
        ax.axvline(table["value"].mean(), color="0.4", lw=0.8)
        ax.set(title=title, xlabel=xlabel, yticks=heights, yticklabels=part["word"])
    return fig


def with_texts(images: UInt8[np.ndarray, "n h w 3"], texts: Sequence[str], titles: Sequence[str]) -> Figure:
    """Images beside each other, each with a title above and a text below.

    >>> len(with_texts(np.zeros((2, 4, 4, 3), np.uint8), ["a", "b"], ["1", "2"]).axes)
    2
    """
    fig, axes = start(2.0 * len(images), 3.4, columns=len(images))
    for ax, image, text, title in zip(axes, images, texts, titles, strict=True):
        ax.imshow(image)
        ax.set_title(plain_math(title), fontsize=9)
        ax.text(0.0, -0.04, plain_math(text), fontsize=7.5, va="top", transform=ax.transAxes)
        ax.axis("off")
    return fig


def with_answers(rows: Sequence[tuple[str, Sequence[tuple[np.ndarray, str, bool]]]]) -> Figure:
    """One line per query: its text, then images, each with a title; right answers have a green frame.

    >>> image = np.zeros((4, 4, 3), np.uint8)
    >>> len(with_answers([("a dog", [(image, "own image", True), (image, "1", False)])]).axes)
    3
    """
    columns = max(len(images) for _, images in rows)
    size, ratios = (1.1 * columns + 2.4, 1.25 * len(rows)), [1.6, *[1.0] * columns]
    fig, axes = start(*size, columns=columns + 1, rows=len(rows), width_ratios=ratios)
    for line, (text, images) in zip(axes.reshape(len(rows), -1), rows, strict=True):
        line[0].text(0.0, 0.5, wrapped(text, 26, 6), fontsize=8.5, va="center", transform=line[0].transAxes)
        for ax, (image, title, right) in zip(line[1:], images, strict=False):
            ax.imshow(image)
            ax.set_title(plain_math(title), fontsize=8)
            for spine in ax.spines.values():
                spine.set(visible=True, color=_RIGHT if right else _OTHER, linewidth=3)
        for ax in line:
            ax.set(xticks=[], yticks=[])
            ax.grid(visible=False)
        line[0].axis("off")
    return fig
