"""Maps of set elements."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from xmr_core.ui.plots.style import COLOURS, start

_SHAPES = {"image": "o", "caption": "^"}


def element_maps(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """One panel per similarity; colour says which element of its set a point is, shape on which side it is.

    tables: label → columns x, y, side, element of analysis.element_map. Axes have no unit and no direction.
    """
    fig, axes = start(3.7 * len(tables), 4.1, columns=len(tables))
    elements = sorted({e for table in tables.values() for e in table["element"]})
    for ax, (label, table) in zip(axes, tables.items(), strict=True):
        for (side, element), part in table.groupby(["side", "element"]):
            colour = COLOURS[elements.index(element) % len(COLOURS)]
            ax.scatter(part["x"], part["y"], s=11, color=colour, marker=_SHAPES[side], alpha=0.6, lw=0, rasterized=True)
        ax.set(title=label, xticks=[], yticks=[])
        ax.set_aspect("equal", adjustable="datalim")
    handles = [Line2D([], [], color=COLOURS[n % len(COLOURS)], marker="s", ls="", label=f"element {e + 1}") for n, e in enumerate(elements)]
    handles += [Line2D([], [], color="0.3", marker=shape, ls="", label=side) for side, shape in _SHAPES.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return fig
