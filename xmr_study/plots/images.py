"""Figures that contain images or regions, captions word by word, and answers. Only for images that may be shown."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from xmr_core.base.errors import BadInput
from xmr_core.base.paths import plain_math
from xmr_core.base.types import Corpus
from xmr_core.data.batches import Split
from xmr_study.plots.style import COLOURS, start, wrapped


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

    Lines enclose where an element has half of its largest weight, thin ones a quarter. captions: the caption nearest to
    each element, shown beside its row. own: whether it is one of the image's own captions, marked by a tick or a cross.

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
            _attend(ax, image, weights, float(maps[:, element].max()))
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
    """Attention of each word to the cells of an image, as lines at half of the largest weight and, thin, a quarter of
    it. weights: one row per word; all share one scale.

    >>> [ax.get_title() for ax in word_attention(np.zeros((4, 4, 3), np.uint8), np.ones((1, 4)), ["dog"]).axes]
    ['image', 'dog']
    """
    panels = len(words) + 1
    columns = min(columns, panels)
    lines = -(-panels // columns)
    fig, axes = _grid(lines, columns, 1.5 * columns, 1.75 * lines)
    _show(axes.flat[0], image, "image")
    for ax, word, row in zip(axes.flat[1:], words, weights, strict=False):
        _attend(ax, image, row, float(weights.max()), word)
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


def _attend(ax: plt.Axes, image: np.ndarray, weights: np.ndarray, top: float, title: str = "") -> None:
    """The image, a little faded, and lines around the cells with half and a quarter of the weight `top`."""
    edge, (height, width) = round(len(weights) ** 0.5), image.shape[:2]
    _show(ax, (0.7 * image + 0.3 * 255).astype(np.uint8), title)
    ends = [np.r_[-0.5, (np.arange(edge) + 0.5) * n / edge - 0.5, n - 0.5] for n in (width, height)]
    cells = np.pad(weights.reshape(edge, edge), 1, mode="edge")  # so that lines reach the border
    halo = [withStroke(linewidth=3.2, foreground="white")]
    for level, line in ((0.25, 0.9), (0.5, 1.8)):
        if cells.min() < level * top < cells.max():
            drawn = ax.contour(*ends, cells, levels=[level * top], colors="black", linewidths=line)
            drawn.set_path_effects(halo)


def dimmed(
    image: UInt8[np.ndarray, "h w 3"], weights: Float[np.ndarray, " l"], top: float
) -> UInt8[np.ndarray, "h w 3"]:
    """The image, darker and greyer where the weights of its cells (a square, row by row) are small.

    top: the weight that has full brightness; a cell without weight fades to a dark grey.

    >>> dimmed(np.full((2, 2, 3), 200, np.uint8), np.array([1.0, 0.0, 0.0, 0.0]), 1.0)[:, :, 0].tolist()
    [[200, 89], [89, 89]]
    """
    edge = round(len(weights) ** 0.5)
    height, width = image.shape[:2]
    shares = (weights / max(top, 1e-12)).reshape(edge, edge)
    rows, columns = np.arange(height) * edge // height, np.arange(width) * edge // width
    light = 0.15 + 0.85 * np.sqrt(shares[rows][:, columns])  # the root makes small weights visible
    grey = image.mean(-1, keepdims=True) * 0.35
    return np.clip(grey + (image - grey) * light[..., None], 0, 255).astype(np.uint8)


# Figures of detected regions: where in an image a method looks, drawn as boxes.


_COLOUR = "#de8f05"


def region_attention(
    image: UInt8[np.ndarray, "h w 3"],
    boxes: Float[np.ndarray, "l 4"],
    weights: Float[np.ndarray, "q l"],
    names: list[str],
    unit: str = "pixels",
    strongest: int = 3,
) -> Figure:
    """Attention to the regions of an image, one panel for each row of weights: the regions with most of it as boxes.

    boxes: x1 y1 x2 y2, as `corpus.boxes` has them. weights: not negative, one for each region; a box is the more opaque
    the more it has, and all panels share one scale. names: the titles of the panels (words, or elements). unit:
    'pixels' of this image, or 'relative', 0 to 1 of its width and height. strongest: boxes drawn in a panel.
    Raises: BadInput for weights or boxes of another number of regions.

    >>> figure = region_attention(np.zeros((4, 4, 3), np.uint8), np.array([[0, 0, 2, 2.]]), np.ones((1, 1)), ["dog"])
    >>> [ax.get_title() for ax in figure.axes], len(figure.axes[1].patches)
    (['image', 'dog'], 1)
    """
    if boxes.shape != (weights.shape[1], 4):
        raise BadInput(f"one box of 4 numbers is needed for each region, got {boxes.shape} for {weights.shape[1]}.")
    height, width = image.shape[:2]
    corners = boxes * (np.array([width, height, width, height]) if unit == "relative" else 1.0)
    fig, axes = start(2.3 * (len(names) + 1), 2.5, columns=len(names) + 1)
    top = float(weights.max(initial=0)) or 1.0
    for ax, name, row in zip(axes, ["image", *names], [np.zeros(len(boxes)), *weights], strict=True):
        ax.imshow(image)
        ax.set_title(name, fontsize=9)
        ax.axis("off")
        for region in np.argsort(-row, kind="stable")[:strongest]:
            if row[region] > 0:
                x1, y1, x2, y2 = corners[region]
                share = float(row[region]) / top
                box = {"fill": False, "edgecolor": _COLOUR, "linewidth": 1 + 2 * share, "alpha": 0.25 + 0.75 * share}
                ax.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, **box))
    return fig


# Figures of captions word by word, beside the image that they were compared with.


Line = tuple[UInt8[np.ndarray, "h w 3"], str, Sequence[str], Mapping[str, Sequence[float]]]


def word_weights(lines: Sequence[Line], colours: Sequence[int] = ()) -> Figure:
    """One row for each comparison of an image with a caption: the image, then a panel of bars for each kind of weight.

    lines: (image, title, words, name of the weights → one number a word). colours: number of the colour of each row in
    the palette. Panels of one kind share their scale.

    >>> image = np.zeros((4, 4, 3), np.uint8)
    >>> figure = word_weights([(image, "right", ["a", "ring"], {"SAF": [0.2, 0.8], "SGR": [0.5, 0.6]})])
    >>> [ax.get_title(loc="left") for ax in figure.axes]
    ['', 'right', '']
    """
    kinds = list(lines[0][3])
    size, ratios = (2.0 + 4.3 * len(kinds), 2.15 * len(lines)), [1.1, *[2.6] * len(kinds)]
    fig, axes = start(*size, columns=len(ratios), rows=len(lines), width_ratios=ratios)
    axes = axes.reshape(len(lines), -1)
    limits = {k: [f([0.0, *(f(line[3][k]) for line in lines)]) for f in (min, max)] for k in kinds}
    for n, (row, (image, title, words, weights)) in enumerate(zip(axes, lines, strict=True)):
        row[0].imshow(image, interpolation="nearest")
        row[0].axis("off")
        for ax, kind in zip(row[1:], kinds, strict=True):
            ax.bar(range(len(words)), weights[kind], color=COLOURS[colours[n] if len(colours) else 0], width=0.7)
            shown = [*map(plain_math, words)]
            ax.set_xticks(range(len(words)), shown, rotation=40, ha="right", fontsize=8, rotation_mode="anchor")
            ax.set_ylim(1.05 * limits[kind][0], 1.05 * limits[kind][1])
            ax.tick_params(axis="y", labelsize=8)
            ax.grid(axis="x", visible=False)
            ax.set_ylabel(kind, fontsize=8)
        row[1].set_title(plain_math(title), loc="left", fontsize=9)
    return fig


# Figures of single items and what a method finds for them. Use those with images only where images may be shown.


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


# The best answers of several methods beside each other, right and wrong ones marked.


RIGHT, TRUE, WRONG = "#029e73", "#0173b2", "#d55e00"
Mark = str  # 'annotated', 'true' (fits, but is not annotated), 'wrong' or 'unknown'
_SIGNS = {"unknown": ("", "#333333"), "annotated": ("✓", RIGHT), "true": ("●", TRUE), "wrong": ("✗", WRONG)}


def image_answers(
    queries: Sequence[str], rows: Mapping[str, Sequence[Sequence[tuple[UInt8[np.ndarray, "h w 3"], float, Mark]]]]
) -> Figure:
    """Images for sentences: a block for each sentence, in it a line for each method, best first.

    rows: label → for each sentence its (image, score, mark).

    >>> rows = {"A": [[(np.zeros((4, 4, 3), np.uint8), 0.5, "annotated")]]}
    >>> image_answers(["a dog"], rows).axes[0].get_title()
    '✓ 0.50'
    """
    most = max(len(line) for lines in rows.values() for line in lines)
    fig = plt.figure(figsize=(1.1 * most + 1.2, len(queries) * (1.3 * len(rows) + 0.45)), layout="constrained")
    blocks = np.atleast_1d(fig.subfigures(len(queries), 1, hspace=0.04))
    for n, (block, query) in enumerate(zip(blocks, queries, strict=True)):
        block.suptitle(f"“{wrapped(query, 90, 1)}”", fontsize=10)
        axes = block.subplots(len(rows), most, squeeze=False)
        for line, (label, lines) in zip(axes, rows.items(), strict=True):
            line[0].set_ylabel(wrapped(label, 12, 3), fontsize=9)
            for ax, (image, score, mark) in zip(line, lines[n], strict=False):
                sign, colour = _SIGNS[mark]
                ax.imshow(image, interpolation="nearest")
                ax.set_title(f"{sign} {score:.2f}".strip(), fontsize=8, color=colour)
                for edge in ax.spines.values():
                    edge.set(color=colour, linewidth=2.5)
        for ax in axes.flat:
            ax.set(xticks=[], yticks=[])
    return fig


def caption_answers(
    images: Sequence[UInt8[np.ndarray, "h w 3"]], rows: Mapping[str, Sequence[Sequence[tuple[str, float, Mark]]]]
) -> Figure:
    """Sentences for images: a line for each image, which stands left, and a column for each method, best first.

    rows: label → for each image its (sentence, score, mark).

    >>> figure = caption_answers([np.zeros((4, 4, 3), np.uint8)], {"A": [[("a dog", 0.5, "wrong")]]})
    >>> figure.axes[1].texts[0].get_text()
    '✗ 0.50  a dog'
    """
    most = max(len(line) for lines in rows.values() for line in lines)
    size, ratios = (1.9 + 3.7 * len(rows), (0.42 * most + 0.3) * len(images)), [1.0, *[2.2] * len(rows)]
    fig, axes = start(*size, columns=len(rows) + 1, rows=len(images), width_ratios=ratios)
    for n, (line, image) in enumerate(zip(axes.reshape(len(images), -1), images, strict=True)):
        line[0].imshow(image, interpolation="nearest")
        for ax, (label, lines) in zip(line[1:], rows.items(), strict=True):
            if n == 0:
                ax.set_title(label, fontsize=10, loc="left")
            for place, (text, score, mark) in enumerate(lines[n]):
                sign, colour = _SIGNS[mark]
                height = 1 - (place + 0.5) / most
                said = f"{sign} {score:.2f}  {wrapped(text, 46, 2)}".strip()
                ax.text(0.0, height, said, fontsize=8, va="center", color=colour, transform=ax.transAxes)
        for ax in line:
            ax.axis("off")
    return fig
