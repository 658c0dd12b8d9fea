"""Figures with pictures in them. Only for corpora whose pictures may be shown."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure

from xmr_core.data.batches import Side
from xmr_core.errors import BadInput
from xmr_core.plots.style import wrapped
from xmr_core.types import Corpus


def gallery(corpus: Corpus, side: Side, n: int = 12, columns: int = 4, captions: int = 2) -> Figure:
    """The first pictures of a split with their first captions underneath. Only for corpora whose pictures may be shown."""
    rows = side.image_rows[:n]
    fig, axes = plt.subplots(
        -(-n // columns), columns, figsize=(2.6 * columns, (2.1 + 0.36 * captions) * -(-n // columns)), layout="constrained"
    )
    for ax, picture, row in zip(axes.flat, corpus.read_pixels(rows), rows, strict=False):
        texts = corpus.captions["text"][corpus.captions["image_id"] == corpus.images.index[row]].tolist()[:captions]
        ax.imshow(picture, interpolation="nearest")
        ax.set_title("\n".join(wrapped(t) for t in texts), fontsize=7, y=-0.05, va="top")
    for ax in axes.flat:
        ax.axis("off")
    return fig


def slot_attention(
    picture: UInt8[np.ndarray, "h w 3"], maps: Float[np.ndarray, "t k l"], captions: Sequence[str] = (), own: Sequence[bool] = ()
) -> Figure:
    """What each of k set elements looks at in each of t rounds: a row per element, a column per round, brighter where it looks.

    captions: beside each row, the caption nearest to that element; own: whether it is one of the picture's own (marked by a tick).
    Raises: BadInput for a number of cells that is no square.
    """
    rounds, k, _ = maps.shape
    beside = [2.2] if len(captions) else []
    widths = [1.0] * (rounds + 1) + beside
    fig, axes = plt.subplots(
        k, len(widths), figsize=(1.5 * sum(widths), 1.5 * k + 0.3), layout="constrained", squeeze=False, width_ratios=widths
    )
    for element, row in enumerate(axes):
        row[0].imshow(picture, interpolation="nearest")
        row[0].set_ylabel(f"element {element + 1}", fontsize=9)
        for ax, weights in zip(row[1 : rounds + 1], maps[:, element], strict=True):
            _overlay(ax, picture, weights, float(maps[:, element].max()))
        for ax in row:
            ax.set(xticks=[], yticks=[])
        if beside:
            mark = "" if not len(own) else "✓ " if own[element] else "✗ "
            row[-1].text(0.0, 0.5, mark + wrapped(captions[element], 28, 5), fontsize=9, va="center", transform=row[-1].transAxes)
            row[-1].axis("off")
    for name, ax in zip(["picture", *(f"round {t}" for t in range(1, rounds + 1)), "nearest caption"], axes[0], strict=False):
        ax.set_title(name, fontsize=9, loc="left" if name == "nearest caption" else "center")
    return fig


def word_attention(
    picture: UInt8[np.ndarray, "h w 3"], weights: Float[np.ndarray, "q l"], words: Sequence[str], columns: int = 6
) -> Figure:
    """Where each word looks in the picture. weights: a row per word, on one scale for all."""
    panels = len(words) + 1
    columns = min(columns, panels)
    fig, axes = plt.subplots(
        -(-panels // columns), columns, figsize=(1.5 * columns, 1.75 * -(-panels // columns)), layout="constrained", squeeze=False
    )
    axes.flat[0].imshow(picture, interpolation="nearest")
    axes.flat[0].set_title("picture", fontsize=9)
    for ax, word, row in zip(axes.flat[1:], words, weights, strict=False):
        _overlay(ax, picture, row, float(weights.max()))
        ax.set_title(word, fontsize=9)
    for n, ax in enumerate(axes.flat):
        ax.set(xticks=[], yticks=[])
        ax.set_visible(n < panels)
    return fig


def _overlay(ax: plt.Axes, picture: np.ndarray, weights: np.ndarray, top: float) -> None:
    """The picture dimmed where the weights of its cells (a square, row by row) are small; `top` is shown at full brightness."""
    edge = round(len(weights) ** 0.5)
    if edge * edge != len(weights):
        raise BadInput(f"{len(weights)} cells are no square grid; attention over detected regions needs their boxes, which are not here.")
    height, width = picture.shape[:2]
    shares = (weights / max(top, 1e-12)).reshape(edge, edge)
    rows, columns = np.arange(height) * edge // height, np.arange(width) * edge // width
    light = 0.15 + 0.85 * np.sqrt(shares[rows][:, columns])  # the root, so that weak looks can be seen too
    grey = picture.mean(-1, keepdims=True) * 0.35
    ax.imshow(np.clip(grey + (picture - grey) * light[..., None], 0, 255).astype(np.uint8), interpolation="nearest")
