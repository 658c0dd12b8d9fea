"""Figures with pictures in them. Only for corpora whose pictures may be shown."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus
from xmr_core.data.batches import Split
from xmr_core.ui.plots.style import wrapped


def gallery(corpus: Corpus, side: Split, n: int = 12, columns: int = 4, captions: int = 2) -> Figure:
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


def cells(picture: UInt8[np.ndarray, "h w 3"], worth: Float[np.ndarray, " l"]) -> Figure:
    """What each cell of a picture is worth for a score: the picture, and bright where a cell speaks for the match."""
    fig, axes = plt.subplots(1, 2, figsize=(4.4, 2.4), layout="constrained")
    axes[0].imshow(picture, interpolation="nearest")
    axes[0].set_title("picture", fontsize=9)
    good = np.clip(worth, 0, None)
    _overlay(axes[1], picture, good, float(good.max()))
    axes[1].set_title("what speaks for the match", fontsize=9)
    for ax in axes:
        ax.set(xticks=[], yticks=[])
    return fig


def meeting(
    products: Float[np.ndarray, "k l"],
    image_parts: Float[np.ndarray, " k"] | None = None,
    caption_parts: Float[np.ndarray, " l"] | None = None,
) -> Figure:
    """Cosines of every element of a picture with every element of a caption; in the labels what each adds to the score, where it is a sum."""
    k, l = products.shape
    fig, ax = plt.subplots(figsize=(1.6 + 0.8 * l, 1.1 + 0.55 * k), layout="constrained")
    shown = ax.imshow(products, cmap="cividis", vmin=min(0.0, products.min()), vmax=max(1.0, products.max()), aspect="auto")
    for i in range(k):
        for t in range(l):
            ax.text(t, i, f"{products[i, t]:.2f}", ha="center", va="center", fontsize=8, color="white" if products[i, t] < 0.6 else "black")
    label = lambda what, n, parts: f"{what} {n + 1}" + (f"\n{parts[n]:+.3f}" if parts is not None else "")  # noqa: E731
    ax.set(xticks=range(l), yticks=range(k), xlabel="elements of the caption", ylabel="elements of the picture")
    ax.set_xticklabels([label("", t, caption_parts).strip() for t in range(l)], fontsize=8)
    ax.set_yticklabels([label("", i, image_parts).strip() for i in range(k)], fontsize=8)
    ax.grid(visible=False)
    fig.colorbar(shown, label="cosine", shrink=0.8)
    return fig


def answers(asked: str, rows: dict[str, Sequence[tuple[UInt8[np.ndarray, "h w 3"], float, bool]]]) -> Figure:
    """The best pictures for a sentence, a row per method: picture, score, and ✓ where it is right. rows: label → answers, best first."""
    most = max(map(len, rows.values()))
    fig, axes = plt.subplots(len(rows), most, figsize=(1.25 * most + 0.6, 1.5 * len(rows) + 0.4), layout="constrained", squeeze=False)
    fig.suptitle(f"“{asked}”", fontsize=10)
    for line, (label, found) in zip(axes, rows.items(), strict=True):
        line[0].set_ylabel(label, fontsize=9)
        for n, ax in enumerate(line):
            ax.set(xticks=[], yticks=[])
            if n >= len(found):
                ax.axis("off")
                continue
            picture, score, right = found[n]
            ax.imshow(picture, interpolation="nearest")
            ax.set_title(f"{n + 1}. {'✓ ' if right else ''}{score:.2f}", fontsize=8)
            for edge in ax.spines.values():
                edge.set(color="#029e73" if right else "#bbbbbb", linewidth=2.5 if right else 1.0)
    return fig
