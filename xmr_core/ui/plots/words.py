"""Figures of captions word by word, beside the image that they were compared with."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

from xmr_core.base.errors import BadInput
from xmr_core.base.regular import plain_math
from xmr_core.ui.plots.style import COLOURS, start

Line = tuple[UInt8[np.ndarray, "h w 3"], str, Sequence[str], Mapping[str, Sequence[float]]]


def word_weights(lines: Sequence[Line], colours: Sequence[int] = ()) -> Figure:
    """One row for each comparison of an image with a caption: the image, then a panel of bars for each kind of weight.

    lines: (image, title, words, name of the weights → one number a word). colours: number of the colour of each row in
    the palette. Panels of one kind share their scale.
    Raises: BadInput for no line, or another number of weights than words.

    >>> image = np.zeros((4, 4, 3), np.uint8)
    >>> figure = word_weights([(image, "right", ["a", "ring"], {"SAF": [0.2, 0.8], "SGR": [0.5, 0.6]})])
    >>> [ax.get_title(loc="left") for ax in figure.axes]
    ['', 'right', '']
    """
    if not lines or any(len(v) != len(words) for _, _, words, kinds in lines for v in kinds.values()):
        raise BadInput("word_weights needs a line, and a weight for each word.")
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
