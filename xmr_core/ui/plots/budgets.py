"""Figures of quality against the number of elements that are stored and compared."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from xmr_core.ui.plots.style import legend_below, line_style, plain_numbers, start


def budgets(table: pd.DataFrame) -> Figure:
    """RSUM against the elements of an item, one panel per method and one line per way to reach a budget.

    table: columns method, model, elements, rsum (percent), seed. Lines are means over seeds; several seeds are shown as
    points. The upper axis has the products of elements that a pair costs, elements².

    >>> table = pd.DataFrame({"method": "DivE", "model": "nested", "elements": [1, 2], "rsum": [90.0, 99.0], "seed": 0})
    >>> len(budgets(table).axes)
    1
    """
    methods = list(dict.fromkeys(table["method"]))
    fig, axes = start(4.4 * len(methods), 4.3, columns=len(methods), sharey=True)
    for ax, method in zip(axes, methods, strict=True):
        part = table[table["method"] == method]
        for n, (model, line) in enumerate(part.groupby("model", sort=False)):
            mean = line.groupby("elements")["rsum"].mean()
            ax.plot(mean.index, mean, label=model, **line_style(n))
            if line["seed"].nunique() > 1:
                ax.plot(line["elements"], line["rsum"], **line_style(n) | {"ls": "", "ms": 3.5, "alpha": 0.4})
        ax.set_xscale("log", base=2)
        ax.set(title=method, xlabel="elements stored for an item")
        plain_numbers(ax, ticks := sorted(set(part["elements"])))
        above = ax.secondary_xaxis("top", functions=(np.square, np.sqrt))
        above.set_xlabel("products of elements for a pair")
        above.set_xticks([tick**2 for tick in ticks], [str(tick**2) for tick in ticks])
        above.minorticks_off()
    axes[0].set_ylabel("RSUM (sum of six recalls, %)")
    legend_below(fig, axes[0], 3)
    return fig


def budget_grid(table: pd.DataFrame) -> Figure:
    """RSUM of one model at every pair of budgets, one panel per method; the value stands in its cell.

    table: columns method, images, captions (elements), rsum (percent). Several seeds of a cell are averaged.

    >>> table = pd.DataFrame({"method": "DivE", "images": [1, 2], "captions": [1, 1], "rsum": [90.0, 99.0]})
    >>> [text.get_text() for text in budget_grid(table).axes[0].texts]
    ['90', '99']
    """
    methods = list(dict.fromkeys(table["method"]))
    fig, axes = start(3.6 * len(methods), 3.3, columns=len(methods))
    low, high = table["rsum"].min(), table["rsum"].max()
    for ax, method in zip(axes, methods, strict=True):
        cells = table[table["method"] == method].pivot_table(index="images", columns="captions", values="rsum")
        ax.imshow(cells, cmap="Blues", vmin=low - (high - low) / 2, vmax=high, origin="lower")
        for (row, column), value in np.ndenumerate(cells.to_numpy()):
            dark = value > low + 0.45 * (high - low)
            ax.text(column, row, f"{value:.0f}", ha="center", va="center", color="white" if dark else "black")
        ax.set(title=method, xlabel="elements of captions", ylabel="elements of images")
        ax.set_xticks(range(cells.shape[1]), cells.columns)
        ax.set_yticks(range(cells.shape[0]), cells.index)
        ax.grid(visible=False)
    return fig
