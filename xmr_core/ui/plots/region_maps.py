"""Figures of detected regions: where in an image a method looks, drawn as boxes."""

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from xmr_core.base.errors import BadInput
from xmr_core.ui.plots.style import start

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
