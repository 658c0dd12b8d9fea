"""Figures that contain images. Use them only for corpora whose images may be shown."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus
from xmr_core.data.batches import Split
from xmr_core.ui.plots.style import wrapped

_DIM = 0.7  # how bright a cell without weight is among many small ones, where dark cells would hide objects


def gallery(corpus: Corpus, split: Split, n: int = 12, columns: int = 4, captions: int = 2) -> Figure:
    """The first n images of a split, each with its first captions below it."""
    rows = split.image_rows[:n]
    lines = -(-n // columns)
    fig, axes = _grid(lines, columns, 2.6 * columns, (2.1 + 0.36 * captions) * lines)
    for ax, image, row in zip(axes.flat, corpus.read_pixels(rows), rows, strict=False):
        own = corpus.captions["image_id"] == corpus.images.index[row]
        _show(ax, image)
        texts = corpus.captions["text"][own].tolist()[:captions]
        ax.set_title("\n".join(map(wrapped, texts)), fontsize=7, y=-0.05, va="top")
    for ax in axes.flat:
        ax.axis("off")
    return fig


def slot_attention(
    image: UInt8[np.ndarray, "h w 3"],
    maps: Float[np.ndarray, "t k l"],
    captions: Sequence[str] = (),
    own: Sequence[bool] = (),
) -> Figure:
    """Attention of each of k set elements in each of t rounds: one row per element, one column per round.

    Cells with more attention are brighter. captions: the caption nearest to each element, shown beside its row. own:
    whether it is one of the image's own captions, marked by a tick or a cross.
    Raises: BadInput for a number of cells that is not a square.

    >>> len(slot_attention(np.zeros((4, 4, 3), np.uint8), np.ones((1, 2, 4)) / 4).axes)
    4
    """
    rounds, k, _ = maps.shape
    widths = [1.0] * (rounds + 1) + ([2.2] if len(captions) else [])
    fig, axes = _grid(k, len(widths), 1.5 * sum(widths), 1.5 * k + 0.3, width_ratios=widths)
    for element, row in enumerate(axes):
        _show(row[0], image)
        row[0].set_ylabel(f"element {element + 1}", fontsize=9)
        for ax, weights in zip(row[1 : rounds + 1], maps[:, element], strict=True):
            _show(ax, dimmed(image, weights, float(maps[:, element].max()), _DIM))
        if len(captions):
            mark = "" if not len(own) else "✓ " if own[element] else "✗ "
            text = mark + wrapped(captions[element], 28, 5)
            row[-1].text(0.0, 0.5, text, fontsize=9, va="center", transform=row[-1].transAxes)
            row[-1].axis("off")
    for name, ax in zip(["image", *(f"round {t}" for t in range(1, rounds + 1))], axes[0], strict=False):
        ax.set_title(name, fontsize=9)
    if len(captions):
        axes[0, -1].set_title("nearest caption", fontsize=9, loc="left")
    return fig


def word_attention(
    image: UInt8[np.ndarray, "h w 3"], weights: Float[np.ndarray, "q l"], words: Sequence[str], columns: int = 6
) -> Figure:
    """Attention of each word to the cells of an image. weights: one row per word; all share one scale.

    Raises: BadInput for a number of cells that is not a square.

    >>> [ax.get_title() for ax in word_attention(np.zeros((4, 4, 3), np.uint8), np.ones((1, 4)), ["dog"]).axes]
    ['image', 'dog']
    """
    panels = len(words) + 1
    columns = min(columns, panels)
    lines = -(-panels // columns)
    fig, axes = _grid(lines, columns, 1.5 * columns, 1.75 * lines)
    _show(axes.flat[0], image, "image")
    for ax, word, row in zip(axes.flat[1:], words, weights, strict=False):
        _show(ax, dimmed(image, row, float(weights.max()), _DIM), word)
    for ax in axes.flat[panels:]:
        ax.set_visible(False)
    return fig


def _grid(lines: int, columns: int, width: float, height: float, **options) -> tuple[Figure, np.ndarray]:
    """A figure of panels without ticks, as an array lines × columns. width, height: in inches."""
    options |= {"figsize": (width, height), "layout": "constrained", "squeeze": False}
    options["subplot_kw"] = {"xticks": [], "yticks": []}
    return plt.subplots(lines, columns, **options)


def _show(ax: plt.Axes, image: np.ndarray, title: str = "") -> None:
    ax.imshow(image, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, fontsize=9)


def dimmed(
    image: UInt8[np.ndarray, "h w 3"], weights: Float[np.ndarray, " l"], top: float, dark: float = 0.35
) -> UInt8[np.ndarray, "h w 3"]:
    """The image, darker and greyer where the weights of its cells (a square, row by row) are small.

    top: the weight that has full brightness. dark: brightness of the grey that a cell without weight fades to.
    Raises: BadInput for a number of cells that is not a square.

    >>> dimmed(np.full((2, 2, 3), 200, np.uint8), np.array([1.0, 0.0, 0.0, 0.0]), 1.0)[:, :, 0].tolist()
    [[200, 89], [89, 89]]
    """
    edge = round(len(weights) ** 0.5)
    if edge * edge != len(weights):
        raise BadInput(
            f"{len(weights)} cells are not a square grid; attention over detected regions needs their boxes, "
            "which the corpus does not have."
        )
    height, width = image.shape[:2]
    shares = (weights / max(top, 1e-12)).reshape(edge, edge)
    rows, columns = np.arange(height) * edge // height, np.arange(width) * edge // width
    light = 0.15 + 0.85 * np.sqrt(shares[rows][:, columns])  # the root makes small weights visible
    grey = image.mean(-1, keepdims=True) * dark
    return np.clip(grey + (image - grey) * light[..., None], 0, 255).astype(np.uint8)
