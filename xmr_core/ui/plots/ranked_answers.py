"""The best answers of several methods beside each other, right and wrong ones marked."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

from xmr_core.ui.plots.style import start, wrapped

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
